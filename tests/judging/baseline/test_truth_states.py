"""What a finding is to a baseline, one fact a row: copies of one kernel as a multiset. Typed by hand."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.judging.baseline.support import copies, judged, written

Spills = list[tuple[int, int]]


class Copies(NamedTuple):
    """Spill stores and loads of each copy, recorded and now, and the state of each finding, in the order of copies."""

    why: str
    before: Spills
    after: Spills
    states: list[str]


COPIES = [
    Copies("as recorded", [(8, 8)], [(8, 8)], ["known"]),
    Copies("one figure better", [(8, 8)], [(8, 4)], ["better"]),
    Copies("one figure worse", [(8, 8)], [(8, 12)], ["worse"]),
    Copies("one better, one worse: worse", [(8, 8)], [(4, 12)], ["worse"]),
    Copies("not recorded", [(0, 0)], [(8, 8)], ["new"]),
    Copies("order of copies means nothing", [(8, 8), (4, 4)], [(4, 4), (8, 8)], ["known", "known"]),
    Copies("one place each", [(8, 8), (4, 4)], [(8, 8), (8, 8)], ["known", "worse"]),
    Copies("a better copy excuses no other", [(8, 8), (4, 4)], [(2, 2), (12, 12)], ["better", "worse"]),
    Copies("equal copies may be more", [(8, 8), (8, 8)], [(8, 8)] * 3, ["known"] * 3),
    Copies("unequal ones: another is held to the least", [(8, 8), (4, 4)], [(8, 8), (4, 4), (4, 4)], ["known"] * 3),
    Copies(
        "and no more than the least",
        [(8, 8), (4, 4)],
        [(8, 8), (4, 4), (6, 6)],
        ["known", "known", "worse"],
    ),
    Copies(
        "each takes the place that leaves most to the others", [(2, 8), (4, 6)], [(1, 5), (4, 4)], ["better", "better"]
    ),
    Copies("the greater place is left over", [(8, 8), (4, 4)], [(4, 4), (4, 4)], ["known", "better"]),
    Copies("the greater place goes to whom it fits alone", [(8, 2), (4, 4)], [(4, 3), (8, 1)], ["better", "better"]),
]


@pytest.mark.parametrize("fact", COPIES, ids=lambda fact: fact.why)
def test_copies(fact: Copies) -> None:
    result = judged(copies(fact.after), written(copies(fact.before)))
    states = {finding.kernel.key.unit: finding.baseline_state for finding in result.findings}
    assert [states[unit] for unit in sorted(states)] == fact.states
    assert [each.baseline_state in ("new", "worse") for each in result.open] == [True] * len(result.open)
    assert len(result.open) == sum(state in ("new", "worse") for state in fact.states)
