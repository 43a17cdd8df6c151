"""Builds recorded by ``spillscan run``, compile commands, and the GPUs that can run the result.

In: a build; a compiler's command line; a run file. Out: reports and outputs to read; gaps for missing input.
"""

RUN_FILE = "spillscan-build.json"
"""Default name of the file that ``spillscan run`` writes (:mod:`spillscan.builds.record`)."""
