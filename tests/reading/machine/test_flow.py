"""Callees are looked for where somebody asks, and are the same as all at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spillscan.reading.machine.flow import Flow, Kind, Moves

PLACES = 40
MOVES = st.lists(
    st.tuples(
        st.integers(0, PLACES),
        st.integers(-1, PLACES),
        st.sampled_from([Kind.JUMP, Kind.EXIT, Kind.RETURN, Kind.CALL, Kind.FAR_CALL]),
        st.booleans(),
    ),
    unique_by=lambda row: row[0],
)


def moves(rows: list[tuple[int, int, Kind, bool]]) -> Moves:
    targeted = (Kind.JUMP, Kind.CALL)
    return Moves.of(
        (16 * place, 16 * target if kind in targeted else -1, kind, conditional)
        for place, target, kind, conditional in sorted(rows)
    )


@given(
    rows=MOVES, parts=st.sets(st.integers(1, PLACES), max_size=3), place=st.integers(0, PLACES), kernel=st.booleans()
)
def test_callees_before_an_address(
    rows: list[tuple[int, int, Kind, bool]], parts: set[int], place: int, kernel: bool
) -> None:
    held = [16 * part for part in parts]
    asked, whole = (Flow(moves(rows), last=16 * PLACES, parts=held, kernel=kernel) for _ in range(2))
    before = asked.entries_before(16 * place)
    assert [entry for entry in before if entry <= 16 * place] == [e for e in whole.entries if e <= 16 * place]


def test_a_callee_begins_where_a_call_goes_that_comes_back() -> None:
    rows = [(1, 4, Kind.CALL, False), (2, 6, Kind.CALL, False), (3, -1, Kind.EXIT, False)]
    rows += [(5, -1, Kind.RETURN, False), (7, -1, Kind.EXIT, False)]
    flow = Flow(moves(rows), last=7 * 16, kernel=True)
    assert flow.entries == [4 * 16]
    assert [column.tolist() for column in flow.inner_calls()] == [[16], [4 * 16], [False]]
    assert flow.calls().tolist() == []
