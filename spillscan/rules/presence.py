"""Kernels that are no longer there."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Change, Finding, Rule
from spillscan.rules import Terms, finding

REMOVED = Rule(
    id="kernel-removed",
    severity="note",
    judges=("change",),
    title="The kernel is in the older build only",
    means="No kernel of the newer build has its symbol and arch, nor is any like enough to be the same kernel under "
    "another name.",
    matters="It was deleted, is no longer instantiated, or its source was not compiled this time. An incremental build "
    "prints only what it compiled: compare whole builds.",
    remedy="Nothing, if it was meant.",
    tuning="It is a note and fails a gate only under `fail_on: note`.",
)

RULES = (REMOVED,)


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """A kernel that has no counterpart in the newer build."""
    if change.state == "removed" and change.before is not None:
        yield finding(REMOVED, "is in the older build only", change.before)
