"""The assignment of registers lines, against all permutations."""

from __future__ import annotations

import itertools
import random

from spillscan.reading.logs.matching import possible_partners


def by_trying_all(candidates: list[list[int]], size: int) -> list[list[int]] | None:
    assignments = [
        order
        for order in itertools.permutations(range(size))
        if all(order[item] in candidates[item] for item in range(size))
    ]
    if not assignments:
        return None
    return [sorted({order.index(partner) for order in assignments}) for partner in range(size)]


def test_equals_trying_all_permutations() -> None:
    chance = random.Random(1)
    feasible = 0
    for _ in range(3000):
        size = chance.randint(1, 6)
        candidates = [sorted(chance.sample(range(size), chance.randint(1, size))) for _ in range(size)]
        expected = by_trying_all(candidates, size)
        found = possible_partners(candidates, size)
        assert (found if found is None else [sorted(row) for row in found]) == expected
        feasible += expected is not None
    assert feasible > 1000


def test_long_chains_need_no_deep_recursion() -> None:
    size = 20_000
    candidates = [[item, (item + 1) % size] for item in range(size)]
    found = possible_partners(candidates, size)
    assert found is not None
    assert all(len(row) == 2 for row in found)


def test_more_items_than_partners_have_no_assignment() -> None:
    assert possible_partners([[0], [0]], 1) is None
    assert possible_partners([[0], [0]], 2) is None
