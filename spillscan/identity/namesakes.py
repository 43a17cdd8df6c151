"""Kernels of one identity: the same template in many objects, the lambdas of a function, statics of two files.

Nothing in their names tells which is which, or only a number that moves. Equals are paired with equals, the rest in
sequence, the nearest records first. None is lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields
from difflib import SequenceMatcher

from spillscan.identity.likeness import record
from spillscan.model import Kernel, Usage

_FEW = 64
"""More namesakes than this are not compared with each other, which costs their number squared."""
_NUMBERED = ("Ul", "Ut", "lambda", "unnamed", "__nv_dl_tag")
_FIGURES = tuple(field.name for field in fields(Usage) if field.name != "unknown_clauses")

_Key = Callable[[Kernel], Hashable]
_Aligned = tuple[list[tuple[Kernel, Kernel]], list[Kernel], list[Kernel]]
"""Pairs, what is left of ours, what is left of theirs."""


def is_numbered(symbol: str) -> bool:
    """Whether ``symbol`` may hold the number of a lambda or of an unnamed type; may say yes too often."""
    return any(mark in symbol for mark in _NUMBERED)


def align(ours: list[Kernel], theirs: list[Kernel]) -> _Aligned:
    """Pairs as many as the smaller group has; the rest of the larger one is left, in its order."""
    ours, theirs = sorted(ours, key=_number), sorted(theirs, key=_number)
    figures = _told(ours, theirs)
    pairs, ours, theirs = _equal(ours, theirs, lambda kernel: (kernel.key.symbol, figures(kernel)))
    if Counter(map(_symbol, ours)) == Counter(map(_symbol, theirs)):  # nothing was put in between: numbers are names
        return _added(pairs, _equal(ours, theirs, _symbol))
    if len(ours) > _FEW or len(theirs) > _FEW:
        pairs, ours, theirs = _added(pairs, _equal(ours, theirs, figures))
        pairs, ours, theirs = _added(pairs, _equal(ours, theirs, _symbol))
        return _added(pairs, _equal(ours, theirs, lambda kernel: None))
    for mine, others in _gaps(ours, theirs, figures, pairs):
        pairs += _nearest(mine, others)
    pairs += _nearest(_but(ours, pairs), _but(theirs, pairs))
    return pairs, _but(ours, pairs), _but(theirs, pairs)


def _but(kernels: list[Kernel], pairs: list[tuple[Kernel, Kernel]]) -> list[Kernel]:
    paired = {id(kernel) for pair in pairs for kernel in pair}
    return [kernel for kernel in kernels if id(kernel) not in paired]


def _gaps(
    ours: list[Kernel], theirs: list[Kernel], figures: _Key, pairs: list[tuple[Kernel, Kernel]]
) -> list[tuple[list[Kernel], list[Kernel]]]:
    """Adds to ``pairs`` the equals that stand in the same sequence on both sides; returns what is between them."""
    blocks = SequenceMatcher(
        None, list(map(figures, ours)), list(map(figures, theirs)), autojunk=False
    ).get_matching_blocks()
    gaps, mine, other = [], 0, 0
    for block in blocks:
        gaps.append((ours[mine : block.a], theirs[other : block.b]))
        mine, other = block.a + block.size, block.b + block.size
        pairs += zip(ours[block.a : mine], theirs[block.b : other], strict=True)
    return gaps


def _nearest(ours: list[Kernel], theirs: list[Kernel]) -> list[tuple[Kernel, Kernel]]:
    """Greedily the pairs with the most alike records; among equals the earlier."""
    scored = sorted(
        (-record(mine.usage, other.usage), index, position)
        for index, mine in enumerate(ours)
        for position, other in enumerate(theirs)
    )
    free_ours, free_theirs = set(range(len(ours))), set(range(len(theirs)))
    pairs = []
    for _, index, position in scored:
        if index in free_ours and position in free_theirs:
            free_ours.remove(index)
            free_theirs.remove(position)
            pairs.append((ours[index], theirs[position]))
    return pairs


def _equal(ours: list[Kernel], theirs: list[Kernel], key: _Key) -> _Aligned:
    """What agrees on ``key``, the first with the first."""
    waiting: dict[Hashable, list[Kernel]] = defaultdict(list)
    for kernel in reversed(theirs):
        waiting[key(kernel)].append(kernel)
    pairs, rest = [], []
    for kernel in ours:
        if waiting[key(kernel)]:
            pairs.append((kernel, waiting[key(kernel)].pop()))
        else:
            rest.append(kernel)
    taken = {id(after) for _, after in pairs}
    return pairs, rest, [kernel for kernel in theirs if id(kernel) not in taken]


def _added(pairs: list[tuple[Kernel, Kernel]], aligned: _Aligned) -> _Aligned:
    more, ours, theirs = aligned
    return pairs + more, ours, theirs


def _told(ours: Iterable[Kernel], theirs: Iterable[Kernel]) -> _Key:
    """A kernel's figures, those only that all kernels tell."""
    usages = [kernel.usage for kernel in (*ours, *theirs)]
    names = [name for name in _FIGURES if all(getattr(usage, name) is not None for usage in usages)]
    return lambda kernel: tuple([getattr(kernel.usage, name) for name in names])


def _symbol(kernel: Kernel) -> str:
    return kernel.key.symbol


def _number(kernel: Kernel) -> tuple[int, str]:
    """An order in which the ninth lambda stands before the tenth."""
    return len(kernel.key.symbol), kernel.key.symbol
