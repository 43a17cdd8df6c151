"""Kernels that are no longer in the build."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.rules._declared import Check, Found, Terms
from spillscan.model import Change, Rule


def _removed(change: Change, terms: Terms) -> Iterator[Found]:
    if change.state == "removed":
        yield Found("was removed")


CHECKS = (Check(rule=Rule("kernel-removed", "note"), find_change=_removed),)
