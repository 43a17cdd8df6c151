"""Kernels that are no longer there."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.rules._declared import Family, Said, Terms
from spillscan.model import Change, Rule

REMOVED = Rule("kernel-removed", "note", ("change",))


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """A kernel that has no counterpart in the newer build."""
    if change.state == "removed":
        yield REMOVED, "was removed"


FAMILIES = (Family(rules=(REMOVED,), regressions=regressions),)
