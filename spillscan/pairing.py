"""Tells what changed between two builds. Pure: two builds in, changes out."""

from __future__ import annotations

from typing import Literal

from spillscan.identity.pairs import pair
from spillscan.model import Build, Change, Usage

__all__ = ["METRICS", "compare", "diff", "pair"]

METRICS = (
    "spill_store_bytes",
    "spill_load_bytes",
    "registers",
    "stack_bytes",
    "cumulative_stack_bytes",
    "local_bytes",
    "shared_bytes",
    "barriers",
)
"""What is compared, worst first. Compile time is not: it is never the same twice."""


def diff(base: Build, head: Build) -> list[Change]:
    """Added, removed, changed and renamed kernels, most spill growth first; unchanged kernels are left out."""
    changes = []
    for before, after, score in pair(base.kernels, head.kernels):
        if before is None:
            changes.append(Change(state="added", before=before, after=after))
        elif after is None:
            changes.append(Change(state="removed", before=before, after=after))
        elif (metrics := compare(before.usage, after.usage)) or score < 1:
            state: Literal["changed", "renamed"] = "changed" if score == 1 else "renamed"
            changes.append(Change(state=state, before=before, after=after, metrics=metrics, score=score))
    return sorted(changes, key=_damage)


def compare(before: Usage, after: Usage) -> tuple[tuple[str, int | None, int | None], ...]:
    """(metric, before, after) of each figure that both builds tell and that differs."""
    told = [(name, getattr(before, name), getattr(after, name)) for name in METRICS]
    banks_before, banks_after = dict(before.constant_bytes or ()), dict(after.constant_bytes or ())
    if before.constant_bytes is not None and after.constant_bytes is not None:
        told += [
            (f"constant_bytes[{bank}]", banks_before.get(bank, 0), banks_after.get(bank, 0))
            for bank in sorted(banks_before.keys() | banks_after.keys())
        ]
    # ptxas leaves out shared memory where a kernel has none; beside registers its absence says 0.
    if before.registers is not None and after.registers is not None:
        told = [(n, b or 0, a or 0) if n == "shared_bytes" and (b or a) else (n, b, a) for n, b, a in told]
    return tuple((name, b, a) for name, b, a in told if b is not None and a is not None and a != b)


def _damage(change: Change) -> tuple[object, ...]:
    kernel = change.after or change.before
    assert kernel is not None
    growth = dict.fromkeys(METRICS, 0)
    if change.before is not None and change.after is not None:
        growth |= {name: (after or 0) - (before or 0) for name, before, after in change.metrics if name in growth}
    elif change.state == "added":
        growth |= {name: getattr(kernel.usage, name) or 0 for name in METRICS[:2]}
    spills = growth["spill_store_bytes"] + growth["spill_load_bytes"]
    order = ("changed", "renamed", "added", "removed").index(change.state)
    return -spills, order, -growth["registers"], kernel.key.symbol, kernel.key.arch or "", kernel.key.unit
