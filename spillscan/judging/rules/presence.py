"""Kernels that are no longer there."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.rules import Terms, finding
from spillscan.model import Change, Finding, Rule

REMOVED = Rule(
    id="kernel-removed",
    severity="note",
    judges=("change",),
)

RULES = (REMOVED,)


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """A kernel that has no counterpart in the newer build."""
    if change.state == "removed" and change.before is not None:
        yield finding(REMOVED, "is in the older build only", change.before)
