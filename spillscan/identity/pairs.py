"""Which kernel of one build is which of another.

From sure to less sure; what one step pairs, the next does not see. Each step has a key and joins kernels of equal keys,
so its cost is that of building two dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple

from spillscan.identity.namesakes import align, is_numbered
from spillscan.identity.renames import renames
from spillscan.identity.symbol import canonical, source_file
from spillscan.model import Kernel


class Pair(NamedTuple):
    """A kernel of the base, its counterpart in the head; one of them ``None`` where there is none."""

    before: Kernel | None
    """In the base build."""
    after: Kernel | None
    """In the head build."""
    score: float = 1.0
    """1 where the identity is the same, less where they are alike."""


_Key = Callable[[Kernel], Hashable]


def pair(base: Iterable[Kernel], head: Iterable[Kernel]) -> list[Pair]:
    """Each kernel of either build once: with its counterpart, or alone.

    Device functions pair with device functions, and every kernel with one of the same arch.
    """
    left, right = list(base), list(head)
    pairs: list[tuple[Kernel, Kernel]] = []
    for key in _KEYS:
        left, right = _join(left, right, key, pairs)
        if not left or not right:
            break
    found = renames(left, right, pairs)
    gone = {id(before) for before, _, _ in found} | {id(after) for _, after, _ in found}
    return [
        *(Pair(before, after) for before, after in pairs),
        *(Pair(before, after, score) for before, after, score in found),
        *(Pair(kernel, None) for kernel in left if id(kernel) not in gone),
        *(Pair(None, kernel) for kernel in right if id(kernel) not in gone),
    ]


def _exact(kernel: Kernel) -> Hashable:
    # A lambda's number is no name: another lambda before it changes it. So its record must be the same too.
    key = kernel.key
    record = kernel.usage if is_numbered(key.symbol) else None
    return kernel.role == "function", key.symbol, key.arch, key.unit, record


def _moved(kernel: Kernel) -> Hashable:
    key = kernel.key
    record = kernel.usage if is_numbered(key.symbol) else None
    return kernel.role == "function", key.symbol, key.arch, record


def _canonical_unit(kernel: Kernel) -> Hashable:
    return _canonical(kernel), source_file(kernel.key.symbol), kernel.key.unit


def _canonical_file(kernel: Kernel) -> Hashable:
    return _canonical(kernel), source_file(kernel.key.symbol)


def _canonical(kernel: Kernel) -> Hashable:
    return kernel.role == "function", canonical(kernel.key.symbol), kernel.key.arch


_KEYS: tuple[_Key, ...] = (_exact, _moved, _canonical_unit, _canonical_file, _canonical)


def _join(
    left: list[Kernel], right: list[Kernel], key: _Key, pairs: list[tuple[Kernel, Kernel]]
) -> tuple[list[Kernel], list[Kernel]]:
    """Adds to ``pairs`` what agrees on ``key``; returns what is left of each side, in its order."""
    ours = _grouped(left, key)
    theirs = _grouped(right, key)
    left, right = [], []
    for identity, group in ours.items():
        others = theirs.pop(identity, None)
        if others is None:
            left += group
        elif len(group) == len(others) == 1:
            pairs.append((group[0], others[0]))
        else:
            joined, rest, other_rest = align(group, others)
            pairs += joined
            left += rest
            right += other_rest
    for others in theirs.values():
        right += others
    return left, right


def _grouped(kernels: list[Kernel], key: _Key) -> dict[Hashable, list[Kernel]]:
    groups: dict[Hashable, list[Kernel]] = {}
    for kernel in kernels:
        identity = key(kernel)
        group = groups.get(identity)
        if group is None:
            groups[identity] = [kernel]
        else:
            group.append(kernel)
    return groups
