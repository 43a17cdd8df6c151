"""Truth tables, made by hand: for each rule that combines several lines of a log, small logs and what comes of them.

A row is (log, kernels, what the issues hide). A kernel is (symbol, arch, role, registers, spills, spills with callees,
stack, cumulative stack, final, reasons).
"""

from __future__ import annotations

from typing import Any

import pytest

from spillscan.model import Kernel
from spillscan.model.gaps import EVERYTHING
from tests.conftest import read_log

GMEM = "ptxas info    : 0 bytes gmem\n"


def entry(name: str, arch: str = "sm_80") -> str:
    return f"ptxas info    : Compiling entry function '{name}' for '{arch}'\n"


def properties(name: str) -> str:
    return f"ptxas info    : Function properties for {name}\n"


def stack(frame: int = 0, stores: int = 0, loads: int = 0) -> str:
    return f"    {frame} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"


def used(registers: int, clauses: str = "376 bytes cmem[0]") -> str:
    return f"ptxas info    : Used {registers} registers, {clauses}\n"


def kernel(name: str, registers: int, *figures: int, arch: str = "sm_80") -> str:
    return entry(name, arch) + properties(name) + stack(*figures) + used(registers)


def function(name: str, *figures: int) -> str:
    return properties(name) + stack(*figures)


def said(each: Kernel) -> tuple[Any, ...]:
    usage = each.usage
    return (
        each.key.symbol,
        each.key.arch,
        each.role,
        usage.registers,
        usage.spills,
        usage.cumulative_spills,
        usage.stack_bytes,
        usage.cumulative_stack_bytes,
        each.final,
        each.reasons,
    )


def plain(
    name: str, registers: int | None, spills: Any, summed: Any = None, frame: int | None = 0, **other: Any
) -> Any:
    """A kernel of whole programs, as a table has it."""
    return (
        name,
        other.get("arch", "sm_80"),
        other.get("role", "entry"),
        registers,
        spills,
        summed,
        frame,
        other.get("cumulative"),
        other.get("final"),
        other.get("reasons", ()),
    )


FOREIGN = "the properties of another function come before its 'Used N registers' line"
MISPLACED = "its properties come before another kernel's 'Used N registers' line"
BARE = "no stack line before its 'Used N registers' line"
NAMELESS = "no 'Function properties' line names its stack"
NAMESAKES = "same-named kernels were compiled at the same time"
UNINDENTED = "the beginning of its stack line is missing"
LINES_MISSING = {"kernels", "registers", "shared", "spills", "stack"}

CALLEES = {
    "none": (GMEM + kernel("k", 40, 8, 16, 24), [plain("k", 40, (16, 24), None, 8)], set()),
    "one": (
        GMEM + kernel("k", 40, 8, 16, 24) + function("f", 4, 1, 2),
        [
            plain("k", 40, (16, 24), (17, 26), 8),
            plain("f", None, (1, 2), None, 4, role="function"),
        ],
        set(),
    ),
    "several are summed": (
        GMEM + kernel("k", 40, 0, 16, 24) + function("f", 0, 1, 2) + function("g", 0, 100, 200),
        [
            plain("k", 40, (16, 24), (117, 226)),
            plain("f", None, (1, 2), role="function"),
            plain("g", None, (100, 200), role="function"),
        ],
        set(),
    ),
    "only callees spill": (
        GMEM + kernel("k", 40) + function("f", 0, 1, 2),
        [plain("k", 40, (0, 0), (1, 2)), plain("f", None, (1, 2), role="function")],
        set(),
    ),
    "of the kernel before them": (
        GMEM + kernel("k", 40) + function("f", 0, 1, 2) + kernel("l", 30, 0, 5, 6) + function("f", 0, 3, 4),
        [
            plain("k", 40, (0, 0), (1, 2)),
            plain("f", None, (1, 2), role="function"),
            plain("l", 30, (5, 6), (8, 10)),
            plain("f", None, (3, 4), role="function"),
        ],
        set(),
    ),
    "not of another arch's run": (
        GMEM + kernel("k", 40) + GMEM + kernel("k", 41, arch="sm_86") + function("f", 0, 1, 2),
        [
            plain("k", 40, (0, 0)),
            plain("k", 41, (0, 0), (1, 2), arch="sm_86"),
            plain("f", None, (1, 2), role="function", arch="sm_86"),
        ],
        set(),
    ),
    "before the kernel: of relocatable code or of a debug build, whose callees are not known": (
        GMEM + function("f", 0, 1, 2) + kernel("k", 40),
        [
            plain("f", None, (1, 2), role="function"),
            plain("k", 40, (0, 0)),
        ],
        set(),
    ),
    "before the kernel, and device code is linked: relocatable code": (
        GMEM + function("f", 0, 1, 2) + kernel("k", 40) + "[2/2] Linking CUDA device code cmake_device_link.o\n",
        [
            plain("f", None, (1, 2), role="function", final=False),
            plain("k", 40, (0, 0), final=False),
        ],
        set(),
    ),
    "a debug build lists them before: no sums": (
        GMEM
        + function("f", 0, 1, 2)
        + entry("k")
        + function("k")
        + used(40, "8 bytes cumulative stack size, 376 bytes cmem[0]")
        + function("g", 0, 3, 4),
        [
            plain("f", None, (1, 2), role="function"),
            plain("k", 40, (0, 0), cumulative=8),
            plain("g", None, (3, 4), role="function"),
        ],
        set(),
    ),
    "a line is missing elsewhere: no sums": (
        GMEM + kernel("k", 40) + function("f", 0, 1, 2) + properties("g") + GMEM,
        [plain("k", 40, (0, 0)), plain("f", None, (1, 2), role="function")],
        LINES_MISSING,
    ),
}
"""Spills of kernels with their callees."""

SUSPICIONS = {
    "foreign and misplaced: another function's properties stand before the registers line": (
        entry("k") + properties("k") + stack(8, 1, 2) + function("f", 4, 3, 4) + used(40),
        [
            plain("k", None, (1, 2), None, 8, reasons=(FOREIGN,)),
            plain("f", None, (3, 4), None, 4, role="function", reasons=(MISPLACED,)),
        ],
        LINES_MISSING,
    ),
    "not for old archs, whose callees come first": (
        entry("k", "sm_20") + properties("k") + stack(8, 1, 2) + function("f", 4, 3, 4) + used(40),
        [
            plain("k", 40, (1, 2), (4, 6), 8, arch="sm_20"),
            plain("f", None, (3, 4), None, 4, role="function", arch="sm_20"),
        ],
        set(),
    ),
    "of old archs the properties before a registers line may be a callee's: without its kernel's line it is nobody's": (
        properties("f") + stack(8, 1, 2) + used(40, "40 bytes cmem[0], 24 bytes cmem[16]"),
        [plain("f", None, (1, 2), None, 8, role="function", arch=None), plain("", 40, None, None, None, arch=None)],
        {*EVERYTHING},
    ),
    "bare: another kernel has a stack line, this one none": (
        entry("k") + used(40) + kernel("l", 30, 8, 1, 2),
        [plain("k", None, None, None, None, reasons=(BARE,)), plain("l", 30, (1, 2), None, 8)],
        LINES_MISSING,
    ),
    "bare: kernels whose lines stood together before it have stack lines": (
        kernel("l", 30, 8, 1, 2) + kernel("m", 31, 8, 3, 4) + entry("k") + used(40),
        [
            plain("l", 30, (1, 2), None, 8),
            plain("m", 31, (3, 4), None, 8),
            plain("k", None, None, None, None, reasons=(BARE,)),
        ],
        LINES_MISSING,
    ),
    "nameless: kernels whose lines stood together before it have names": (
        kernel("l", 30) + kernel("m", 31) + entry("k") + stack(8, 1, 2) + used(40),
        [plain("l", 30, (0, 0)), plain("m", 31, (0, 0)), plain("k", 40, (1, 2), None, 8, reasons=(NAMELESS,))],
        LINES_MISSING,
    ),
    "bare: a device function before it has a stack line": (
        properties("f") + stack(8, 1, 2) + entry("k") + used(40),
        [
            plain("f", None, (1, 2), None, 8, role="function"),
            plain("k", None, None, None, None, reasons=(BARE,)),
        ],
        LINES_MISSING,
    ),
    "not bare where no kernel has a stack line": (
        entry("k") + used(40),
        [plain("k", 40, None, None, None)],
        set(),
    ),
    "nameless: names stand elsewhere": (
        entry("k") + stack(8, 1, 2) + used(40) + kernel("l", 30),
        [plain("k", 40, (1, 2), None, 8, reasons=(NAMELESS,)), plain("l", 30, (0, 0))],
        LINES_MISSING,
    ),
    "not nameless where no line names one": (
        entry("k") + stack(8, 1, 2) + used(40),
        [plain("k", 40, (1, 2), None, 8)],
        set(),
    ),
    "unindented: others are indented": (
        entry("k") + properties("k") + stack(8, 1, 2).lstrip() + used(40) + kernel("l", 30),
        [plain("k", 40, (1, 2), None, 8, reasons=(UNINDENTED,)), plain("l", 30, (0, 0))],
        LINES_MISSING,
    ),
    "unindented, and same-named kernels differ: their stacks are unknown": (
        entry("k")
        + properties("k")
        + stack(8, 1, 2).lstrip()
        + used(40)
        + entry("k")
        + properties("k")
        + stack(8, 3, 4).lstrip()
        + used(40)
        + kernel("l", 30),
        [plain("k", 40, None, None, None, reasons=(UNINDENTED, NAMESAKES))] * 2 + [plain("l", 30, (0, 0))],
        LINES_MISSING,
    ),
    "not unindented where none is indented": (
        entry("k") + properties("k") + stack(8, 1, 2).lstrip() + used(40),
        [plain("k", 40, (1, 2), None, 8)],
        set(),
    ),
}
"""What may be wrong with a kernel: where that stands, it is ambiguous; registers that may be another's, and stacks of
same-named kernels that differ, are unknown."""

NEAR = "lines near it are torn or missing"

INTERLEAVED = {
    "alike in all: each has one of the lines, whichever": (
        entry("a") + entry("b") + function("a") + function("b") + used(40) + used(40),
        [plain("a", 40, (0, 0)), plain("b", 40, (0, 0))],
        set(),
    ),
    "two figures for two kernels: unknown": (
        entry("a") + entry("b") + function("a", 0, 1, 2) + function("b", 0, 3, 4) + used(40) + used(41),
        [
            plain(name, None, spills, reasons=(f"interleaved output: the register count is one of {shown}",))
            for name, spills, shown in (("a", (1, 2), "40, 41"), ("b", (3, 4), "40, 41"))
        ],
        set(),
    ),
    "constant banks tell archs apart": (
        entry("a", "sm_90") + entry("b") + function("a") + function("b") + used(41) + used(42, "used 1 barriers"),
        [plain("a", 42, (0, 0), arch="sm_90"), plain("b", 41, (0, 0))],
        set(),
    ),
    "a frame is no larger than a cumulative stack": (
        entry("a")
        + entry("b")
        + function("a", 64)
        + function("b", 8)
        + used(41, "16 bytes cumulative stack size, 376 bytes cmem[0]")
        + used(42, "64 bytes cumulative stack size, 376 bytes cmem[0]"),
        [plain("a", 42, (0, 0), None, 64, cumulative=64), plain("b", 41, (0, 0), None, 8, cumulative=16)],
        set(),
    ),
    "one line for two kernels: nobody's": (
        entry("a") + entry("b") + function("a") + function("b") + used(41),
        [
            plain("a", None, (0, 0), reasons=("interleaved output: its 'Used N registers' line may be missing", NEAR)),
            plain("b", None, (0, 0), reasons=("interleaved output: its 'Used N registers' line may be missing", NEAR)),
        ],
        LINES_MISSING,
    ),
}
"""Registers lines of kernels that are open at once."""

TABLE = [
    pytest.param(*row, id=f"{name}: {case}")
    for name, rows in (("callees", CALLEES), ("suspicions", SUSPICIONS), ("interleaved", INTERLEAVED))
    for case, row in rows.items()
]


@pytest.mark.parametrize(("log", "kernels", "hidden"), TABLE)
def test_records_of_lines(log: str, kernels: list[tuple[Any, ...]], hidden: set[str]) -> None:
    reading = read_log(log)
    assert [said(each) for each in reading.kernels] == kernels
    assert {each.confidence for each in reading.kernels if each.reasons} <= {"ambiguous"}
    assert all(each.confidence == "certain" for each in reading.kernels if not each.reasons)
    assert {each for issue in reading.issues for each in issue.hidden} == hidden


CAPPED = "ptxas info    : Overriding maximum register limit 256 for '{}' with  32 of maxrregcount option\n"
LOST = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to allow debugging.\n"
NOTES = {
    "one kernel, one message": (LOST + GMEM + kernel("k", 40), {"k": 1}, set()),
    "as many messages as kernels: each is meant": (
        2 * LOST + GMEM + kernel("k", 40) + kernel("l", 40),
        {"k": 1, "l": 1},
        set(),
    ),
    "fewer messages than kernels: nobody's": (
        LOST + GMEM + kernel("k", 40) + kernel("l", 40),
        {"k": 0, "l": 0},
        {"unattached-setmaxnreg"},
    ),
    "as many, and a device function: nobody's": (
        2 * LOST + GMEM + kernel("k", 40) + kernel("l", 40) + function("f"),
        {"k": 0, "l": 0, "f": 0},
        {"unattached-setmaxnreg"},
    ),
    "before another module: not this one's": (
        GMEM + kernel("k", 40) + LOST + GMEM + kernel("l", 40),
        {"k": 0, "l": 1},
        set(),
    ),
    "no module follows: nobody's": (GMEM + kernel("k", 40) + LOST, {"k": 0}, {"unattached-setmaxnreg"}),
    "of a module without kernels": (
        CAPPED.format("__cuda_dummy_entry__") + GMEM + CAPPED.format("k") + GMEM + kernel("k", 40),
        {"k": 1},
        set(),
    ),
}
"""Messages that name no kernel, or none that is there; the first belong to the compiler's run that begins after."""


@pytest.mark.parametrize("case", NOTES)
def test_messages_that_name_no_kernel(case: str) -> None:
    log, advisories, codes = NOTES[case]
    reading = read_log(log)
    assert {each.key.symbol: len(each.advisories) for each in reading.kernels} == advisories
    assert {issue.code for issue in reading.issues} == codes
