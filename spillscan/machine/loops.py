"""Natural loops of one function: how many of them hold an instruction.

A loop is an edge back to a place that dominates it; its body is what reaches the edge without passing that place.
Counting the intervals between backward branches and their targets is not the same: slow paths at the end of a function
jump back without being loops.

No dominator is looked for. Each edge that may close a loop has a bit, and one sweep against the code, repeated where a
backward branch brings news, finds for each place which of these edges it reaches without passing their targets. An
edge whose bit arrives at a way into the code around it closes no loop: its target does not dominate it. Only such
stretches of the code are swept that backward branches span and that hold a point that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from spillscan.machine.flow import WORD, Controls, Paths, distinct

_ROUNDS = 16
"""How deep skips that are nested in skips are left out."""

_LABEL, _LEAVES = -1, -2
_FAR = 1 << 62
_Numbers = NDArray[np.int64]
_Flags = NDArray[np.bool_]


def depths(controls: Controls, entries: Sequence[int], points: Sequence[int] | _Numbers) -> Sequence[int | None]:
    """Loop depth of each of the ascending addresses ``points``; ``None`` where nothing leads to it.

    ``entries`` are the addresses where callees begin that the same listing holds.
    """
    points = np.asarray(points, np.int64)
    if not controls.indirect.any() and not _covered(controls, points):
        return [0] * len(points)
    columns = tuple(column.tobytes() for column in controls)
    return _depths(columns, tuple(entries), points.tobytes())


class Depths(Sequence[int | None]):
    """What :func:`depths` finds, when it is looked at: of most functions only sums are asked for."""

    __slots__ = ("_asked", "_known")

    def __init__(self, paths: Paths, points: _Numbers) -> None:
        self._asked: tuple[Paths, _Numbers] | None = paths, points
        self._known: Sequence[int | None] = ()

    def _all(self) -> Sequence[int | None]:
        if self._asked is not None:
            paths, points = self._asked
            flow = paths.flow()
            self._known, self._asked = depths(flow.controls(), flow.entries, points), None
        return self._known

    def __len__(self) -> int:
        return len(self._all() if self._asked is None else self._asked[1])

    @overload
    def __getitem__(self, index: int) -> int | None: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int | None]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int | None] | None:
        return self._all()[index]

    def __iter__(self) -> Iterator[int | None]:
        return iter(self._all())


@lru_cache(maxsize=64)
def _depths(columns: tuple[bytes, ...], entries: tuple[int, ...], points: bytes) -> list[int | None]:
    """Kernels of one template often differ in types only: their control flow is the same, byte by byte."""
    types = (np.int64, np.int64, np.bool_, np.bool_)
    controls = Controls(*map(np.frombuffer, columns, types))
    return _Line(_without_skips(controls, entries), entries).depths(np.frombuffer(points, np.int64))


def _covered(controls: Controls, points: _Numbers) -> bool:
    """Whether a jump back passes any of the points: a loop around one needs that."""
    back = (controls.targets >= 0) & (controls.targets <= controls.addresses)
    first = np.searchsorted(points, controls.targets[back])
    after = np.searchsorted(points, controls.addresses[back], side="right")
    return bool((first < after).any())


def _without_skips(controls: Controls, entries: Sequence[int]) -> Controls:
    """The controls without those that decide nothing: predicated ways out, and branches over what holds no other
    branch, target or way out; again and again, as these are nested."""
    addresses, targets, conditional, indirect = controls
    keep = (targets >= 0) | ~conditional | indirect
    forward = np.flatnonzero(targets > addresses)
    walls = np.flatnonzero(keep & (targets <= addresses))
    back = targets[walls[targets[walls] >= 0]]
    # what stands along the code: 0 target, 1 branch, 2 wall; of branches with one target the innermost comes first
    places = np.concatenate((targets[forward], addresses[forward], addresses[walls], back, entries)).astype(np.int64)
    what = np.repeat((0, 1, 2), (len(forward), len(forward), len(walls) + len(back) + len(entries)))
    order = np.lexsort((np.concatenate((-forward, forward, places[2 * len(forward) :])), what, places))
    owner = np.concatenate((forward, forward, np.full(len(places) - 2 * len(forward), -1)))[order]
    opens = (what[order] == 1) & conditional[owner]
    for _ in range(_ROUNDS):
        skip = np.flatnonzero(opens[:-1] & (owner[:-1] == owner[1:]))
        if not len(skip):
            break
        keep[owner[skip]] = False
        rest = np.ones(len(owner), bool)
        rest[skip] = rest[skip + 1] = False
        owner, opens = owner[rest], opens[rest]
    return Controls(addresses[keep], targets[keep], conditional[keep], indirect[keep])


class _Stretch(NamedTuple):
    """Code that backward branches span without a gap: no cycle leaves it. First and last of its places."""

    first: int
    last: int


class _Line:
    """The code as a line of places in the order of their addresses: labels (where the function and its callees begin,
    targets, what an indirect branch goes to) and controls.

    What stands behind a sure way out is taken for a target of the last indirect branch before it: a jump table's
    cases stand behind the jump.
    """

    def __init__(self, controls: Controls, entries: Sequence[int]) -> None:
        addresses, targets, conditional, indirect = controls
        jumps = targets >= 0
        tables = np.flatnonzero(indirect)
        ends = np.flatnonzero(~conditional)
        named = distinct(np.concatenate((np.array((0, *entries), np.int64), targets[jumps])))
        following = np.append(named, _FAR)[np.searchsorted(named, addresses[ends], side="right")]
        ends = ends[following - addresses[ends] > 2 * WORD]  # else what follows is named already
        table = np.searchsorted(addresses[tables], addresses[ends], side="right") - 1
        ends, table = ends[table >= 0], table[table >= 0]
        roots = 4 * distinct(np.array((0, *entries), np.int64))
        cases = 4 * addresses[ends] + 2
        labels = distinct(np.concatenate((roots, 4 * targets[jumps], cases)))
        keys = np.concatenate((labels, 4 * addresses + 1))
        order = keys.argsort(kind="stable")
        self.keys: _Numbers = keys[order]
        """Four times the address; one more for a control, two more for what stands behind it."""
        place = np.empty(len(keys), np.int64)
        place[order] = np.arange(len(keys))
        own = place[len(labels) :]
        self.goes: _Numbers = np.full(len(keys), _LABEL)
        """Place that a control goes to; a label, or a way out."""
        self.goes[own] = _LEAVES
        ways = np.searchsorted(self.keys, 4 * targets[jumps])
        self.goes[own[jumps]] = ways
        self.ends: _Flags = np.zeros(len(keys), bool)
        """Control does not go on behind it."""
        self.ends[own] = ~conditional
        self.roots: list[int] = np.searchsorted(self.keys, roots).tolist()
        cased = own[tables][table]
        self.sources: _Numbers = np.concatenate((own[jumps], cased))
        """Of all edges but those to the next place."""
        self.sinks: _Numbers = np.concatenate((ways, np.searchsorted(self.keys, cases)))
        """Where these go."""
        self.tables: dict[int, list[int]] = {}
        for source, sink in zip(cased.tolist(), self.sinks[len(ways) :].tolist(), strict=True):
            self.tables.setdefault(source, []).append(sink)

    def depths(self, points: _Numbers) -> list[int | None]:
        """See :func:`depths`."""
        onward, alive = self._reached()
        edges = alive[self.sources]
        self.sources, self.sinks = self.sources[edges], self.sinks[edges]
        at = np.searchsorted(self.keys, 4 * points, side="right") - 1
        known = alive[at] & ~self.ends[at]
        found: dict[int, int] = {}
        for stretch in self._stretches(at):
            asked = distinct(at[(at >= stretch.first) & (at <= stretch.last)]).tolist()
            found.update(zip(asked, _Sweep(self, stretch, onward, alive).counts(asked), strict=True))
        return [found.get(place, 0) if sure else None for place, sure in zip(at.tolist(), known.tolist(), strict=True)]

    def _reached(self) -> tuple[_Flags, _Flags]:
        """For each place whether control reaches it, by steps along the code only and at all.

        Where each place has a step along the code that leads to it, all are reached: only from the first on that has
        none must be looked.
        """
        count = len(self.keys)
        led = np.zeros(count, bool)
        led[self.roots] = True
        led[self.sinks[self.sinks > self.sources]] = True
        led[1:] |= ~self.ends[:-1]
        onward = np.ones(count, bool)
        lost = np.flatnonzero(~led)
        if not len(lost):
            return onward, onward
        first = int(lost[0])
        onward[first:] = False
        alive = onward.copy()
        self._spread(onward, first, along=True)
        self._spread(alive, first, along=False)
        return onward, alive

    def _spread(self, reached: _Flags, first: int, *, along: bool) -> None:
        """Mark what is reached from ``first`` on; before it everything is. Not against the code, if ``along``."""
        count = len(reached)
        flags = bytearray(count - first)
        into = (self.sinks >= first) & (self.sources < first)
        work = [*self.sinks[into].tolist(), *(root for root in self.roots if root >= first)]
        if not self.ends[first - 1]:
            work.append(first)
        goes, ends = self.goes[first:].tolist(), self.ends[first:].tolist()
        while work:
            place = work.pop()
            while place < count and not flags[place - first]:
                flags[place - first] = 1
                to = goes[place - first]
                if to >= first and (to > place or not along):
                    work.append(to)
                elif to == _LEAVES:
                    work.extend(self.tables.get(place, ()))
                if ends[place - first]:
                    break
                place += 1
        reached[first:] = np.frombuffer(flags, np.bool_)

    def _stretches(self, at: _Numbers) -> Iterator[_Stretch]:
        """Those that hold any of the places, by address."""
        back = self.sinks < self.sources
        order = self.sinks[back].argsort(kind="stable")
        begins, reach = self.sinks[back][order], np.maximum.accumulate(self.sources[back][order])
        if not len(begins):
            return
        heads = np.flatnonzero(np.append(True, begins[1:] > reach[:-1]))
        tails = np.append(heads[1:], len(begins)) - 1
        for first, last in zip(begins[heads].tolist(), reach[tails].tolist(), strict=True):
            if np.searchsorted(at, first) < np.searchsorted(at, last, side="right"):
                yield _Stretch(first, last)


class _Sweep:
    """The loops of one stretch. Places are counted from its first."""

    def __init__(self, line: _Line, stretch: _Stretch, onward: _Flags, alive: _Flags) -> None:
        first, last = stretch
        inside = slice(first, last + 1)
        self.first = first
        self.ends: list[bool] = line.ends[inside].tolist()
        goes = line.goes[inside]
        goes = np.where(goes < 0, goes, np.where((goes < first) | (goes > last), _LEAVES, goes - first))
        self.goes: list[int] = goes.tolist()
        sources, sinks = line.sources - first, line.sinks - first
        within = (sinks >= 0) & (sinks < len(goes))
        outside = (sources < 0) | (sources >= len(goes))
        fallen_into = first > 0 and alive[first - 1] and not line.ends[first - 1]
        self.ways_in = {0} if fallen_into else set()
        """Labels that are reached from without."""
        self.ways_in.update(sinks[within & outside].tolist(), (root - first for root in line.roots))
        self.tables = {
            place - first: [sink - first for sink in cases if first <= sink <= last]
            for place, cases in line.tables.items()
            if first <= place <= last
        }
        # an edge along the code closes a loop only where its beginning is not reached along the code
        late = ~onward[inside]
        closing = np.flatnonzero(within & ~outside)
        closing = closing[(sinks[closing] < sources[closing]) | late[sources[closing]]]
        edges = set(zip(sources[closing].tolist(), sinks[closing].tolist(), strict=True))
        steps = np.flatnonzero(alive[inside][:-1] & late[:-1] & ~line.ends[inside][:-1] & (goes[1:] == _LABEL))
        edges.update((place, place + 1) for place in steps.tolist())
        self.bits = {edge: 1 << index for index, edge in enumerate(sorted(edges))}
        """Of the edges that may close a loop."""
        self.masks: dict[int, int] = {}
        """The bits of the edges to a label, by label."""
        for (_, sink), bit in self.bits.items():
            self.masks[sink] = self.masks.get(sink, 0) | bit
        self.back = [edge for edge in self.bits if edge[1] < edge[0]]

    def counts(self, asked: Sequence[int]) -> list[int]:
        """The number of loops around what stands behind each of some places."""
        behind, before = self._fixed_point()
        refuted = 0
        for way in self.ways_in:
            if 0 <= way < len(before):
                refuted |= before[way]
        loops = [loop for mask in self.masks.values() if (loop := mask & ~refuted)]
        found = [behind[place - self.first] for place in asked]
        known = {bits: sum(bits & loop != 0 for loop in loops) for bits in set(found)}
        return [known[bits] for bits in found]

    def _fixed_point(self) -> tuple[list[int], list[int]]:
        """The bits that are reached from what stands behind each place, and from before each label."""
        goes, ends, bits, masks = self.goes, self.ends, self.bits, self.masks
        size = len(goes)
        own = [bits.get((place, to), 0) if to >= 0 else 0 for place, to in enumerate(goes)]
        behind, before = [0] * size, [0] * size
        top = size - 1
        while top >= 0:
            used = [before[sink] for _, sink in self.back]
            state = behind[top]
            for place in range(top, -1, -1):
                behind[place] = state
                to = goes[place]
                if to >= 0:
                    way = before[to] | own[place]
                    state = way if ends[place] else state | way
                elif to == _LABEL:
                    if place in masks:
                        before[place] = state & ~masks[place]
                        state = before[place] | bits.get((place - 1, place), 0)
                    else:
                        before[place] = state
                else:
                    way = 0
                    for sink in self.tables.get(place, ()):
                        way |= before[sink] | bits.get((place, sink), 0)
                    state = way if ends[place] else state | way
            news = [place for (place, sink), old in zip(self.back, used, strict=True) if before[sink] != old]
            top = max(news, default=-1)
        return behind, before
