"""Instructions that make live values: one fact per row."""

from __future__ import annotations

import pytest

from spillscan.reading.machine.liveness import Effects, Live, maker, numbers
from tests.reading.machine.test_liveness import sets

Rows = list[set[int]]


@pytest.mark.parametrize(
    ("live", "written", "copies", "row", "expected", "why"),
    [
        ([{4}, {4}, {4}], [{4}, set(), set()], [], 2, [0], "the instruction that wrote it"),
        ([{4}, {4}, {4}], [{4}, {4}, set()], [], 2, [1], "the last of them"),
        ([{4}, {4}, {4}], [{4}, set(), {4}], [], 1, [0], "before what is asked for"),
        ([{4}, {4}, {4}], [{4}, set(), {4}], [0], 1, [2], "what a loop carries is made behind a constant's copy"),
        ([{4}, {4}, {4}], [{4}, set(), {4}], [0, 2], 1, [0], "unless that copies, too"),
        ([{4}, set(), {4}, {4}], [{4}, set(), {4}, set()], [], 3, [2], "a gap ends a value"),
        ([{4}, set(), {4}, {4}], [{4}, set(), set(), set()], [], 3, [], "nothing is seen to write it"),
        ([{1, 4}, {1, 4}], [{1, 4}, set()], [], 1, [0], "the stack pointer is none"),
        ([{4, 70, 254}, {4, 70, 254}], [{4, 70, 254}, set()], [], 1, [0, 0, 0], "each register of a wide result"),
        ([{4}, {4}], [set(), {4}], [], 0, [1], "written further on alone: by a loop that runs back"),
    ],
)
def test_maker(live: Rows, written: Rows, copies: list[int], row: int, expected: list[int], why: str) -> None:
    does = Effects([0] * len(live), sets(written), [False] * len(live), [False] * len(live))
    registers, found = sets(live), Live(sets(live), False)
    made = [maker(found, does, each, row, copies.__contains__) for each in numbers(registers[row])]
    assert made == (expected or [None]), why
