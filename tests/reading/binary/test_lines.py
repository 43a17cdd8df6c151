"""Source lines of a cubin are those that nvdisasm -gi prints; a damaged table costs lines, nothing else."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.model.local import SourceLine
from spillscan.reading.binary import records
from spillscan.reading.binary.cubin import Cubin
from spillscan.reading.binary.lines import DEEPEST, LineTable, Row
from spillscan.reading.binary.window import DamageError, Window
from spillscan.reading.inputs.codecs import zstd
from tests.conftest import FIXTURES
from tests.reading.binary.support import FOLDER, dumped, functions, stored

LISTINGS = {
    **{path.name.replace("-gi-", "-").removesuffix(".sass.zst"): path for path in FIXTURES.glob("sass/inlined-*gi-*")},
    "lines-sm_80-13.5": FIXTURES / "sass" / "nvdisasm-gi-sm_80-13.5.sass",
}
"""Output of nvdisasm -gi, by the name of the cubin."""

_SECTION = re.compile(r"//-+ \.text\.(\S+)")
_PLACE = re.compile(r'\t//## File "(.*?)", line (\d+)')
_INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+\S")

Chain = tuple[tuple[str, int], ...]


def printed(path: Path) -> dict[str, dict[int, Chain]]:
    """The chain of lines at each instruction of each function, read without spillscan."""
    found: dict[str, dict[int, Chain]] = {}
    frames: list[tuple[str, int]] = []
    symbol, chain = "", ()
    data = path.read_bytes()
    text = zstd().decompress(data) if path.suffix == ".zst" else data
    for line in text.decode().splitlines():
        if match := _SECTION.match(line):
            symbol, chain, frames = match[1], (), []
        elif match := _PLACE.match(line):
            frames.append((match[1], int(match[2])))
        elif match := _INSTRUCTION.match(line):
            chain, frames = tuple(frames) or chain, []
            found.setdefault(symbol, {})[int(match[1], 16)] = chain
    return found


def chain_of(source: SourceLine | None) -> Chain:
    found = []
    while source is not None:
        found.append((source.file, source.line))
        source = source.inlined_at
    return tuple(found)


def test_there_are_listings_of_old_and_new_cubins() -> None:
    assert {Cubin(Window(stored(f"{name}.cubin"))).new_layout for name in LISTINGS} == {True, False}
    assert {"sm_52", "sm_100"} <= {part for name in LISTINGS for part in name.split("-")}
    assert any("debug" in name for name in LISTINGS)


@pytest.mark.parametrize("name", LISTINGS)
def test_every_instruction_has_the_lines_of_nvdisasm(name: str) -> None:
    theirs = printed(LISTINGS[name])
    cubin = Cubin(Window(stored(f"{name}.cubin")))
    deepest = 0
    for function in cubin.functions():
        expected = theirs[function.symbol]
        mine = cubin.lines.of(function.section, list(expected))
        assert mine is not None
        assert [chain_of(source) for source in mine] == list(expected.values())
        deepest = max(deepest, *map(len, expected.values()))
    assert cubin.lines.damage is None
    assert deepest == (2 if name.startswith("lines") else 4)


@pytest.mark.parametrize("name", LISTINGS)
def test_accesses_have_the_lines_of_the_disassembly(name: str) -> None:
    ours = {function.symbol: function.stats.local.accesses for function in functions(f"{name}.cubin")}
    seen = 0
    for function in dumped(LISTINGS[name]):
        theirs = function.stats.local.accesses
        assert [access.source for access in ours[function.symbol]] == [access.source for access in theirs]
        seen += len(theirs)
    assert seen or "debug" in name


@pytest.mark.parametrize("name", LISTINGS)
def test_rows_are_those_of_pyelftools(name: str) -> None:
    cubin = Cubin(Window(stored(f"{name}.cubin")))
    file = ELFFile(io.BytesIO(stored(f"{name}.cubin")))
    data = file.get_section_by_name(".debug_line").data()
    dwarf = file.get_dwarf_info(relocate_dwarf_sections=False)
    programs, at = [], 0
    while at < len(data):
        programs.append(dwarf._parse_line_program_at_offset(at, dwarf.structs))
        at += 4 + int.from_bytes(data[at : at + 4], "little")
    sequences: list[list[tuple[int, int, int]]] = [[]]
    for entry in (entry for program in programs for entry in program.get_entries() if entry.state):
        if entry.state.end_sequence:
            sequences.append([])
        else:
            sequences[-1].append((entry.state.address, entry.state.file, entry.state.line))
    table = LineTable(data, 0)
    offsets = sorted(offset for found in cubin.lines._sequences.values() for offset, _ in found)
    assert [[row[:3] for row in table.rows(offset, 0)] for offset in offsets] == sequences[:-1]


def test_nothing_is_reported_without_line_information() -> None:
    accesses = [access for function in functions("sass-sm_80-13.5.cubin") for access in function.stats.local.accesses]
    assert accesses
    assert all(access.source is None for access in accesses)


def table_of(data: bytes) -> tuple[int, int]:
    """Place of the line table."""
    window = Cubin(Window(data)).elf
    part = window.contents(window.names.index(b".debug_line"))
    return part.start, part.size


SEED = (FOLDER / "tiny-lines-sm_80-13.5.cubin").read_bytes()
BEGIN, SIZE = table_of(SEED)


def reported(data: bytes) -> tuple[list[SassFunction], list[Issue]]:
    items = list(records.items(data, "file"))
    return [i for i in items if isinstance(i, SassFunction)], [i for i in items if isinstance(i, Issue)]


@given(st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_table_costs_lines_and_nothing_else(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SEED)
    for at, value in changes:
        data[BEGIN + at] = value
    found, issues = reported(bytes(data))
    whole, _ = reported(SEED)
    for mine, theirs in zip(found, whole, strict=True):
        assert mine.stats.opcodes == theirs.stats.opcodes
        assert mine.stats.local.groups == theirs.stats.local.groups
    assert {issue.code for issue in issues} <= {"damaged-lines"}


def test_a_table_that_breaks_off_is_reported() -> None:
    data = SEED[:BEGIN] + b"\xff\xff\xff\x7f" + SEED[BEGIN + 4 :]
    found, issues = reported(data)
    assert found[0].stats.local.accesses[0].source is None
    assert [(issue.code, issue.severity) for issue in issues] == [("damaged-lines", "warning")]


def unit(*programs: bytes) -> bytes:
    """A line table of one file, DWARF 3."""
    header = b"\1\1\xfb\x0e\x0d" + bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1)) + b"\0" + b"a.cu\0\0\0\0" + b"\0"
    body = b"\3\0" + len(header).to_bytes(4, "little") + header + b"".join(programs)
    return len(body).to_bytes(4, "little") + body


ADDRESS = b"\0\x09\2" + bytes(8)


def test_sequences_that_overlap_end_the_reading() -> None:
    data = unit(*[ADDRESS] * 400)
    table = LineTable(data, 0)
    first = data.find(ADDRESS)
    read = [table.rows(at, 0) for at in (first, len(data) - len(ADDRESS))]
    assert read == [[], []]
    with pytest.raises(DamageError, match="overlap"):
        table.rows(first, 0)


@pytest.mark.parametrize("program", [b"\2" + b"\xff" * 40, b"\3", b"\0", b"\0\4", b"\0\5\x90" + b"\xff" * 12, b"\x0c"])
def test_opcodes_that_break_off_are_damage(program: bytes) -> None:
    data = unit(ADDRESS, program)
    with pytest.raises(DamageError, match="line table"):
        LineTable(data, 0).rows(data.find(ADDRESS), 0)


@pytest.mark.parametrize(
    ("called", "callers"),
    [
        ((0, 1, 2), (None, "1", "2")),
        ((0, 1, 1), (None, "1", "1")),
        ((0, 2, 1), (None, None, None)),  # itself: one was left out before it, so the next is unknown, too
        ((0, 1, 4, 1), (None, "1", None, None)),
        ((1, 1), (None, None)),
    ],
)
def test_callers_are_unknown_after_an_omitted_row(called: tuple[int, ...], callers: tuple[str | None, ...]) -> None:
    lines = Cubin(Window(SEED)).lines
    rows = [Row(address, 1, 1 + at, caller) for at, (address, caller) in enumerate(zip(range(9), called, strict=False))]
    chains = lines._chains(rows, ["a.cu"], 0)
    found = [each and each.inlined_at and str(each.inlined_at.line) for each in chains]
    assert found == [*callers]
    assert [each.line for each in chains if each] == [*range(1, len(called) + 1)]


def test_calls_nest_no_deeper_than_the_limit() -> None:
    cubin = Cubin(Window(SEED))
    deeper = b"".join(b"\0\4\x90" + bytes((row & 127 | 128, row >> 7, 0)) + b"\1" for row in range(DEEPEST + 2))
    data = unit(ADDRESS, deeper)
    found = LineTable(data, 0).rows(data.find(ADDRESS), 0)
    assert len(found) == DEEPEST + 2
    with pytest.raises(DamageError, match="inconsistent row"):
        cubin.lines._chains(found, ("a.cu",), 0)
    chains = cubin.lines._chains(found[:DEEPEST], ("a.cu",), 0)
    assert len(chain_of(chains[-1])) == DEEPEST
    assert chains[-1] == chains[-1]
