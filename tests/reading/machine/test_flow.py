"""Callees are looked for where asked for, and are the same as all at once."""

from __future__ import annotations

import pytest

from spillscan.reading.machine.flow import Flow, Kind, Move, branches

PLACES = 40


def moves(rows: list[tuple[int, int, Kind, bool]]) -> list[Move]:
    targeted = (Kind.JUMP, Kind.CALL)
    return [
        Move(16 * place, 16 * target if kind in targeted else -1, kind, conditional)
        for place, target, kind, conditional in sorted(rows)
    ]


def test_a_callee_begins_at_the_target_of_a_returning_call() -> None:
    rows = [(1, 4, Kind.CALL, False), (2, 6, Kind.CALL, False), (3, -1, Kind.EXIT, False)]
    rows += [(5, -1, Kind.RETURN, False), (7, -1, Kind.EXIT, False)]
    flow = Flow(moves(rows), last=7 * 16, kernel=True)
    assert flow.entries == [4 * 16]
    assert flow.inner_calls() == [(16, 4 * 16, Kind.CALL, False)]
    assert flow.calls() == []


@pytest.mark.parametrize(
    ("call", "target", "conditional", "jumps", "callee", "why"),
    [
        (1, 20, False, [], True, "a call"),
        (1, 0, False, [], False, "of the function itself"),
        (16, 20, True, [], True, "under a predicate, over more than a branch"),
        (18, 20, True, [], False, "under a predicate, over a branch back"),
        (18, 20, False, [], True, "as near, but always"),
        (1, 20, False, [(0, 20)], False, "to where a jump from before leads, too"),
        (1, 20, False, [(20, 20)], True, "to where a loop begins"),
        (1, 20, False, [(25, 20)], True, "to where a jump from behind leads, too"),
    ],
)
def test_calls_that_begin_callees(
    call: int, target: int, conditional: bool, jumps: list[tuple[int, int]], callee: bool, why: str
) -> None:
    rows = [(call, target, Kind.CALL, conditional), (19, -1, Kind.EXIT, False), (30, -1, Kind.RETURN, False)]
    rows += [(at, goes, Kind.JUMP, True) for at, goes in jumps]
    assert (16 * target in Flow(moves(rows), last=16 * PLACES, kernel=False).entries) is callee, why


@pytest.mark.parametrize(
    ("target", "entries", "expected"),
    [
        (0, [], []),
        (1, [], [(32, 16, True)]),
        (1, [16], []),
        (PLACES, [], [(32, 16 * PLACES, True)]),
        (PLACES + 1, [], []),
    ],
)
def test_a_call_without_callee_is_a_jump_to_reconvergence(
    target: int, entries: list[int], expected: list[tuple[int, int, bool]]
) -> None:
    found = branches(moves([(2, target, Kind.CALL, False)]), 16 * PLACES, entries)
    assert [each[:3] for each in found] == expected
