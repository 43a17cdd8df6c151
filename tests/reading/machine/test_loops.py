"""Loop depth against a slow and plain definition: nesting of natural loops, by reachability."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from spillscan.reading.machine import loops
from spillscan.reading.machine.flow import Branch


class Control(NamedTuple):
    address: int
    target: int | None
    conditional: bool


def depths(controls: list[Control], entries: list[int], points: list[int]) -> list[int | None]:
    branches = [Branch(at, -1 if target is None else target, conditional) for at, target, conditional in controls]
    return list(loops.depths((*branches,), (*entries,), (*points,)))


def test_nested() -> None:
    controls = [Control(40, 20, True), Control(60, 10, True), Control(70, None, False)]
    assert depths(controls, [], [0, 10, 20, 30, 50, 65]) == [0, 1, 2, 2, 1, 0]


def test_slow_path_after_the_function() -> None:
    """A jump back from out-of-line code is no loop, however far it reaches."""
    controls = [Control(10, 100, True), Control(50, None, False), Control(110, 20, False)]
    assert depths(controls, [], [5, 20, 40, 100]) == [0, 0, 0, 0]


def test_slow_path_of_a_loop() -> None:
    controls = [Control(10, 100, True), Control(30, 10, True), Control(50, None, False), Control(110, 20, False)]
    assert depths(controls, [], [5, 20, 40, 105]) == [0, 1, 0, 1]


def test_two_arms_in_a_loop() -> None:
    controls = [Control(20, 40, True), Control(30, 50, False), Control(60, 10, True), Control(70, None, False)]
    assert depths(controls, [], [10, 25, 45, 55, 65]) == [1, 1, 1, 1, 0]


def test_way_out_of_a_loop() -> None:
    """Code that leaves the function from inside a loop is not in the loop."""
    controls = [Control(20, 40, True), Control(30, None, False), Control(60, 10, True), Control(70, None, False)]
    assert depths(controls, [], [25, 45]) == [0, 1]


def test_switch_in_a_loop() -> None:
    """Only its table reaches the cases; code after an exit that a branch names is no case."""
    first, table = Branch(0, 384, True), Branch(64, -1, False, True)
    rest = [Branch(128, 240, False), Branch(192, 240, False), Branch(256, 32, True), Branch(320, -1, False)]
    found = loops.depths((first, table, *rest), (), (16, 48, 96, 160, 244, 300, 400))
    assert found == [0, 1, 1, 1, 1, 0, 0]
    named = first._replace(target=336)  # else the table would lead from inside of the loop to it
    assert loops.depths((named, table, *rest), (), (48, 96, 340)) == [1, 1, 0]


def test_loop_that_is_entered_at_its_end() -> None:
    """The branch back closes no loop, but the step from its body into the test does."""
    controls = [Control(10, 40, False), Control(50, 20, True), Control(60, None, False)]
    assert depths(controls, [], [5, 15, 30, 45, 55]) == [0, None, 1, 1, 0]


def _plain(controls: list[Control], end: int, points: list[int]) -> list[int | None]:
    """Every instruction a node; a loop for each target that dominates a source."""
    after: dict[int, set[int]] = {address: {address + 1} for address in range(end)}
    after[end] = set()
    for control in controls:
        after[control.address] = {control.address + 1} if control.conditional else set()
        if control.target is not None:
            after[control.address].add(control.target)

    def reach(start: int, without: int) -> set[int]:
        found, work = set(), [start] if start != without else []
        while work:
            node = work.pop()
            if node not in found and node != without:
                found.add(node)
                work.extend(after[node])
        return found

    live = reach(0, -1)
    before: dict[int, set[int]] = {node: set() for node in after}
    for node in live:
        for target in after[node]:
            before[target].add(node)
    bodies: dict[int, set[int]] = {}
    for source in live:
        for header in after[source]:
            if source != header and source in reach(0, header):
                continue
            body, work = bodies.setdefault(header, set()) | {header}, [source]
            while work:
                node = work.pop()
                if node not in body:
                    body.add(node)
                    work.extend(before[node])
            bodies[header] = body
    return [sum(point in body for body in bodies.values()) if point in live else None for point in points]


@st.composite
def _functions(draw: st.DrawFn) -> tuple[list[Control], int, list[int]]:
    end = draw(st.integers(3, 24))
    places = sorted(draw(st.sets(st.integers(0, end - 1), max_size=9)))
    controls = [
        Control(place, draw(st.one_of(st.none(), st.integers(0, end), st.integers(place, end))), draw(st.booleans()))
        for place in places
    ]
    points = sorted(draw(st.sets(st.integers(0, end - 1), min_size=1)) - set(places))
    return controls, end, points


@given(_functions())
def test_against_the_plain_definition(function: tuple[list[Control], int, list[int]]) -> None:
    controls, end, points = function
    found = depths([*controls, Control(end, None, False)], [], points)
    for mine, plain in zip(found, _plain(controls, end, points), strict=True):
        assert mine == plain or plain is None  # unreachable code is in no loop, or unknown
