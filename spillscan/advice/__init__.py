"""Causes and fixes of spills and low occupancy, tried settings, profiles, and the files that gate a repository.

In: kernels, profiles, compile commands. Out: ranked fixes, curves of settings, launches, texts of policies and jobs.
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
    "sweep.assembly",
    "sweep.compiling",
    "sweep.curves",
    "sweep.proposals",
    "sweep.trials",
)
"""What other packages may import from: these modules, and this one."""
