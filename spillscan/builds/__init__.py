"""Builds that are watched: the launcher inside a build, what it wrote, the run file, compile commands; and which GPUs
the result runs on.

In: a build; a compiler's command line; a run file. Out: reports and outputs to read; gaps of what is missing.
"""
