"""Builds over time: a dataset of kept builds, questions to it, and audits that fill it from many files.

In: builds, folders and stores of build outputs. Out: datasets; answers, series and the builds where they turn.
"""

PUBLIC = (
    "audit",
    "audit.find",
    "audit.messages",
    "dataset",
    "dataset.answers",
    "dataset.history",
    "dataset.reading",
    "dataset.records",
    "dataset.repair",
    "dataset.sql",
    "dataset.store",
    "dataset.turns",
)
"""What other packages may import from: these modules, and this one."""
