"""Natural loops of one function, and how many of them contain an instruction.

A loop is an edge back to a place that dominates its source; its body is all code that reaches the edge without passing
that place. Counting the intervals between backward branches and their targets is not the same: slow paths at the end of
a function jump back without being loops.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter

from spillscan.reading.machine.flow import WORD, Branch

MOST_BRANCHES = 25_000
"""Maximum branches of one function, except those that only skip code; beyond it loops are not searched for, which would
take seconds."""


@lru_cache(maxsize=1024)  # a library contains a function once per architecture and source
def depths(
    branches: tuple[Branch, ...], entries: tuple[int, ...], points: tuple[int, ...] | range
) -> Sequence[int | None]:
    """Loop depth of each of the ascending addresses ``points``; ``None`` if unreachable or unknown.

    ``entries``: addresses of callees in the same listing.
    """
    if not any(branch.indirect or _spans(branch, points) for branch in branches):
        return [0] * len(points)
    kept = _without_skips(branches, entries)
    if len(kept) > MOST_BRANCHES:
        return [None] * len(points)
    line = Line(kept, entries)
    nest = loop_depths(line.successors, [line.place(root) for root in (0, *entries)])
    return [nest[line.place(point)] for point in points]


def _spans(branch: Branch, points: Sequence[int]) -> bool:
    """Whether a branch jumps back over any of the points, as a loop around one requires."""
    back = 0 <= branch.target <= branch.address
    return back and bisect_left(points, branch.target) < bisect_right(points, branch.address)


def _without_skips(branches: Sequence[Branch], entries: Iterable[int]) -> list[Branch]:
    """Branches without those that do not affect loops: predicated exits, and branches over code that contains no other
    branch, target or exit, except such ones."""
    kept = [each for each in branches if each.target >= 0 or not each.conditional or each.indirect]
    forward = [each for each in branches if each.target > each.address]
    walls = [each for each in kept if each.target <= each.address]
    walled = [*(each.address for each in walls), *(each.target for each in walls if each.target >= 0), *entries]
    # events along the code: 0 target, 1 branch, 2 wall; of branches with one target the innermost comes first
    events = [(4 * each.target, number) for number, each in reversed([*enumerate(forward)])]
    events += [(4 * each.address + 1, number) for number, each in enumerate(forward)]
    events += [(4 * address + 2, -1) for address in walled]
    skips: set[Branch] = set()
    open_: list[int] = []
    for place, number in sorted(events, key=itemgetter(0)):
        if place % 4 == 1 and forward[number].conditional:
            open_.append(number)
        elif place % 4 == 0 and open_ and open_[-1] == number:
            skips.add(forward[open_.pop()])
        else:
            open_.clear()
    return [each for each in kept if each not in skips]


class Line:
    """Code as a line of places in address order: labels (beginnings of the function and its callees, branch targets,
    targets of indirect branches) and branches. The code after a place, up to the next one, is a node.

    Code after an unconditional branch or exit is taken for a target of the last indirect branch before it: the cases of
    a jump table follow the jump.
    """

    def __init__(self, branches: Sequence[Branch], entries: Iterable[int]) -> None:
        labels = {4 * address for address in (0, *entries)} | {4 * each.target for each in branches if each.target >= 0}
        cases = _cases(branches, labels)
        labels.update(*cases.values())
        places = [(key, -1) for key in labels] + [(4 * each.address + 1, at) for at, each in enumerate(branches)]
        places.sort()
        self.keys = [key for key, _ in places]
        """Four times the address; one more for a branch, two more for the code after it."""
        self.successors: list[tuple[int, ...]] = [*((at,) for at in range(1, len(places))), ()]
        """Successors of each node."""
        for at, (_, number) in enumerate(places):
            if number >= 0:
                branch = branches[number]
                targets = [*cases.get(number, ()), *([4 * branch.target] if branch.target >= 0 else [])]
                successors = [bisect_left(self.keys, target) for target in targets]
                self.successors[at - 1] = (*successors, *([at] if branch.conditional else []))

    def place(self, address: int) -> int:
        """Last place at or before an address."""
        return bisect_right(self.keys, 4 * address) - 1

    def before(self, branch: int) -> int:
        """Node that ends with the branch at an address."""
        return bisect_left(self.keys, 4 * branch + 1) - 1


def _cases(branches: Sequence[Branch], labels: Collection[int]) -> dict[int, list[int]]:
    """Possible targets of indirect branches, as keys of :class:`Line`, by the number of the branch. ``labels``: keys of
    all other labels."""
    addresses = sorted(key // 4 for key in labels)
    cases: dict[int, list[int]] = {}
    table = -1
    for number, branch in enumerate(branches):
        table = number if branch.indirect else table
        if table >= 0 and not branch.conditional:
            following = bisect_right(addresses, branch.address)
            if following == len(addresses) or addresses[following] - branch.address > 2 * WORD:
                cases.setdefault(table, []).append(4 * branch.address + 2)  # no label names the code that follows
    return cases


def loop_depths(successors: Sequence[Sequence[int]], roots: Sequence[int]) -> list[int | None]:
    """Natural loops around each node of a graph; ``None``: unreachable. ``successors``: successors of each node."""
    order = _postorder([*successors, tuple(roots)])  # the last one leads to all roots
    number = {node: at for at, node in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for at, node in enumerate(order[:-1]):
        for successor in successors[node]:
            before[number[successor]].append(at)
    for root in roots:
        before[number[root]].append(len(order) - 1)
    heads, outer = loop_bodies(before, dominators(before))
    depths = [0] * len(order)
    for at in range(len(order) - 2, -1, -1):  # the head of a loop has a greater number than its body
        around = depths[outer[at]] if outer[at] >= 0 else 0
        depths[at] = around + heads[at]
    return [depths[number[node]] if node in number else None for node in range(len(successors))]


def _postorder(successors: Sequence[Sequence[int]]) -> list[int]:
    """Nodes that the last one reaches, in postorder: each after its successors."""
    order: list[int] = []
    seen = bytearray(len(successors))
    seen[-1] = 1
    work = [(len(successors) - 1, iter(successors[-1]))]
    while work:
        node, rest = work[-1]
        for successor in rest:
            if not seen[successor]:
                seen[successor] = 1
                work.append((successor, iter(successors[successor])))
                break
        else:
            order.append(node)
            work.pop()
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
