"""What to do about a kernel: causes and fixes, compiling it under other settings, what a profile measured, and what
a repository needs to be gated.

In: kernels, profiles, command lines. Out: ranked fixes, curves of settings, launch maps, texts of policies and
jobs.
"""

PUBLIC = (
    "causes",
    "families",
    "jobs",
    "outcomes",
    "profile.exports",
    "profile.judged",
    "profile.launchmap",
    "profile.text",
    "ranking",
    "fixes",
    "shown",
    "sweep.assembly",
    "sweep.compiling",
    "sweep.curves",
    "sweep.proposals",
    "sweep.trials",
    "trying",
)
"""What other packages may import from: these modules, and this one."""
