"""What holds the registers of a kernel: a table of groups, one fact a row."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from spillscan.advice.holding import holdings
from spillscan.judging.places import Tree
from spillscan.model.code import NO_TRAFFIC, SourceLine
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine.liveness import Live
from tests.reading.binary.support import nothing
from tests.reading.machine.test_liveness import sets

Made = tuple[str, int, int, int | None]
"""Mnemonic, registers of its result, line, loops around it."""

NAMES = ("LDG", "FFMA", "DFMA", "HMMA", "IMAD")
CALL = SourceLine(file="k.cu", line=90)


class _Loops:
    def __init__(self, depths: list[int | None]) -> None:
        self._depths = depths

    def depths(self) -> list[int | None]:
        return self._depths


def code(made: list[Made], depth: int, inlined: bool) -> Pressure:
    """All results are live from where they are made to the last instruction, which stands in so many loops; there one
    more is live that nothing writes, so that most are."""
    live, written, first, held = [], [], 2, set[int]()
    for _, registers, _, _ in made:
        new = {*range(first, first + registers)}
        first += registers
        held |= new
        live.append({*held})
        written.append(new)
    rows = len(made) + 1
    effects = nothing(rows)._replace(written=sets([*written, set()]))
    sources = [SourceLine(file="k.cu", line=line, inlined_at=CALL if inlined else None) for _, _, line, _ in made]
    depths = [*(each for _, _, _, each in made), depth]
    numbers = np.array([*(NAMES.index(name) for name, *_ in made), len(NAMES)], np.int64)
    found = Pressure(
        Live(sets([*live, held | {254}]), False), [*sources, None], Counter(), None, 0, (NAMES, numbers), effects
    )
    return found._replace(graph=_Loops(depths))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "expected", "why"),
    [
        (
            [("FFMA", 1, 5, 0)] * 8,
            [("copies", 8, 8, ("k.cu:5",))],
            "one line, eight times: one of nine that are live is left",
        ),
        ([("FFMA", 1, 5, 0)] * 2, [], "twice is no loop that was unrolled"),
        ([("FFMA", 1, line, 0) for line in range(8)], [], "eight lines, once each"),
        ([("FFMA", 1, 5, 0)] * 8 + [("IMAD", 1, 6, 0)], [("copies", 8, 9, ("k.cu:5",))], "an address goes with them"),
        ([("LDG", 4, 5, 0), ("LDG", 4, 6, 0)], [("wide", 8, 6, ("k.cu:5", "k.cu:6"))], "one register of each is left"),
        ([("LDG", 1, 5, 0), ("LDG", 1, 6, 0), ("FFMA", 4, 7, 0)], [], "narrow loads, and what is no load"),
        ([("DFMA", 2, 5, 0), ("DFMA", 2, 6, 0)], [("double", 4, 2, ("k.cu:5", "k.cu:6"))], "half of it is gained"),
        ([("HMMA", 4, 5, 0)], [("accumulators", 4, 4, ("k.cu:5",))], "a smaller tile may gain all"),
        ([("FFMA", 1, 5, 0)] * 3 + [("IMAD", 1, line, 0) for line in range(30)], [], "too few of all"),
    ],
)
def test_groups(made: list[Made], expected: list[tuple[str, int, int, tuple[str, ...]]], why: str) -> None:
    found = holdings(code(made, 0, inlined=False), NO_TRAFFIC, Tree())
    assert [each[:4] for each in found] == expected, why


@pytest.mark.parametrize(
    ("depths", "depth", "expected", "why"),
    [
        ((0, 0, 0, 0), 1, [("before", 4)], "made before the loop, held in it"),
        ((1, 1, 1, 1), 1, [], "made in it"),
        ((0, 0, 0, 0), 0, [], "there is no loop"),
        ((1, 1, 1, 1), 2, [("before", 4)], "made in the outer of two"),
        ((None, None, None, None), 1, [], "where control is not known nothing is said"),
    ],
)
def test_before_loops(depths: tuple[int | None, ...], depth: int, expected: list[tuple[str, int]], why: str) -> None:
    made: list[Made] = [("IMAD", 1, line, each) for line, each in enumerate(depths)]
    found = holdings(code(made, depth, inlined=False), NO_TRAFFIC, Tree())
    assert [each[:2] for each in found] == expected, why


def test_inlined_code_is_named_by_its_call() -> None:
    (found,) = holdings(code([("IMAD", 1, line, 0) for line in range(4)], 0, inlined=True), NO_TRAFFIC, Tree())
    assert (found.kind, found.registers, found.fewer, found.lines) == ("inlined", 4, 4, ("k.cu:90",))
    assert found.cause == "code inlined at k.cu:90 holds 4 registers, made at k.cu:0 (1), k.cu:1 (1), k.cu:2 (1)"
