"""Which instruction makes what is held: a table, one fact a row."""

from __future__ import annotations

import pytest

from spillscan.reading.machine.liveness import Effects, Live, SlotAccess, Value, in_registers, in_slots
from tests.reading.machine.test_liveness import sets

Rows = list[set[int]]


def effects(read: Rows, written: Rows) -> Effects:
    return Effects(sets(read), sets(written), [False] * len(read), [False] * len(read))


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
def test_in_registers(live: Rows, written: Rows, copies: list[int], row: int, expected: list[int], why: str) -> None:
    found = in_registers(Live(sets(live), False), effects([set()] * len(live), written), row, copies.__contains__)
    assert list(found) == [Value(each, False) for each in expected], why


@pytest.mark.parametrize(
    ("accesses", "row", "expected", "why"),
    [
        ([SlotAccess(2, True, ((0, 0),))], 4, [0], "what made the register that was stored"),
        ([SlotAccess(2, True, ((0, 0),)), SlotAccess(3, True, ((0, 0),))], 4, [1], "the last store before"),
        ([SlotAccess(2, True, ((0, 0),)), SlotAccess(3, True, ((0, 0),))], 2, [0], "not one behind"),
        ([SlotAccess(3, True, ((0, 0),))], 0, [1], "unless there is no other"),
        ([SlotAccess(2, False, ((0, 0),))], 4, [], "a load makes nothing"),
        ([SlotAccess(2, True, ((0, 4),))], 4, [], "another slot"),
        ([SlotAccess(2, True, ((1, 0),))], 4, [], "the slot of another frame"),
    ],
)
def test_in_slots(accesses: list[SlotAccess], row: int, expected: list[int], why: str) -> None:
    live = [{4}, {4, 5}, {4, 5}, {5}, set()]
    does = effects([set(), set(), {1, 4}, {1, 5}, set()], [{4}, {5}, set(), set(), set()])
    found = in_slots([(0, 0)], accesses, Live(sets(live), False), does, row, lambda _: False)
    assert list(found) == [Value(each, True) for each in expected], why
