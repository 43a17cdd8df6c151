"""Classes and loop depths of local-memory accesses: one fact per row, by hand from ptxas's conventions (the rules are
in :mod:`spillscan.reading.machine.local`).
"""

from __future__ import annotations

import pytest

from spillscan.model.code import SassFunction
from spillscan.reading.disassembly.cuobjdump import SassListing
from tests.reading.disassembly.test_cuobjdump import END, HEAD, row

TRUTH: list[tuple[str, list[str], list[tuple[int, str, int | None, int, int | None]]]] = [
    (
        "a store and its last use are a spill",
        ["STL [R1+0x4], R2", "LDL.LU R2, [R1+0x4]", "EXIT"],
        [(0, "spill", 0, 0, 4), (16, "spill", 0, 0, 4)],
    ),
    (
        "without a last use nothing spills: a slot is an array's element",
        ["STL [R1+0x4], R2", "LDL R2, [R1+0x4]", "EXIT"],
        [(0, "array", 0, 0, 4), (16, "array", 0, 0, 4)],
    ),
    (
        "an address in a register is an array's; slots from the lowest refill on are spills beside it",
        ["STL [R3], R2", "STL [R1+0x8], R2", "LDL.LU R2, [R1+0x8]", "STL [R1], R4", "EXIT"],
        [(0, "array", 0, 0, None), (16, "spill", 0, 0, 8), (32, "spill", 0, 0, 8), (48, "array", 0, 0, 0)],
    ),
    (
        "what is only stored where something outside is called is an argument on the stack",
        ["STL [R1], R2", "CALL.ABS.NOINC 0x0", "EXIT"],
        [(0, "frame", 0, 0, 0)],
    ),
    (
        "an argument may be an array's element where the address of the frame is taken as well",
        ["MOV R4, R1", "STL [R1], R2", "CALL.ABS.NOINC 0x0", "EXIT"],
        [(16, "unknown", 0, 0, 0)],
    ),
    (
        "a jump back passes the reload, and not the store",
        ["STL [R1+0x4], R2", "LDL.LU R2, [R1+0x4]", "@P0 BRA 0x10", "EXIT"],
        [(0, "spill", 0, 0, 4), (16, "spill", 1, 0, 4)],
    ),
    (
        "loops in loops count, each once",
        ["LDL.LU R2, [R1]", "LDL.LU R3, [R1+0x4]", "@P0 BRA 0x10", "@P1 BRA 0x0", "EXIT"],
        [(0, "spill", 1, 0, 0), (16, "spill", 2, 0, 4)],
    ),
    (
        "nothing leads to a loop behind a way out: there is no depth",
        ["STL [R1], R2", "EXIT", "LDL.LU R2, [R1]", "BRA 0x20"],
        [(0, "spill", 0, 0, 0), (32, "spill", None, 0, 0)],
    ),
]


@pytest.mark.parametrize(("why", "texts", "wanted"), TRUTH, ids=[why for why, _, _ in TRUTH])
def test_truth(why: str, texts: list[str], wanted: list[tuple[int, str, int | None, int, int | None]]) -> None:
    data = HEAD + b"".join(row(16 * index, text) for index, text in enumerate(texts)) + END
    (function,) = (item for item in SassListing([data], "dump") if isinstance(item, SassFunction))
    accesses = function.stats.local.accesses
    assert [(each.address, each.kind, each.depth, each.part, each.slot) for each in accesses] == wanted, why
    assert [each.line for each in accesses] == [4 + each.address // 8 for each in accesses]
