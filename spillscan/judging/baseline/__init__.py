"""Baseline: kernels and findings that a team accepted are recorded, and only new or worse ones fail.

Pure: text in, text out; ``commands/_baseline.py`` opens files and calls git. ``file`` has the lines of a baseline,
``comparing`` compares a build with it and sets the state of each finding, and ``recording`` creates and prunes it.

A recorded kernel is a kernel: it is paired with the build's kernels and compared as by ``diff``. A finding is known if
the paired record has one of the same rule, with values that are not exceeded.
"""
