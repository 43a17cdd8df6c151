"""Which points are best, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spillscan.sweep import advice
from spillscan.sweep.model import Point
from spillscan.sweep.settings import AS_IS
from tests.sweep.support import point

POINTS = st.builds(
    lambda registers, warps, spills, loops: point(registers, warps, spills=4 * (spills + loops), loops=4 * loops),
    st.integers(16, 24),
    st.integers(0, 4),
    st.integers(0, 2),
    st.integers(0, 2),
)


def figures(each: Point) -> tuple[int, int, int]:
    return each.warps or 0, -(each.loop_spill_bytes or 0), -(each.spill_bytes or 0)


@given(st.lists(POINTS, max_size=8))
def test_the_marks_are_the_front(points: list[Point]) -> None:
    marked = advice.mark(points)
    assert [replace(each, best=False) for each in marked] == points
    best = [each for each in marked if each.best]
    assert len({figures(each) for each in best}) == len(best)
    for each in marked:
        above = [other for other in best if all(a >= b for a, b in zip(figures(other), figures(each), strict=True))]
        assert above if each.warps else not each.best
        if each.best:
            assert above == [each]
            twins = [other.registers or 0 for other in marked if figures(other) == figures(each)]
            assert each.registers == max(twins)


def test_the_sentence_names_the_last_spill_free_point_and_each_gain() -> None:
    points = [
        point(122, 16, blocks=2),
        point(72, 24, blocks=3),
        point(64, 32, spills=96, blocks=4),
        point(40, 48, spills=900, loops=400, blocks=6),
        point(32, 48, spills=1000, loops=500, blocks=6),
    ]
    assert advice.facts(advice.mark(points)) == (
        "72 registers: last spill-free, 3 blocks; 64: +1 block for 96 B of loop-free spills;"
        " 40: +3 blocks for 900 B of spills (400 B in loops)"
    )


def test_other_sentences() -> None:
    assert advice.facts(()) == ""
    assert advice.facts(advice.mark([point(40, 48)])) == "40 registers: spill-free, at most 48 warps"
    never = [point(64, 32, spills=8, blocks=4), point(32, 64, spills=80, loops=80, blocks=8)]
    assert advice.facts(advice.mark(never)) == (
        "spills at every point, least at 64 registers: 8 B of loop-free spills, 4 blocks;"
        " 32: +4 blocks for 80 B of spills (80 B in loops)"
    )
    useless = [point(40, 32, blocks=4), point(32, 32, spills=80, blocks=4)]
    assert advice.facts(advice.mark(useless)) == "40 registers: last spill-free, 4 blocks; fewer bring none more"


def test_what_cannot_run_or_was_overridden_is_never_best() -> None:
    points = [point(255, 0), replace(point(40, 48), overridden="__launch_bounds__(128)"), point(80, 24)]
    assert [each.best for each in advice.mark(points)] == [False, False, True]


def test_of_equals_the_kernel_as_it_is_is_best() -> None:
    points = [replace(point(118, 16), setting=AS_IS), point(119, 16), point(117, 16)]
    assert [each.best for each in advice.mark(points)] == [True, False, False]
