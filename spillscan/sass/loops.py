"""Natural loops of one function: how many of them hold an instruction.

A loop is a branch back to a block that dominates it; its body is what reaches the branch without passing that block.
Counting the intervals between backward branches and their targets is not the same: slow paths at the end of a function
jump back without being loops.

Most branches only skip a few instructions. They are folded before any dominator is looked for: a block that is
entered at its top, left at its bottom and holds no other branch is in the same loops as what is around it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spillscan.sass.flow import Controls

_ROUNDS = 16
"""How deep skips that are nested in skips are folded at once; what is left is folded one by one."""


def depths(controls: Controls, entries: Sequence[int], points: Sequence[int]) -> Sequence[int | None]:
    """Loop depth of each of the ascending addresses ``points``; ``None`` where nothing leads to it.

    ``entries`` are the addresses where callees begin that the same listing holds.
    """
    if not controls.indirect.any() and not _covered(controls, np.array(points)):
        return [0] * len(points)
    columns = tuple(column.tobytes() for column in controls)
    return _depths(columns, tuple(entries), tuple(points))


@lru_cache(maxsize=64)
def _depths(columns: tuple[bytes, ...], entries: tuple[int, ...], points: tuple[int, ...]) -> list[int | None]:
    """Kernels of one template often differ in types only: their control flow is the same, byte by byte."""
    types = (np.int64, np.int64, np.bool_, np.bool_)
    controls = Controls(*map(np.frombuffer, columns, types))
    graph = _Graph(_fold(_without_skips(controls, entries), entries, points), entries)
    counts = graph.loop_counts()
    return [counts[graph.block_of(point)] for point in points]


def _covered(controls: Controls, points: NDArray[np.int64]) -> bool:
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


Control = tuple[int, int, bool, bool]
"""Address, target or -1, conditional, indirect."""


def _fold(controls: Controls, entries: Sequence[int], points: Sequence[int]) -> list[Control]:
    """The controls without those that only skip something or choose between two arms.

    One pass over branches and targets in the order of their addresses, with a stack of what is still open. ``[b … b]``
    is a skip: both go. ``[b … e] [b … e]`` is two arms (b conditional, e not): b goes, e becomes a skip. A way out
    right before the target, with no point of interest inside, goes with its skip. Anything else stays.
    """
    addresses, targets, conditional, indirect = (column.tolist() for column in controls)
    removed: set[int] = set()
    events: list[tuple[int, int, int]] = []  # address, 0 target | 1 source | 2 wall, index
    for index, (address, target) in enumerate(zip(addresses, targets, strict=True)):
        if target > address:
            events.append((address, 1, index))
            events.append((target, 0, -index))  # of several with one target the innermost comes first
        else:
            events.append((address, 2, index))
            if target >= 0:
                events.append((target, 2, -1))
    events.extend((entry, 2, -1) for entry in entries)
    events.sort()
    opened: list[int] = []  # index of a forward branch, or -1 - index of a wall
    wall = -1 - len(addresses)
    for address, what, index in events:
        if what == 1:
            opened.append(index)
            continue
        if what == 2:
            opened.append(wall if index < 0 else -1 - index)
            continue
        branch = -index
        if opened and opened[-1] == branch and conditional[branch]:
            opened.pop()
            removed.add(branch)
        elif len(opened) > 1 and opened[-2] == branch and conditional[branch] and opened[-1] != wall:
            top = opened[-1]
            if top >= 0 and not conditional[top]:
                del opened[-2]
                conditional[top] = True
                removed.add(branch)
                continue
            way_out = top < 0 and targets[-1 - top] < 0 and not indirect[-1 - top]
            if way_out and not _any_between(points, addresses[branch], address):
                opened[-2:] = []
                removed.update((branch, -1 - top))
            else:
                opened.append(wall)
        else:
            opened.append(wall)
    return [
        control
        for index, control in enumerate(zip(addresses, targets, conditional, indirect, strict=True))
        if index not in removed
    ]


def _any_between(points: Sequence[int], low: int, high: int) -> bool:
    at = bisect_right(points, low)
    return at < len(points) and points[at] < high


class _Graph:
    """Basic blocks and their edges; block 0 is a root in front of all entries.

    A block that nothing leads to is taken for a target of the last indirect branch before it: a jump table's cases
    stand behind the jump.
    """

    def __init__(self, controls: Sequence[Control], entries: Sequence[int]) -> None:
        starts = {0, *(2 * entry for entry in entries)}
        starts.update(2 * control[0] + 1 for control in controls)  # behind it
        starts.update(2 * control[1] for control in controls if control[1] >= 0)
        self.starts = sorted(starts)
        number = {start: index + 1 for index, start in enumerate(self.starts)}
        count = len(self.starts) + 1
        self.after: list[list[int]] = [[] for _ in range(count)]
        closing = {2 * control[0] + 1: control for control in controls}
        indirect = []
        entered = {number[0], *(number[2 * entry] for entry in entries)}
        for index in range(len(self.starts)):
            block = index + 1
            following = self.starts[index + 1] if block < len(self.starts) else None
            closed_by = closing.get(following) if following is not None else None
            if closed_by is None:
                if following is not None:
                    self.after[block].append(block + 1)
                continue
            _, target, conditional, is_indirect = closed_by
            if target >= 0:
                self.after[block].append(number[2 * target])
            if conditional and following is not None:
                self.after[block].append(block + 1)
            if is_indirect:
                indirect.append(block)
        if indirect:
            reached = {target for targets in self.after for target in targets}
            for block in range(indirect[0] + 1, count):
                if block not in reached and block not in entered:
                    self.after[indirect[bisect_right(indirect, block) - 1]].append(block)
        self.after[0] = sorted(entered)

    def block_of(self, address: int) -> int:
        """The block that holds the instruction at ``address``."""
        return bisect_right(self.starts, 2 * address)

    def loop_counts(self) -> list[int | None]:
        """For each block the number of natural loops that hold it; ``None`` where nothing leads to it."""
        order = self._reverse_postorder()
        rank = {block: index for index, block in enumerate(order)}
        before: list[list[int]] = [[] for _ in order]
        for block in order:
            for target in self.after[block]:
                before[rank[target]].append(rank[block])
        dominator = _dominators(before)
        counts: list[int | None] = [None] * len(self.after)
        inside = [0] * len(order)
        for header, sources in enumerate(before):
            latches = [source for source in sources if source >= header and _dominates(dominator, header, source)]
            if not latches:
                continue
            body = {header}
            work = latches
            while work:
                block = work.pop()
                if block not in body:
                    body.add(block)
                    work.extend(before[block])
            for block in body:
                inside[block] += 1
        for index, block in enumerate(order):
            counts[block] = inside[index]
        return counts

    def _reverse_postorder(self) -> list[int]:
        seen = bytearray(len(self.after))
        seen[0] = 1
        order: list[int] = []
        stack = [(0, iter(self.after[0]))]
        while stack:
            block, targets = stack[-1]
            for target in targets:
                if not seen[target]:
                    seen[target] = 1
                    stack.append((target, iter(self.after[target])))
                    break
            else:
                order.append(block)
                stack.pop()
        order.reverse()
        return order


def _dominators(before: list[list[int]]) -> list[int]:
    """Immediate dominators in reverse postorder (Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm")."""
    dominator = [-1] * len(before)
    dominator[0] = 0
    changed = True
    while changed:
        changed = False
        for block in range(1, len(before)):
            new = -1
            for other in before[block]:
                if dominator[other] < 0:
                    continue
                if new < 0:
                    new = other
                    continue
                while new != other:
                    if new > other:
                        new = dominator[new]
                    else:
                        other = dominator[other]  # noqa: PLW2901
            if dominator[block] != new:
                dominator[block] = new
                changed = True
    return dominator


def _dominates(dominator: list[int], block: int, other: int) -> bool:
    while other > block:
        other = dominator[other]
    return other == block
