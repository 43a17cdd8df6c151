"""Vocabulary shared by readers, rules and reports: frozen records without behavior.

``None`` means that the input did not report a value. It is never 0, and 0 is never invented. ``usage`` has what a
compiler reports, ``code`` the contents of machine code, ``build`` what was read, ``findings`` what was checked; names
of ``code`` are imported from there, since most builds have no machine code.
"""

from spillscan.model.build import Build, Kernel, LinkRecord, Reading, Sidecar, Stats
from spillscan.model.findings import (
    SEVERITIES,
    BaselineState,
    Change,
    Changes,
    Delta,
    Effect,
    Evidence,
    EvidenceKind,
    Finding,
    Gap,
    Level,
    Limit,
    Rule,
    Scope,
    at_least,
)
from spillscan.model.gaps import Hidden, Issue
from spillscan.model.usage import (
    LOST_SETTING,
    Advisory,
    Confidence,
    KernelKey,
    Launch,
    LaunchBounds,
    LaunchSource,
    Origin,
    Role,
    Severity,
    Usage,
    agreement,
)

__all__ = [
    "LOST_SETTING",
    "SEVERITIES",
    "Advisory",
    "BaselineState",
    "Build",
    "Change",
    "Changes",
    "Confidence",
    "Delta",
    "Effect",
    "Evidence",
    "EvidenceKind",
    "Finding",
    "Gap",
    "Hidden",
    "Issue",
    "Kernel",
    "KernelKey",
    "Launch",
    "LaunchBounds",
    "LaunchSource",
    "Level",
    "Limit",
    "LinkRecord",
    "Origin",
    "Reading",
    "Role",
    "Rule",
    "Scope",
    "Severity",
    "Sidecar",
    "Stats",
    "Usage",
    "agreement",
    "at_least",
]
