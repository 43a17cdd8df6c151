"""Causes of spills: groups of values, limits, facts of code."""

from __future__ import annotations

from typing import Any

import pytest

from spillscan.advice.causes import causes, live_groups
from spillscan.judging.places import Tree
from spillscan.model import Kernel, LaunchBounds
from spillscan.model.code import Maker, SassStats, WarpRole
from spillscan.model.local import NO_TRAFFIC, SourceLine, Traffic
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine.liveness import Live
from tests.reading.binary.support import nothing
from tests.reading.machine.test_liveness import sets
from tests.reporting import kernel

Made = tuple[str, int, int, int | None]
"""Mnemonic, registers of its result, line, loops around it."""

CALL = SourceLine(file="k.cu", line=90)


class _Loops:
    def __init__(self, depths: list[int | None]) -> None:
        self._depths = depths

    def depths(self) -> list[int | None]:
        return self._depths


def code(made: list[Made], depth: int, inlined: bool) -> Pressure:
    """Code with all results live from their instruction to the last one, which is in so many loops. There one more
    register is live that nothing writes, so that it is the peak.
    """
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
    names = [*(name for name, *_ in made), ""]
    found = Pressure(Live(sets([*live, held | {254}]), False), [*sources, None], None, 0, names, effects)
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
        ([("FFMA", 1, 5, 0)] * 3 + [("IMAD", 1, line, 0) for line in range(30)], [], "too few of all"),
    ],
)
def test_groups(made: list[Made], expected: list[tuple[str, int, int, tuple[str, ...]]], why: str) -> None:
    found = live_groups(code(made, 0, inlined=False), NO_TRAFFIC, Tree())
    assert [each[:4] for each in found] == expected, why


def test_inlined_code_is_named_by_its_call() -> None:
    (found,) = live_groups(code([("IMAD", 1, line, 0) for line in range(4)], 0, inlined=True), NO_TRAFFIC, Tree())
    assert (found.kind, found.registers, found.fewer, found.lines) == ("inlined", 4, 4, ("k.cu:90",))
    assert found.cause == "results of code inlined at k.cu:90 occupy 4 registers: k.cu:0 (1), k.cu:1 (1), k.cu:2 (1)"


def spilling(
    options: str = "", threads: int | None = None, registers: int = 40, limit: int | None = None, **more: Any
) -> Kernel:
    bounds = None if threads is None else LaunchBounds(max_threads=threads)
    made = Maker(tool="ptxas", version="13.0.88", options=options)
    code = SassStats(instructions=8, code_bytes=128, opcodes=(("STL", 8),), maker=made, register_limit=limit, **more)
    return kernel("k", 8, registers=registers, sass=code, launch_bounds=bounds)


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (spilling("-maxrregcount 40 -arch sm_90"), "-maxrregcount=40 limits it to 40 registers"),
        (spilling("-maxrregcount 40", threads=256), ""),  # launch bounds override the option
        (spilling("-arch sm_90", threads=256), ""),  # disassembly does not have the limit
        (spilling("-arch sm_90 -g"), "debug build (-G): ptxas does not optimize the kernel"),
        (spilling(registers=255), "255 registers, the maximum of sm_90"),
        (spilling(registers=253), "253 registers, with a maximum of 255 on sm_90"),
        (spilling(limit=168, threads=384, registers=166), "launch bounds of 384 threads limit it to 168 registers"),
        (spilling(limit=168, threads=384), "launch bounds of 384 threads limit it to 168 registers; ptxas uses 40"),
        (
            spilling(limit=40, threads=64),
            "launch bounds (64 threads and a minimum of blocks per SM) or __maxnreg__ limit it to 40 registers",
        ),
        (spilling("-arch sm_90", limit=40), "__maxnreg__(40) limits it to 40 registers"),
        (spilling(limit=40), "__maxnreg__ or -maxrregcount limits it to 40 registers"),
    ],
)
def test_register_limits(found: Kernel, cause: str) -> None:
    assert next(causes(found, Tree(), None), "") == cause


def test_spills_of_a_role() -> None:
    role = WarpRole(address=16, registers=24, follows=False, spill=Traffic(stores=2, store_bytes=8), local=Traffic())
    assert [*causes(spilling(roles=(role,)), Tree(), None)] == ["warps with 24 registers (setmaxnreg) spill 8 B"]
