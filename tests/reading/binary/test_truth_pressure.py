"""Live registers: ranges around the peak, lines, and the demand with spill slots; one fact per row."""

from __future__ import annotations

import zlib

import pytest

from spillscan import scan
from spillscan.model.local import LocalAccess, SourceLine
from spillscan.reading.binary import fetch
from spillscan.reading.binary.pressure import Pressure, Range
from spillscan.reading.machine.flow import Flow
from spillscan.reading.machine.liveness import Graph, Live
from tests.conftest import FIXTURES
from tests.reading.binary.support import nothing
from tests.reading.machine.test_liveness import NOTHING, sets

A, B = SourceLine(file="a.cu", line=1), SourceLine(file="a.cu", line=2)


def pressure(rows: list[set[int]], sources: list[SourceLine | None] | None = None) -> Pressure:
    straight = Graph(Flow([], last=16 * (len(rows) - 1), kernel=True), NOTHING, len(rows), function=False)
    live = Live(sets(rows), False)
    return Pressure(
        live,
        sources or [None] * len(rows),
        straight,
        0,
        [""] * len(rows),
        nothing(len(rows)),
    )


@pytest.mark.parametrize(
    ("rows", "expected", "why"),
    [
        ([{1}, {1, 4}, {1}], [((4,), 1, 2)], "the stack pointer is none of them"),
        ([{0}, set()], [((0,), 0, 1)], "the first register is"),
        ([{4, 254}], [((4, 254), 0, 1)], "and the last"),
        ([{4}, {4, 5}, {5}], [((4,), 0, 2), ((5,), 1, 3)], "each as far as it is live"),
        ([{4}, {4, 5}, {4, 5}, {5}], [((4,), 0, 3), ((5,), 1, 4)], "equally long: by their numbers"),
        ([{4, 5}, {4, 5, 6}], [((4, 5), 0, 2), ((6,), 1, 2)], "those of one range together"),
        ([{4}, {5}, {4, 5}, {4}], [((4,), 2, 4), ((5,), 1, 3)], "a gap ends a range"),
        ([{4}, set(), {4, 5}], [((4, 5), 2, 3)], "at both ends"),
        ([{4}, {4, 5, 6}, {5, 6}, {5, 6}], [((5, 6), 1, 4), ((4,), 0, 2)], "registers times instructions, not length"),
        ([{7}, {4}, {4, 5}, {4, 5, 6}, set()], [((4,), 1, 4), ((5,), 2, 4), ((6,), 3, 4)], "what ended before is none"),
    ],
)
def test_ranges_around_the_peak(
    rows: list[set[int]], expected: list[tuple[tuple[int, ...], int, int]], why: str
) -> None:
    found = pressure(rows, [SourceLine(file="a.cu", line=row) for row in range(len(rows))]).ranges
    assert [tuple(each)[:3] for each in found] == expected, why
    assert [each.source.line for each in found if each.source] == [begin for _, begin, _ in expected]


@pytest.mark.parametrize(
    ("registers", "text"),
    [((4,), "R4"), ((4, 5), "R4 to R5"), ((4, 6), "R4, R6"), ((0, 1, 2, 7, 9, 10), "R0 to R2, R7, R9 to R10")],
)
def test_registers_in_words(registers: tuple[int, ...], text: str) -> None:
    assert str(Range(registers, 0, 1, None)) == text


def test_the_peak_is_the_first_of_equals_and_lines_have_their_own() -> None:
    found = pressure([{2}, {2, 3}, {3, 4}, {4}, {2}], [A, B, A, None, B])
    assert (found.peak.registers, found.peak.address, found.peak.source) == (2, 16, B)
    assert found.lines == [(A, 2), (B, 2)]
    assert pressure([{2}, {2, 3}, {3, 4, 5}], [A, A, B]).lines == [(B, 3), (A, 2)]
    assert pressure([{2, 3}, {2}, {3}], [B, B, A]).lines == [(B, 2), (A, 1)]


def access(row: int, slot: int | None, *, store: bool, **more: object) -> LocalAccess:
    settings = {
        "kind": "spill",
        "bytes": 4,
        "form": "stack",
        "part": 0,
        "depth": 0,
        "predicated": False,
        "last_use": False,
    }
    settings |= more
    return LocalAccess(address=16 * row, line=None, slot=slot, store=store, **settings)  # type: ignore[arg-type]


class Local:
    """Stand-in for a function's accesses, with only what is needed."""

    def __init__(self, *accesses: LocalAccess) -> None:
        self.accesses = accesses


@pytest.mark.parametrize(
    ("live", "accesses", "expected", "why"),
    [
        (3, [], None, "no spills"),
        (3, [access(1, None, store=True)], None, "slots are not known"),
        (3, [access(1, 0, store=True, kind="array")], None, "an array is none"),
        (3, [access(1, 0, store=True), access(4, 0, store=False)], 4, "live from the store to the load"),
        (3, [access(1, 0, store=True), access(2, 0, store=False)], 3, "at both it is in a register"),
        (3, [access(1, 0, store=True)], 3, "what is never loaded lives nowhere"),
        (3, [access(1, 0, store=True), access(3, 0, store=False), access(5, 0, store=False)], 4, "to the last load"),
        (3, [access(1, 0, store=True, bytes=16), access(4, 0, store=False, bytes=16)], 7, "each word of a slot"),
        (3, [access(1, 0, store=True, bytes=8), access(4, 4, store=False)], 4, "of which only some are loaded"),
        (
            3,
            [access(row, 4 * row, store=True) for row in range(2)]
            + [access(row + 4, 4 * row, store=False) for row in range(2)],
            5,
            "two at once",
        ),
        (
            3,
            [access(row, 0, store=not row, part=part) for row in (0, 4) for part in (0, 1)],
            5,
            "equal slots of two frames are two",
        ),
        (
            3,
            [access(1, 0, store=True, predicated=True), access(4, 0, store=False)],
            4,
            "what may not be stored is live before",
        ),
        (
            3,
            [access(0, 0, store=True, bytes=1200), access(4, 0, store=False, bytes=1200)],
            303,
            "more than a set holds",
        ),
    ],
)
def test_the_demand_counts_values_in_slots(
    live: int, accesses: list[LocalAccess], expected: int | None, why: str
) -> None:
    found = pressure([{*range(2, 2 + live)}] * 6)
    assert found.demand(Local(*accesses)) == expected, why  # type: ignore[arg-type]


def test_refetched_code_equals_the_code_read() -> None:
    kernels = [each for each in scan(FIXTURES / "binary" / "operands-sm_80-13.5.cubin").kernels if each.sass]
    assert kernels
    pressures = fetch.pressures_of(kernels)
    assert {*pressures} == {id(kernel) for kernel in kernels}
    texts = fetch.texts_of(kernels)
    for kernel in kernels:
        assert kernel.sass is not None
        rows = len(pressures[id(kernel)].live.sets)
        assert rows == kernel.sass.instructions
        assert len(zlib.decompress(texts[id(kernel)].words)) == 16 * rows
    of_a_dump = scan(FIXTURES / "sass" / "nvdisasm-plr-sm_100a-13.5.sass.zst").kernels
    assert fetch.pressures_of(of_a_dump) == {}
