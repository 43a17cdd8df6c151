"""Kernels of two builds that are one by their machine code, whatever they are called."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from functools import cache

from msgspec import Struct

from spillscan.model import Evidence, Kernel
from spillscan.naming.identity.likeness import SAME_BYTES, code, digest
from spillscan.naming.identity.namesakes import Key, grouped
from spillscan.naming.identity.symbol import source_name

Target = Callable[[Kernel], Hashable]
"""What both kernels of a pair have in common: arch, or family of archs, and library."""


class Match(Struct, frozen=True):
    """One kernel under two names."""

    before: Kernel
    """In the base."""
    after: Kernel
    """In the head."""
    score: float
    """Above 0.95 where it is a fact, at most that where it is likely; never 1, which is an identity."""
    evidence: Evidence
    """What says so."""


MOST = 0.999
"""No rename is an identity."""
SAME = Evidence(kind="code")
"""Equal machine code, which no third kernel has."""


def by_code(
    left: list[Kernel],
    right: list[Kernel],
    paired: Sequence[tuple[Kernel, Kernel]],
    kept: Set[str],
    target: Target,
) -> Iterator[Match]:
    """Kernels of equal code, which no other of either build has, where names do not say otherwise: that one of them is
    in both builds (``kept``), or that it has a counterpart of equal arguments."""
    gone, new = ({kernel.key.symbol for kernel in side} for side in (left, right))
    for key, score in ((digest, MOST), (code, SAME_BYTES)):
        place = of_code(key, target)
        sides = [grouped((kernel for kernel in side if code(kernel) and key(kernel)), place) for side in (left, right)]
        ours, theirs = ({same: some[0] for same, some in side.items() if len(some) == 1} for side in sides)
        both = {same for same in ours.keys() & theirs.keys() if not _otherwise(ours[same], theirs[same], gone, new)}
        if both:
            both -= {place(kernel) for pair in paired for kernel in pair}
            both = {same for same in both if kept.isdisjoint((ours[same].key.symbol, theirs[same].key.symbol))}
        taken = {id(side[same]) for same in both for side in (ours, theirs)}
        yield from (Match(ours[same], theirs[same], score, SAME) for same in ours if same in both)
        left, right = ([kernel for kernel in side if id(kernel) not in taken] for side in (left, right))


def _otherwise(before: Kernel, after: Kernel, gone: set[str], new: set[str]) -> bool:
    """Whether they are instances of two templates with other arguments, and that of equal arguments is there."""
    old, now = before.key.symbol, after.key.symbol
    first, second = template(old), template(now)
    arguments = old[len(first) :], now[len(second) :]
    return arguments[0] != arguments[1] and (second + arguments[0] in new or first + arguments[1] in gone)


def of_code(key: Key, target: Target) -> Key:
    """Role, ``target`` and ``key`` of a kernel."""
    return lambda kernel: (kernel.role == "function", target(kernel), key(kernel))


def template(symbol: str) -> str:
    """``_ZN2ns5scaleIfLi4EEvPT_`` -> ``_ZN2ns5scaleI``; empty for what is no template's instance."""
    found = _leading_names().match(symbol)
    return found[0] if found else ""


@cache
def _leading_names() -> re.Pattern[str]:
    return re.compile(rf"_ZN?{source_name()}+I", re.DOTALL)
