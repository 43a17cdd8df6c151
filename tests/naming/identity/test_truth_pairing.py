"""Truth table: which kernel of a base is which of a head. One fact a row; each kernel is known by its object."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Role, Usage
from spillscan.model.code import SassStats
from spillscan.naming.pairs import pair

SAXPY, DOT = "_Z5saxpyPfi", "_Z3dotPfS_i"
LAMBDA, NEXT_LAMBDA = "_Z5applyIZ4hostvEUlfE_EvT_Pf", "_Z5applyIZ4hostvEUlfE0_EvT_Pf"
IN_A, IN_B = (f"__nv_static_25__{checkout}_4_n_cu_0d622993__Z4statPi" for checkout in ("5cb7265f", "aeba40bb"))
TEMPLATE, MOVED = "_ZN3old5scaleIfEEvPf", "_ZN2ns5scaleIfEEvPf"


def k(
    unit: str,
    symbol: str = SAXPY,
    registers: int | None = 32,
    code: str = "",
    arch: str | None = "sm_90",
    role: Role = "entry",
) -> Kernel:
    made = Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role=role, usage=Usage(registers=registers))
    if not code:
        return made
    sass = SassStats(instructions=100, code_bytes=1600, opcodes=((code[0].upper(), 100),), digest=code)
    return replace(made, sass=sass)


def many(units: str, start: int, count: int) -> list[Kernel]:
    return [k(f"{units}{at}.o", code="same") for at in range(start, start + count)]


Row = tuple[str, list[Kernel], list[Kernel], dict[tuple[str | None, str | None], float | None]]
"""Why, base, head, and all pairs by their objects with their score; ``None``: below 1, under another name."""

NONE: dict[tuple[str | None, str | None], float | None] = {("a.o", None): None, (None, "b.o"): None}

ROWS: list[Row] = [
    ("equal keys are one kernel, whatever its figures", [k("a.o")], [k("a.o", registers=99)], {("a.o", "a.o"): 1}),
    (
        "the object decides before the figures",
        [k("a.o", registers=32), k("b.o", registers=64)],
        [k("a.o", registers=64), k("b.o", registers=32)],
        {("a.o", "a.o"): 1, ("b.o", "b.o"): 1},
    ),
    ("the number of a copy is no part of an object", [k("a.o#2")], [k("a.o")], {("a.o#2", "a.o"): 1}),
    ("an object may move", [k("a.o")], [k("lib/a.o")], {("a.o", "lib/a.o"): 1}),
    (
        "equal code before the order of objects",
        [k("a.o", code="x"), k("b.o", code="y")],
        [k("c.o", code="y"), k("d.o", code="x")],
        {("a.o", "d.o"): 1, ("b.o", "c.o"): 1},
    ),
    (
        "equal code before equal figures",
        [k("a.o", code="x", registers=32), k("b.o", code="y", registers=64)],
        [k("c.o", code="y", registers=32), k("d.o", code="x", registers=64)],
        {("a.o", "d.o"): 1, ("b.o", "c.o"): 1},
    ),
    (
        "of equal keys and equal code, the first is the first",
        [k("a.o", code="x"), k("b.o", code="x")],
        [k("c.o", code="x"), k("d.o", code="x")],
        {("a.o", "c.o"): 1, ("b.o", "d.o"): 1},
    ),
    (
        "of equal keys and equal figures, the first is the first",
        [k("a.o"), k("b.o")],
        [k("c.o"), k("d.o")],
        {("a.o", "c.o"): 1, ("b.o", "d.o"): 1},
    ),
    (
        "one of several equals that went is the last",
        [k("a.o"), k("b.o"), k("c.o")],
        [k("d.o"), k("e.o")],
        {("a.o", "d.o"): 1, ("b.o", "e.o"): 1, ("c.o", None): None},
    ),
    (
        "of a hundred equals, too, the first is the first",
        many("a", 0, 100),
        many("b", 0, 100),
        {(f"a{at}.o", f"b{at}.o"): 1 for at in range(100)},
    ),
    (
        "equal figures before the order of objects",
        [k("a.o", registers=20), k("b.o", registers=30)],
        [k("c.o", registers=30), k("d.o", registers=24)],
        {("a.o", "d.o"): 1, ("b.o", "c.o"): 1},
    ),
    (
        "where no figures are equal, the nearest",
        [k("a.o", registers=20), k("b.o", registers=100)],
        [k("c.o", registers=96), k("d.o", registers=24)],
        {("a.o", "d.o"): 1, ("b.o", "c.o"): 1},
    ),
    (
        "a figure that one side does not know says nothing",
        [k("a.o", registers=None), k("b.o", registers=30)],
        [k("c.o", registers=30), k("d.o", registers=24)],
        {("a.o", "d.o"): 1, ("b.o", "c.o"): 1},
    ),
    (
        "the number of a lambda is no name: equal figures",
        [k("a.o", LAMBDA, 20)],
        [k("b.o", LAMBDA, 99), k("c.o", NEXT_LAMBDA, 20)],
        {("a.o", "c.o"): 1, (None, "b.o"): None},
    ),
    (
        "what stands before an equal one is paired before it, though another is nearer",
        [k("a.o", LAMBDA, 20), k("b.o", LAMBDA, 30)],
        [k("c.o", NEXT_LAMBDA, 27), k("d.o", NEXT_LAMBDA, 30), k("e.o", NEXT_LAMBDA, 21)],
        {("a.o", "c.o"): 1, ("b.o", "d.o"): 1, (None, "e.o"): None},
    ),
    ("the hash of a checkout is no name", [k("a.o", IN_A)], [k("b.o", IN_B)], {("a.o", "b.o"): 1}),
    (
        "another arch is another kernel",
        [k("a.o")],
        [k("a.o", arch="sm_80")],
        {("a.o", None): None, (None, "a.o"): None},
    ),
    ("an arch of the same family is the same", [k("a.o")], [k("a.o", arch="sm_90a")], {("a.o", "a.o"): 1}),
    (
        "the arch itself before its family",
        [k("a.o")],
        [k("b.o", arch="sm_90a"), k("c.o", registers=99)],
        {("a.o", "c.o"): 1, (None, "b.o"): None},
    ),
    ("where the arch is not known, any", [k("a.o", arch=None)], [k("b.o", arch="sm_80")], {("a.o", "b.o"): 1}),
    (
        "a device function is no kernel",
        [k("a.o")],
        [k("a.o", role="function")],
        {("a.o", None): None, (None, "a.o"): None},
    ),
    (
        "another name with nothing in common",
        [k("a.o")],
        [k("b.o", DOT, 90)],
        {("a.o", None): None, (None, "b.o"): None},
    ),
    (
        "a name that was kept before one that is alike",
        [k("a.o", TEMPLATE)],
        [k("b.o", MOVED), k("c.o", TEMPLATE, 99)],
        {("a.o", "c.o"): 1, (None, "b.o"): None},
    ),
]


@pytest.mark.parametrize(("why", "base", "head", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_pairs(
    why: str, base: list[Kernel], head: list[Kernel], expected: dict[tuple[str | None, str | None], float | None]
) -> None:
    found = {
        (before and before.key.unit, after and after.key.unit): None
        if before is None or after is None or renamed
        else 1
        for before, after, renamed in pair(base, head)
    }
    assert found == expected, why
