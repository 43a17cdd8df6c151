"""Pairs the kernels of two builds and tells what changed. Pure: two builds in, changes out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from spillscan.model import Build, Change, Kernel, Usage

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

_Identity = Callable[[Kernel], Hashable]

# From sure to less sure; what one pairs, the next does not see.
_IDENTITIES: tuple[_Identity, ...] = (
    lambda kernel: (kernel.role == "function", kernel.key),
    lambda kernel: (kernel.role == "function", kernel.key.symbol, kernel.key.arch),
)


def diff(base: Build, head: Build) -> list[Change]:
    """Added, removed and changed kernels, most spill growth first; unchanged kernels are left out."""
    changes = []
    for before, after in pair(base.kernels, head.kernels):
        if before is None or after is None:
            state = "added" if before is None else "removed"
            changes.append(Change(state=state, before=before, after=after))  # type: ignore[arg-type]
        elif metrics := compare(before.usage, after.usage):
            changes.append(Change(state="changed", before=before, after=after, metrics=metrics))
    return sorted(changes, key=_damage)


def pair(base: Iterable[Kernel], head: Iterable[Kernel]) -> list[tuple[Kernel | None, Kernel | None]]:
    """Each kernel of either build once: with its counterpart, or alone."""
    pairs: list[tuple[Kernel | None, Kernel | None]] = []
    left, right = list(base), list(head)
    for identity in _IDENTITIES:
        befores: dict[Hashable, list[Kernel]] = defaultdict(list)
        for kernel in left:
            befores[identity(kernel)].append(kernel)
        afters: dict[Hashable, list[Kernel]] = defaultdict(list)
        for kernel in right:
            afters[identity(kernel)].append(kernel)
        left, right = [], []
        for key in dict.fromkeys((*befores, *afters)):
            ours, theirs = _align(befores.get(key, []), afters.get(key, []))
            shared = min(len(ours), len(theirs))
            pairs += zip(ours[:shared], theirs[:shared], strict=True)
            left += ours[shared:]
            right += theirs[shared:]
    return pairs + [(kernel, None) for kernel in left] + [(None, kernel) for kernel in right]


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


def _align(ours: list[Kernel], theirs: list[Kernel]) -> tuple[list[Kernel], list[Kernel]]:
    """Namesakes in an order that pairs equals with equals first, so that a pure reordering is no change."""
    if len(ours) <= 1 and len(theirs) <= 1:
        return ours, theirs
    same_ours, same_theirs, rest = [], [], list(theirs)
    for kernel in ours:
        twin = next((other for other in rest if not compare(kernel.usage, other.usage)), None)
        if twin is not None:
            rest.remove(twin)
            same_ours.append(kernel)
            same_theirs.append(twin)
    kept = set(map(id, same_ours))
    return same_ours + [kernel for kernel in ours if id(kernel) not in kept], same_theirs + rest


def _damage(change: Change) -> tuple[object, ...]:
    kernel = change.after or change.before
    assert kernel is not None
    growth = dict.fromkeys(METRICS, 0)
    if change.state == "changed":
        growth |= {name: (after or 0) - (before or 0) for name, before, after in change.metrics if name in growth}
    elif change.state == "added":
        growth |= {name: getattr(kernel.usage, name) or 0 for name in METRICS[:2]}
    spills = growth["spill_store_bytes"] + growth["spill_load_bytes"]
    order = ("changed", "added", "removed").index(change.state)
    return -spills, order, -growth["registers"], kernel.key.symbol, kernel.key.arch or "", kernel.key.unit
