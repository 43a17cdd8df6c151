"""Which points are best, and what is said of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spillscan.advice.sweep import curves
from spillscan.advice.sweep.model import AS_IS, Curve, Point, Setting
from spillscan.advice.sweep.proposals import Proposal, proposals
from spillscan.model import Launch
from spillscan.reports.sweep import html
from tests.advice.sweep.support import point

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
    marked = curves.mark(points)
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
    assert curves.facts(curves.mark(points)) == (
        "72 registers: last spill-free, 3 blocks; 64: +1 block for 96 B of loop-free spills;"
        " 40: +3 blocks for 900 B of spills (400 B in loops)"
    )


def test_other_sentences() -> None:
    assert curves.facts(()) == ""
    assert curves.facts(curves.mark([point(40, 48)])) == "40 registers: spill-free, at most 48 warps"
    never = [point(64, 32, spills=8, blocks=4), point(32, 64, spills=80, loops=80, blocks=8)]
    assert curves.facts(curves.mark(never)) == (
        "spills at every point, least at 64 registers: 8 B of loop-free spills, 4 blocks;"
        " 32: +4 blocks for 80 B of spills (80 B in loops)"
    )
    useless = [point(40, 32, blocks=4), point(32, 32, spills=80, blocks=4)]
    assert curves.facts(curves.mark(useless)) == "40 registers: last spill-free, 4 blocks; fewer bring none more"


def test_what_cannot_run_or_was_overridden_is_never_best() -> None:
    points = [point(255, 0), replace(point(40, 48), overridden="__launch_bounds__(128)"), point(80, 24)]
    assert [each.best for each in curves.mark(points)] == [False, False, True]


def test_of_equals_the_kernel_as_it_is_is_best() -> None:
    points = [replace(point(118, 16), setting=AS_IS), point(119, 16), point(117, 16)]
    assert [each.best for each in curves.mark(points)] == [True, False, False]


def curve(*points: Point) -> Curve:
    return Curve(input="k.ptx", symbol="k", arch="sm_90", toolkit="13.0", launch=LAUNCH, points=curves.mark(points))


LAUNCH = Launch(threads_per_block=128, source="policy", dynamic_shared_bytes=0)


def bounds(blocks: int, registers: int, spills: int = 0) -> tuple[Proposal, Point]:
    """A step to more registers, and what became of it."""
    setting = Setting(kind="bounds", threads=128, blocks=blocks)
    made = replace(point(registers, 4 * blocks, spills=spills, blocks=blocks), setting=setting)
    return Proposal("no spills", setting, registers), made


def test_a_kernel_that_spills_gets_every_step_to_more_registers_and_the_others_none() -> None:
    spilling = replace(point(40, 48, spills=300, blocks=12), setting=AS_IS)
    steps, why = proposals(curve(spilling))
    relaxed = [each for each in steps if each.direction == "no spills"]
    assert [each.cap for each in relaxed] == [48, 56, 64, 72, 80, 96, 128, 168, 255]
    assert [each.setting.blocks for each in relaxed] == [10, 9, 8, 7, 6, 5, 4, 3, 2]
    assert {each.cap for each in steps if each.direction == "more blocks"} == {32}
    assert why == ""
    clean, _ = proposals(curve(replace(point(40, 48, blocks=12), setting=AS_IS)))
    assert {each.direction for each in clean} == {"more blocks"}


def test_of_the_steps_the_smallest_that_ends_the_spills_is_kept() -> None:
    as_is = replace(point(40, 48, spills=300, blocks=12), setting=AS_IS)
    made = curves.advised(curve(as_is), [bounds(10, 48, 96), bounds(8, 64), bounds(7, 72)], "")
    (entry,) = made.advice
    assert (entry.cap, entry.point.spill_bytes, entry.gain, entry.point.best) == (64, 0, -4, True)
    assert made.facts == "64 registers: last spill-free, 8 blocks; 40: +4 blocks for 300 B of loop-free spills"
    never = curves.advised(curve(as_is), [bounds(10, 48, 96), bounds(8, 64, 8), bounds(7, 72, 8)], "")
    assert [entry.cap for entry in never.advice] == [64], "else the smallest that leaves the fewest"
    assert curves.advised(curve(as_is), [bounds(10, 48, 300)], "").advice == (), "what ends none is no advice"


def test_no_point_is_best_that_advice_beats() -> None:
    as_is = replace(point(40, 48, blocks=12), setting=AS_IS)
    more = Proposal("more blocks", Setting(kind="bounds", threads=128, blocks=16), 32)
    made = curves.advised(curve(as_is), [(more, replace(point(32, 64, blocks=16), setting=more.setting))], "")
    assert [each.best for each in curve(as_is).points] == [True]
    assert [each.best for each in made.points] == [False]
    assert [each.point.best for each in made.advice] == [True]


def test_the_page_shows_what_advice_compiled() -> None:
    as_is = replace(point(40, 48, spills=300, blocks=12), setting=AS_IS)
    made = curves.advised(curve(as_is), [bounds(8, 64)], "")
    text = "".join(html([made])).replace(": ", ":")
    assert '"label":"128x8"' in text
    assert text.count('"best":true') == 2
