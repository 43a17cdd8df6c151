"""Perfect matchings of a bipartite graph: which pairs lie in some of them.

An edge does if and only if it is in a given one or both its ends are in one strongly connected component of the graph
that directs matched edges one way and all others the other way (Berge 1957; Régin 1994 uses it for the all-different
constraint).
"""

from __future__ import annotations

from collections.abc import Sequence


def possible_partners(candidates: Sequence[Sequence[int]], partners: int) -> list[list[int]] | None:
    """For each partner, the items that it has in some assignment that gives every item and every partner one.

    ``candidates[i]`` are the partners that item ``i`` may have; ``partners`` is how many there are, and must equal the
    number of items. ``None`` where no such assignment exists.
    """
    if len(candidates) != partners:
        return None
    chosen = _perfect_matching(candidates, partners)
    if chosen is None:
        return None
    item_of = [0] * partners
    for item, partner in enumerate(chosen):
        item_of[partner] = item
    # One node an item with its chosen partner: item -> the item that now holds a partner it could have instead.
    component = _components([[item_of[partner] for partner in row] for row in candidates])
    possible: list[list[int]] = [[] for _ in range(partners)]
    for item, row in enumerate(candidates):
        for partner in row:
            if component[item] == component[item_of[partner]]:
                possible[partner].append(item)
    return possible


def _perfect_matching(candidates: Sequence[Sequence[int]], partners: int) -> list[int] | None:
    """A partner for each item (augmenting paths, breadth first); ``None`` where there is no perfect matching."""
    chosen = [-1] * len(candidates)
    item_of = [-1] * partners
    for start in range(len(candidates)):
        reached_from: dict[int, int] = {}  # partner -> item from which the search came
        queue = [start]
        free = -1
        while queue and free < 0:
            following: list[int] = []
            for item in queue:
                for partner in candidates[item]:
                    if partner in reached_from:
                        continue
                    reached_from[partner] = item
                    if item_of[partner] < 0:
                        free = partner
                        break
                    following.append(item_of[partner])
                if free >= 0:
                    break
            queue = following
        if free < 0:
            return None
        while free >= 0:  # turn the path over, back to the start
            item = reached_from[free]
            item_of[free], free, chosen[item] = item, chosen[item], free
    return chosen


def _components(edges: Sequence[Sequence[int]]) -> list[int]:
    """The strongly connected component of each node (Tarjan 1972, without recursion)."""
    count = len(edges)
    order = [-1] * count
    low = [0] * count
    component = [-1] * count
    stack: list[int] = []
    found = 0
    for root in range(count):
        if order[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            node, position = work.pop()
            if position == 0:
                order[node] = low[node] = found
                found += 1
                stack.append(node)
            if position < len(edges[node]):
                work.append((node, position + 1))
                successor = edges[node][position]
                if order[successor] < 0:
                    work.append((successor, 0))
                elif component[successor] < 0:
                    low[node] = min(low[node], order[successor])
                continue
            if low[node] == order[node]:
                while True:
                    member = stack.pop()
                    component[member] = node
                    if member == node:
                        break
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
    return component
