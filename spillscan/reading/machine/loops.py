"""Natural loops of one function, and how many of them contain an instruction.

A loop is an edge back to a place that dominates its source; its body is all code that reaches the edge without passing
that place. Counting the intervals between backward branches and their targets is not the same: slow paths at the end of
a function jump back without being loops.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spillscan.reading.machine.flow import WORD, Controls, distinct

MOST_BRANCHES = 25_000
"""Maximum branches of one function, except those that only skip code; beyond it loops are not searched for, which would
take seconds."""
_ROUNDS = 16
"""Maximum nesting of skips that are removed."""

_FAR = 1 << 62
_Numbers = NDArray[np.int64]


def depths(controls: Controls, entries: Sequence[int], points: Sequence[int] | _Numbers) -> Sequence[int | None]:
    """Loop depth of each of the ascending addresses ``points``; ``None`` if unreachable or unknown.

    ``entries``: addresses of callees in the same listing.
    """
    points = np.asarray(points, np.int64)
    if not controls.indirect.any() and not _covered(controls, points):
        return [0] * len(points)
    controls = _without_skips(controls, entries)
    if len(controls.addresses) > MOST_BRANCHES:
        return [None] * len(points)
    return Line(controls, entries).depths(points)


def _covered(controls: Controls, points: _Numbers) -> bool:
    """Whether a backward jump spans any of the points, as a loop around one requires."""
    back = (controls.targets >= 0) & (controls.targets <= controls.addresses)
    first = np.searchsorted(points, controls.targets[back])
    after = np.searchsorted(points, controls.addresses[back], side="right")
    return bool((first < after).any())


def _without_skips(controls: Controls, entries: Sequence[int]) -> Controls:
    """Controls without those that do not affect loops: predicated exits, and branches over code that contains no other
    branch, target or exit; repeatedly, since these nest."""
    addresses, targets, conditional, indirect = controls
    keep = (targets >= 0) | ~conditional | indirect
    forward = (targets > addresses).nonzero()[0]
    walls = (keep & (targets <= addresses)).nonzero()[0]
    back = targets[walls[targets[walls] >= 0]]
    # events along the code: 0 target, 1 branch, 2 wall; of branches with one target the innermost comes first
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
    """Code as a line of places in address order: labels (beginnings of the function and its callees, branch targets,
    targets of indirect branches) and controls. The code after a place, up to the next one, is a node.

    Code after an unconditional branch or exit is taken for a target of the last indirect branch before it: the cases of
    a jump table follow the jump.
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
        """Four times the address; one more for a control, two more for the code after it."""
        self.roots: list[int] = np.searchsorted(self.keys, roots).tolist()
        place = np.empty(len(keys), np.int64)
        place[order] = np.arange(len(keys))
        own = place[len(labels) :]
        ways: list[tuple[int, ...]] = [(at,) for at in range(1, len(keys))]
        ends = np.searchsorted(self.keys, 4 * np.maximum(targets, 0))
        for at, end, jumps_, goes_on in zip(
            own.tolist(), ends.tolist(), jumps.tolist(), conditional.tolist(), strict=True
        ):
            ways[at - 1] = (*((end,) if jumps_ else ()), *((at,) if goes_on else ()))
        sinks = np.searchsorted(self.keys, cases).tolist()
        for source, sink in zip(own[sources].tolist(), sinks, strict=True):
            ways[source - 1] = (sink, *ways[source - 1])
        self.ways: list[tuple[int, ...]] = [*ways, ()]
        """Successors of each node."""

    def depths(self, points: _Numbers) -> list[int | None]:
        """See :func:`depths`."""
        nest = loop_depths(self.ways, self.roots)
        return [nest[place] for place in (np.searchsorted(self.keys, 4 * points, side="right") - 1).tolist()]


_NONE = np.empty(0, np.int64)


def _cases(controls: Controls, labels: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Possible targets of indirect branches: indices of the branches, and keys of :class:`Line`. ``labels``: keys of
    all other labels."""
    addresses, _, conditional, indirect = controls
    tables = np.flatnonzero(indirect)
    ends = np.flatnonzero(~conditional)
    named = np.append(distinct(labels) // 4, _FAR)
    following = named[np.searchsorted(named, addresses[ends], side="right")]
    ends = ends[following - addresses[ends] > 2 * WORD]  # else the code that follows has a label
    table = np.searchsorted(addresses[tables], addresses[ends], side="right") - 1
    ends, table = ends[table >= 0], table[table >= 0]
    return tables[table], 4 * addresses[ends] + 2


def loop_depths(ways: Sequence[Sequence[int]], roots: Sequence[int]) -> list[int | None]:
    """Natural loops around each node of a graph; ``None``: unreachable. ``ways``: successors of each node."""
    order = _postorder([*ways, tuple(roots)])  # the last one leads to all roots
    number = {node: at for at, node in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for at, node in enumerate(order[:-1]):
        for way in ways[node]:
            before[number[way]].append(at)
    for root in roots:
        before[number[root]].append(len(order) - 1)
    heads, outer = loop_bodies(before, dominators(before))
    depths = [0] * len(order)
    for at in range(len(order) - 2, -1, -1):  # the head of a loop has a greater number than its body
        around = depths[outer[at]] if outer[at] >= 0 else 0
        depths[at] = around + heads[at]
    return [depths[number[node]] if node in number else None for node in range(len(ways))]


def _postorder(ways: Sequence[Sequence[int]]) -> list[int]:
    """Nodes that the last one reaches, in postorder: each after its successors."""
    order: list[int] = []
    seen = bytearray(len(ways))
    seen[-1] = 1
    work = [(len(ways) - 1, iter(ways[-1]))]
    while work:
        node, rest = work[-1]
        way = next((each for each in rest if not seen[each]), None)
        if way is None:
            order.append(node)
            work.pop()
        else:
            seen[way] = 1
            work.append((way, iter(ways[way])))
    return order


def dominators(before: Sequence[Sequence[int]]) -> list[int]:
    """Immediate dominator of each node, by Cooper, Harvey and Kennedy ("A Simple, Fast Dominance Algorithm", 2001).
    Nodes are numbers in postorder, the entry last; ``before``: predecessors of each."""
    entry = len(before) - 1
    above = [-1] * entry + [entry]
    changed = True
    while changed:
        changed = False
        for node in range(entry - 1, -1, -1):
            common = -1
            for other in before[node]:
                if above[other] >= 0:
                    one, two = other, common if common >= 0 else other
                    while one != two:
                        while one < two:
                            one = above[one]
                        while two < one:
                            two = above[two]
                    common = one
            if above[node] != common:
                above[node], changed = common, True
    return above


def loop_bodies(before: Sequence[Sequence[int]], above: Sequence[int]) -> tuple[list[bool], list[int]]:
    """Whether each node is the head of a loop, and the head of the innermost loop around it (for a head: of the loop
    around its own); -1: none. ``above``: immediate dominators. An inner loop is one node of the loops around it."""
    count = len(above)
    size, first, free = [1] * count, [0] * count, [1] * count
    for node in range(count - 1):
        size[above[node]] += size[node]
    for node in range(count - 2, -1, -1):  # places in a walk of the dominator tree
        first[node] = free[above[node]]
        free[above[node]] += size[node]
        free[node] = first[node] + 1
    heads, outer, merged = [False] * count, [-1] * count, [*range(count)]

    def outermost(node: int) -> int:
        top = node
        while merged[top] != top:
            top = merged[top]
        while merged[node] != top:
            merged[node], node = top, merged[node]
        return top

    for head in range(count - 1):
        reaching = [tail for tail in before[head] if first[head] <= first[tail] < first[head] + size[head]]
        heads[head] = bool(reaching)
        while reaching:
            node = outermost(reaching.pop())
            if node != head:
                merged[node] = outer[node] = head
                reaching += before[node]
    return heads, outer
