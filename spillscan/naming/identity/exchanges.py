"""Kernels that kept their names and have what another had: names that may have changed places.

Where each has the machine code of the other, byte for byte, and no third kernel has it, they have: code is not equal by
chance, and who exchanges the bodies of two functions has exchanged their names. All else is one of several. Code that
a third kernel has as well may have come from there, or one of the two has changed besides. Figures are a few numbers:
of 5,112 kernels, half of which changed at random, up to two have each other's. Such kernels keep their names, so
that what grew is reported, though not as a fact: taken for renamed, they would hide a growth.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence, Set
from functools import lru_cache
from itertools import chain
from operator import ne

from spillscan.model import Evidence, Kernel
from spillscan.model.demangled import Function
from spillscan.model.symbols import demangle
from spillscan.naming.identity.likeness import code, digest
from spillscan.naming.identity.namesakes import MOST, SAME, Match, grouped, of_code, template

_Pair = tuple[Kernel, Kernel]
_Place = tuple[Hashable, ...]
_MOST_RIVALS = 16
"""Of more kernels of one code or record nothing is said."""

_NONE: Set[str] = frozenset()


def swapped(pairs: Sequence[_Pair]) -> list[Match]:
    """Pairs of one identity whose names have changed places: each has the code now that another one had, which no third
    has. What such kernels are is said by their code, not by their names."""
    differing = [pair for pair in pairs if code(pair[0]) and None not in map(digest, pair) and _apart(*pair)]
    place = of_code(digest, lambda kernel: kernel.key.arch)
    sides = [grouped((pair[at] for pair in differing), place) for at in (0, 1)]
    crossing = {key for key in sides[0].keys() & sides[1].keys() if len(sides[0][key]) == len(sides[1][key]) == 1}
    if not crossing:
        return []
    times = [Counter(place(pair[at]) for pair in pairs) for at in (0, 1)]
    crossing = {key for key in crossing if times[0][key] == times[1][key] == 1}
    while True:  # what closes no circle is a kernel that has become like another
        closed = {place(before) for before, after in differing if {place(before), place(after)} <= crossing}
        if closed == crossing:
            break
        crossing = closed
    return [Match(sides[0][key][0], sides[1][key][0], MOST, SAME) for key in sides[0] if key in crossing]


def perhaps_swapped(
    pairs: Sequence[_Pair], swaps: Sequence[Match], gone: Sequence[Kernel], new: Sequence[Kernel]
) -> list[Match]:
    """Pairs of one identity of which it is open whether they have changed places: as they are, each one of N.

    A sibling, whose name is other in one part only and whose parameters are equal, had in the same object what the
    newer kernel has now, and has what the older had. Of long code one of the two suffices: the sibling may be ``gone``
    or ``new`` there, or have changed besides. Figures must cross so somewhere, and wherever both kernels are. Names
    that code has exchanged somewhere (``swaps``: those that are sure) may have been exchanged wherever they changed.
    """
    differing = [pair for pair in pairs if _apart(*pair)]
    if not differing:
        return []
    places = [[_place(each, _coded(pair)) for each in pair] for pair in differing]
    held: tuple[dict[_Place, set[str]], ...] = defaultdict(set), defaultdict(set)
    for pair, (there, here) in zip(differing, places, strict=True):
        held[0][there].add(pair[0].key.symbol)
        held[1][here].add(pair[0].key.symbol)
    for at, alone in enumerate((gone, new)):
        for each in alone:
            held[at][_place(each, digest(each) is not None)].add(each.key.symbol)
    exchanged: dict[str, dict[str, str]] = defaultdict(dict)
    for match in swaps:
        _note(exchanged, match.before.key.symbol, match.after.key.symbol)
    crossing: dict[str, set[str]] = defaultdict(set)
    met = []
    for pair, (there, here) in zip(differing, places, strict=True):
        symbol, old, now = pair[0].key.symbol, held[0].get(here, _NONE), held[1].get(there, _NONE)
        if max(len(old), len(now)) > _MOST_RIVALS:
            old, now = _NONE, _NONE
        if both := {name for name in old & now if _siblings(name, symbol)}:
            crossing[symbol] |= both
            for name in both if _long(pair) else ():
                _note(exchanged, symbol, name)
        met.append((old, now))
    _drop_contradicted(crossing, pairs)
    matches = []
    for pair, (old, now) in zip(differing, met, strict=True):
        symbol = pair[0].key.symbol
        if (old or now) and _long(pair):
            names = {name for name in old | now if _siblings(name, symbol)}
        else:
            names = {name for name in crossing.get(symbol, ()) if name in old or name in now}
        likely = {_function(name): name for name in names}
        if exchanged:
            likely |= exchanged.get(symbol) or exchanged.get(_function(symbol)) or {}
        if likely:
            rule = f"{demangle(symbol)} ↔ {demangle(min(likely.values()))}"
            matches.append(Match(*pair, 1.0, Evidence(rule=rule, one_of=1 + len(likely))))
    return matches


def _note(exchanged: dict[str, dict[str, str]], symbol: str, name: str) -> None:
    """Two names that were exchanged: of two templates, of all their instances."""
    key = _function(symbol)
    exchanged[symbol if key == _function(name) else key][_function(name)] = name


def _function(symbol: str) -> str:
    return template(symbol) or symbol


def _drop_contradicted(crossing: dict[str, set[str]], pairs: Sequence[_Pair]) -> None:
    """Without names of which one has not, somewhere where both are, what the other had."""
    concerned = crossing.keys() | set(chain(*crossing.values()))
    some = [pair for pair in pairs if pair[0].key.symbol in concerned] if concerned else []
    known: tuple[dict[_Place, set[Hashable]], ...] = defaultdict(set), defaultdict(set)
    for pair in some:
        for at, each in enumerate(pair):
            known[at][pair[0].key.symbol, each.role, each.key.arch, each.key.unit].add(_known(each))
    for pair in some:
        names = crossing.get(pair[0].key.symbol, set())
        for at in (0, 1):
            other = pair[1 - at]
            place = other.role, other.key.arch, other.key.unit
            names -= {name for name in names if _known(other) not in known[at].get((name, *place), (_known(other),))}


def _known(kernel: Kernel) -> Hashable:
    return digest(kernel) or kernel.usage


def _coded(pair: _Pair) -> bool:
    return digest(pair[0]) is not None and digest(pair[1]) is not None


def _long(pair: _Pair) -> bool:
    """Whether the code of both is known, and long enough to say something."""
    return _coded(pair) and None not in map(code, pair)


def _apart(before: Kernel, after: Kernel) -> bool:
    """Whether they are known to differ: in their code, where both have it."""
    if _coded((before, after)):
        return digest(before) != digest(after)
    return before.usage is not after.usage and before.usage != after.usage


def _place(kernel: Kernel, coded: bool) -> _Place:
    """Where a kernel stands, and what it is known by: its code, or its figures."""
    return kernel.role, kernel.key.arch, kernel.key.unit, digest(kernel) if coded else kernel.usage


def _siblings(one: str, other: str) -> bool:
    """Whether two names are other in one part only: the function's name, its scopes or its template arguments."""
    first, second = _parts(one), _parts(other)
    return first[0] == second[0] and sum(map(ne, first[1:], second[1:])) == 1


@lru_cache(maxsize=16384)
def _parts(symbol: str) -> tuple[Hashable, ...]:
    name = Function(demangle(symbol))
    return name.parameters, name.base, (*name.scopes,), name.arguments
