"""Natural loops of one function: how many of them hold an instruction.

A loop is an edge back to a place that dominates it; its body is what reaches the edge without passing that place.
Counting the intervals between backward branches and their targets is not the same: slow paths at the end of a function
jump back without being loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from spillscan.reading.machine.flow import WORD, Controls, Flow, distinct

MOST_BRANCHES = 25_000
"""Of one function, those that only skip something apart: of more no loop is looked for, which would take seconds."""
_ROUNDS = 16
"""How deep skips that are nested in skips are left out."""

_LABEL, _LEAVES = -1, -2
_FAR = 1 << 62
_Numbers = NDArray[np.int64]
_Flags = NDArray[np.bool_]


def depths(controls: Controls, entries: Sequence[int], points: Sequence[int] | _Numbers) -> Sequence[int | None]:
    """Loop depth of each of the ascending addresses ``points``; ``None`` where nothing leads to it, or not known.

    ``entries`` are the addresses where callees begin that the same listing holds.
    """
    points = np.asarray(points, np.int64)
    if not controls.indirect.any() and not _covered(controls, points):
        return [0] * len(points)
    controls = _without_skips(controls, entries)
    if len(controls.addresses) > MOST_BRANCHES:
        return [None] * len(points)
    return Line(controls, entries).depths(points)


class Depths(Sequence[int | None]):
    """What :func:`depths` finds, when it is looked at: of most functions only sums are asked for."""

    __slots__ = ("_asked", "_known")

    def __init__(self, flow: Flow, points: _Numbers) -> None:
        self._asked: tuple[Flow, _Numbers] | None = flow, points
        self._known: Sequence[int | None] = ()

    def _all(self) -> Sequence[int | None]:
        if self._asked is not None:
            flow, points = self._asked
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
    forward = (targets > addresses).nonzero()[0]
    walls = (keep & (targets <= addresses)).nonzero()[0]
    back = targets[walls[targets[walls] >= 0]]
    # what stands along the code: 0 target, 1 branch, 2 wall; of branches with one target the innermost comes first
    inner = forward[::-1]
    walled = np.concatenate((addresses[walls], back, np.array(entries, np.int64)))
    places = np.concatenate((targets[inner] << 2, addresses[forward] << 2 | 1, walled << 2 | 2))
    order = places.argsort(kind="stable")
    owner = np.concatenate((inner, forward, np.full(len(walled), -1)))[order]
    opens = (places[order] & 3 == 1) & conditional[owner]
    for _ in range(_ROUNDS):
        skip = (opens[:-1] & (owner[:-1] == owner[1:])).nonzero()[0]
        if not len(skip):
            break
        keep[owner[skip]] = False
        rest = np.ones(len(owner), bool)
        rest[skip] = rest[skip + 1] = False
        owner, opens = owner[rest], opens[rest]
    return Controls(addresses[keep], targets[keep], conditional[keep], indirect[keep])


class Line:
    """The code as a line of places in the order of their addresses: labels (where the function and its callees begin,
    targets, what an indirect branch goes to) and controls. What stands behind a place, up to the next one, is a node.

    What stands behind a sure way out is taken for a target of the last indirect branch before it: a jump table's
    cases stand behind the jump.
    """

    def __init__(self, controls: Controls, entries: Sequence[int]) -> None:
        addresses, targets, conditional, indirect = controls
        jumps = targets >= 0
        roots = 4 * np.array(sorted({0, *entries}), np.int64)
        labels = np.concatenate((roots, 4 * targets[jumps]))
        sources, cases = _cases(controls, labels) if indirect.any() else (_NONE, _NONE)
        labels = distinct(np.concatenate((labels, cases)))
        keys = np.concatenate((labels, 4 * addresses + 1))
        order = keys.argsort(kind="stable")
        self.keys: _Numbers = keys[order]
        """Four times the address; one more for a control, two more for what stands behind it."""
        place = np.empty(len(keys), np.int64)
        place[order] = np.arange(len(keys))
        own = place[len(labels) :]
        goes: _Numbers = np.full(len(keys), _LABEL)
        goes[own] = _LEAVES
        goes[own[jumps]] = np.searchsorted(self.keys, 4 * targets[jumps])
        self._ends: _Flags = np.zeros(len(keys), bool)
        """Control does not go on behind it."""
        self._ends[own] = ~conditional
        tabled: dict[int, list[int]] = {}
        for source, sink in zip(own[sources].tolist(), np.searchsorted(self.keys, cases).tolist(), strict=True):
            tabled.setdefault(source, []).append(sink)
        self._shape = _Shape(
            goes.tobytes(),
            self._ends.tobytes(),
            tuple((source, *sinks) for source, sinks in tabled.items() if goes[source] == _LEAVES),
            tuple(np.searchsorted(self.keys, roots).tolist()),
        )

    @cached_property
    def ways(self) -> Sequence[tuple[int, ...]]:
        """By node: the nodes behind it."""
        return self._shape.ways()

    def depths(self, points: _Numbers) -> list[int | None]:
        """See :func:`depths`."""
        at = np.searchsorted(self.keys, 4 * points, side="right") - 1
        nest = _nested(self._shape, distinct(at).tobytes())
        ends = self._ends[at].tolist()
        return [None if end else nest[place] for place, end in zip(at.tolist(), ends, strict=True)]


_NONE = np.empty(0, np.int64)


def _cases(controls: Controls, labels: _Numbers) -> tuple[_Numbers, _Numbers]:
    """What indirect branches may go to, as a key of :class:`Line`, with the number of the branch. ``labels``: keys of
    what is led to in other ways."""
    addresses, _, conditional, indirect = controls
    tables = np.flatnonzero(indirect)
    ends = np.flatnonzero(~conditional)
    named = np.append(distinct(labels) // 4, _FAR)
    following = named[np.searchsorted(named, addresses[ends], side="right")]
    ends = ends[following - addresses[ends] > 2 * WORD]  # else what follows is named already
    table = np.searchsorted(addresses[tables], addresses[ends], side="right") - 1
    ends, table = ends[table >= 0], table[table >= 0]
    return tables[table], 4 * addresses[ends] + 2


class _Shape(NamedTuple):
    """Where control may go between the places of a line, wherever these stand."""

    goes: bytes
    """64 bits each: the place that a control goes to; a label, or a way out."""
    ends: bytes
    """Whether control does not go on behind it."""
    tables: tuple[tuple[int, ...], ...]
    """Indirect branches, each with the places that it may go to."""
    roots: tuple[int, ...]
    """Where the function and its callees begin."""

    def ways(self) -> list[tuple[int, ...]]:
        """By node: the nodes behind it."""
        goes, ends = np.frombuffer(self.goes, np.int64).tolist(), np.frombuffer(self.ends, np.bool_).tolist()
        ways: list[tuple[int, ...]] = [
            (at,) if to == _LABEL else ((to,) if end else (to, at)) if to >= 0 else () if end else (at,)
            for at, (to, end) in enumerate(zip(goes[1:], ends[1:], strict=True), 1)
        ]
        for source, *sinks in self.tables:
            ways[source - 1] = *sinks, *ways[source - 1]
        return [*ways, ()]


@lru_cache(maxsize=512)
def _nested(shape: _Shape, asked: bytes) -> list[int | None]:
    """How many loops hold each node, of those that are asked for. Of kernels of one template, and of one for several
    architectures, control often has the same shape: of 1,438 functions of libcuvs 527 have one of their own."""
    return _Nest(shape.ways(), shape.roots, np.frombuffer(asked, np.int64).tolist()).depths()


class _Nest:
    """The natural loops of a graph: how many hold each node. They are found from the inside out, each taken for one
    node by those around it. A jump back is one of a loop if no way to it passes its target by, which is seen while the
    loop is gathered; only where some does (it takes a jump into the middle of a loop), dominators are looked for, by
    Lengauer and Tarjan ("A fast algorithm for finding dominators in a flowgraph", 1979).

    Every way round stands between a jump back and its target. Only such nodes are numbered, and of these only what
    stands in one stretch with nodes that are asked for: as a walk into the depth meets them, from 1 on; 0 leads to all
    that others lead to.
    """

    def __init__(self, ways: Sequence[Sequence[int]], roots: Sequence[int], asked: Collection[int]) -> None:
        span = _spans(ways)
        wanted = {span[node] for node in asked}
        span = [each if each in wanted else 0 for each in span]
        self._reached, entries = _reached(ways, roots, span)
        self._number: list[int] = [0] * len(ways)
        """By node; 0: there is no way round."""
        self._parents: list[int] = [0]
        self._preceding: list[list[int]] = [[]]
        """By number: the numbers of the nodes that lead to it."""
        numbers, parents, preceding = self._number, self._parents, self._preceding
        work = [(entry, 0) for entry in reversed(entries)]
        while work:
            node, source = work.pop()
            if number := numbers[node]:
                preceding[number].append(source)
                continue
            number = numbers[node] = len(parents)
            parents.append(source)
            preceding.append([source])
            own = span[node]
            for behind in reversed(ways[node]):
                if span[behind] == own:
                    work.append((behind, number))  # noqa: PERF401 - two at most, and a comprehension is a call

    def depths(self) -> list[int | None]:
        """By node, of those that were asked for; ``None`` where nothing leads to it."""
        count = len(self._parents)
        last = [*range(count)]
        """The last node that the walk meets below each."""
        for number in range(count - 1, 0, -1):
            parent = self._parents[number]
            if last[parent] == parent:  # what it meets last stands below the last of those that it meets there
                last[parent] = last[number]
        inside = self._inside(range(count), last)
        if inside is None:
            inside = self._inside(*_walked(self._dominators()))
            assert inside is not None  # a dominator is passed by on no way
        around = [0] * count
        for number, loop in enumerate(inside):
            if loop != number:
                around[number] = around[loop] if loop else 0
            elif number:
                around[number] = 1 + (around[self._outer[number]] if self._outer[number] else 0)
        nodes = zip(self._number, self._reached, strict=True)
        return [around[number] if reached else None for number, reached in nodes]

    def _dominators(self) -> list[int]:
        """By number: the last node that every way to it passes."""
        count = len(self._parents)
        semi, best, ancestor, dominator = [*range(count)], [*range(count)], [0] * count, [0] * count
        waiting: list[list[int]] = [[] for _ in range(count)]
        linked = bytearray(count)

        def least(node: int) -> int:
            path = []
            while linked[node] and linked[ancestor[node]]:
                path.append(node)
                node = ancestor[node]
            for each in reversed(path):
                above = ancestor[each]
                if semi[best[above]] < semi[best[each]]:
                    best[each] = best[above]
                ancestor[each] = ancestor[above]
            found: int = best[path[0] if path else node]
            return found

        for number in range(count - 1, 0, -1):
            for before in self._preceding[number]:
                semi[number] = min(semi[number], semi[least(before)])
            waiting[semi[number]].append(number)
            parent = self._parents[number]
            ancestor[number], linked[number] = parent, 1
            for each in waiting[parent]:
                found = least(each)
                dominator[each] = found if semi[found] < parent else parent
            waiting[parent].clear()
        for number in range(1, count):
            if dominator[number] != semi[number]:
                dominator[number] = dominator[dominator[number]]
        return dominator

    def _inside(self, first: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """By number: the head of the innermost loop that holds it; 0: none. By a tree in which what stands below a
        dominator of it stands below it, of which ``first`` and ``last`` say where a walk meets each, and the last below
        it; ``None`` where others stand below one, too."""
        count, preceding = len(first), self._preceding
        inside, merged = [0] * count, [*range(count)]
        self._outer = outer = [0] * count

        def head(number: int) -> int:
            root = number
            while merged[root] != root:
                root = merged[root]
            while merged[number] != root:
                merged[number], number = root, merged[number]
            return root

        for number in range(count - 1, 0, -1):
            begin, end = first[number], last[number]
            reaching = []
            for each in preceding[number]:
                if begin <= first[each] <= end:
                    reaching.append(head(each))  # noqa: PERF401 - as a rule there is none
            if not reaching:
                continue
            inside[number] = number
            while reaching:
                node = reaching.pop()
                if node == number or merged[node] != node:
                    continue
                merged[node] = number
                if inside[node]:
                    outer[node] = number
                else:
                    inside[node] = number
                for each in preceding[node]:
                    if not begin <= first[each] <= end:
                        return None
                    reaching.append(head(each))
        return inside


def _spans(ways: Sequence[Sequence[int]]) -> list[int]:
    """By node: the number of the stretch of jumps back over each other that it stands in; 0: none."""
    farthest = {}
    """From where a node is jumped back to, at last."""
    for node, several in enumerate(ways):
        for behind in several:
            if behind <= node:
                farthest[behind] = node
    span = [0] * len(ways)
    number = 0
    end = -1
    for begin in sorted(farthest):
        if begin > end:
            number += 1
            end = begin - 1
        if (new := farthest[begin]) > end:
            span[end + 1 : new + 1] = [number] * (new - end)
            end = new
    return span


def _reached(
    ways: Sequence[Sequence[int]], roots: Sequence[int], span: Sequence[int]
) -> tuple[bytearray, Sequence[int]]:
    """By node: whether something leads to it; and what is led to from outside of its span."""
    reached = bytearray(len(ways))
    entries = dict.fromkeys(root for root in roots if span[root])
    work = list(roots)
    for root in roots:
        reached[root] = 1
    while work:
        node = work.pop()
        own = span[node]
        for behind in ways[node]:
            if (other := span[behind]) and other != own:
                entries[behind] = None
            if not reached[behind]:
                reached[behind] = 1
                work.append(behind)
    return reached, list(entries)


def _walked(above: Sequence[int]) -> tuple[list[int], list[int]]:
    """Of a tree by what stands above each: where a walk meets each, and the last that it meets below."""
    count = len(above)
    first, last = [0] * count, [*range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for number in range(1, count):
        below[above[number]].append(number)
    work, met = [0], 0
    walked: list[int] = []
    while work:
        number = work.pop()
        first[number], met = met, met + 1
        walked.append(number)
        work.extend(below[number])
    for number in reversed(walked):
        last[number] = max([first[number], *(last[each] for each in below[number])])
    return first, last
