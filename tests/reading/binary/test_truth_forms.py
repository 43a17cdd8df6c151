"""Truth tables of formats whose rare forms no fixture holds: headers and debug information by the words of their
specifications, written by ``struct``. One fact a row."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from spillscan.reading.binary import decode, references
from spillscan.reading.binary.decode import Decoded
from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.host import RELA, sources
from spillscan.reading.binary.packages import of_cpio
from spillscan.reading.binary.packed import Packed
from spillscan.reading.binary.parameters import _Entries, parameters
from spillscan.reading.binary.size_accounting import _overlaps
from spillscan.reading.binary.window import Budget, Limits, Window
from tests.reading.binary.support import FOLDER, scanned, stored

# ---- cpio(5) --------------------------------------------------------------------------------------------------------


def newc(name: bytes, content: bytes, mode: int) -> bytes:
    fields = (1, mode, 7, 8, 1, 9, len(content), 1, 2, 3, 4, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name + b"\0"
    return head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


def odc(name: bytes, content: bytes, mode: int) -> bytes:
    fields = (
        (1, 6),
        (2, 6),
        (mode, 6),
        (7, 6),
        (8, 6),
        (1, 6),
        (3, 6),
        (9, 11),
        (len(name) + 1, 6),
        (len(content), 11),
    )
    return b"070707" + b"".join(b"%0*o" % (width, field) for field, width in fields) + name + b"\0" + content


def old(name: bytes, content: bytes, mode: int) -> bytes:
    high, low = divmod(len(content), 1 << 16)
    head = struct.pack("<13H", 0o070707, 1, 2, mode, 7, 8, 1, 3, 4, 5, len(name) + 1, high, low)
    named = head + name + b"\0"
    return named + bytes(len(named) % 2) + content + bytes(len(content) % 2)


@pytest.mark.parametrize("write", [newc, odc, old])
def test_every_file_of_a_cpio_archive_is_found(write: Any) -> None:
    chance = random.Random(3)
    members = [(f"{'n' * size}.o".encode(), chance.randbytes(size)) for size in (0, 1, 2, 3, 4, 5, 255, 256)]
    members.append((b"large", bytes(70_001)))
    data = b"".join(write(name, content, 0o100644) for name, content in members)
    data += write(b"folder", b"", 0o040755) + write(b"link", b"aim", 0o120777) + write(b"TRAILER!!!", b"", 0)
    window = Window(data)
    found = [each for each in of_cpio(window, Budget(Limits(), len(data))) if isinstance(each, Packed)]
    assert [
        (each.name.encode(), bytes(each.stored.buffer[each.stored.start : each.stored.end])) for each in found
    ] == members


# ---- debug information (DWARF 5, 7.5.6) -----------------------------------------------------------------------------

FORMS = [
    (0x01, bytes(8), "addr"),
    (0x03, b"\2\0ab", "block2"),
    (0x04, b"\2\0\0\0ab", "block4"),
    (0x05, bytes(2), "data2"),
    (0x06, bytes(4), "data4"),
    (0x07, bytes(8), "data8"),
    (0x08, b"abc\0", "string"),
    (0x09, b"\2ab", "block"),
    (0x0A, b"\2ab", "block1"),
    (0x0B, bytes(1), "data1"),
    (0x0C, bytes(1), "flag"),
    (0x0D, b"\x80\x7f", "sdata"),
    (0x0E, bytes(4), "strp"),
    (0x0F, b"\x80\x01", "udata"),
    (0x10, bytes(4), "ref_addr"),
    (0x11, bytes(1), "ref1"),
    (0x12, bytes(2), "ref2"),
    (0x13, bytes(4), "ref4"),
    (0x14, bytes(8), "ref8"),
    (0x15, b"\x80\x01", "ref_udata"),
    (0x17, bytes(4), "sec_offset"),
    (0x18, b"\2ab", "exprloc"),
    (0x19, b"", "flag_present"),
    (0x1A, b"\x80\x01", "strx"),
    (0x1B, b"\x80\x01", "addrx"),
    (0x1C, bytes(4), "ref_sup4"),
    (0x1D, bytes(4), "strp_sup"),
    (0x1E, bytes(16), "data16"),
    (0x1F, bytes(4), "line_strp"),
    (0x20, bytes(8), "ref_sig8"),
    (0x22, b"\x80\x01", "loclistx"),
    (0x23, b"\x80\x01", "rnglistx"),
    (0x24, bytes(8), "ref_sup8"),
    (0x25, bytes(1), "strx1"),
    (0x26, bytes(2), "strx2"),
    (0x27, bytes(3), "strx3"),
    (0x28, bytes(4), "strx4"),
    (0x29, bytes(1), "addrx1"),
    (0x2A, bytes(2), "addrx2"),
    (0x2B, bytes(3), "addrx3"),
    (0x2C, bytes(4), "addrx4"),
]


def leb(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + leb(number >> 7)


def unit(version: int, entries: bytes, kind: int = 1, tables: int = 0) -> bytes:
    head = struct.pack("<HBBI", version, kind, 8, tables) if version == 5 else struct.pack("<HIB", version, tables, 8)
    return struct.pack("<I", len(head + entries)) + head + entries


def shapes(tag: int, form: int, name_form: int = 0x08) -> bytes:
    """Entry 1: with children, a field of a form, its name; entry 2: a parameter; entry 3: a constant of the shape."""
    return (
        b"\1" + leb(tag) + b"\1\x3a" + leb(form) + b"\3" + leb(name_form) + b"\0\0\2\x30\0\3\x08\0\0"
        b"\3\x30\0\x3a\x21\x05\3\x08\0\0\0"
    )


def read(info: bytes, abbreviations: bytes, **more: Any) -> list[tuple[str, tuple[str, ...]]]:
    entries = _Entries.__new__(_Entries)
    state = {"_info": info, "_abbreviations": abbreviations, "_strings": {}, "_shapes": {}, "left": 99, "_moved": {}}
    vars(entries).update(state | more)
    return list(entries.templates())


@pytest.mark.parametrize(("form", "value", "name"), FORMS, ids=[row[2] for row in FORMS])
@pytest.mark.parametrize("version", [4, 5])
def test_a_name_stands_behind_a_field_of_any_form(version: int, form: int, value: bytes, name: str) -> None:
    entries = b"\1" + value + b"Tile<1, 2>\0" + b"\2Rows\0" + b"\3Columns\0" + b"\0"
    info = unit(version, entries)
    assert read(info + info, shapes(0x13, form)) == [("Tile", ("Rows", "Columns"))] * 2, name


@pytest.mark.parametrize(
    ("tag", "entries", "found", "why"),
    [
        (0x02, b"\1\0T<1>\0\2N\0\0", [("T", ("N",))], "a class"),
        (0x2E, b"\1\0T<1>\0\2N\0\0", [("T", ("N",))], "a function"),
        (0x04, b"\1\0T<1>\0\2N\0\0", [], "an enumeration is no template"),
        (0x13, b"\1\0T\0\2N\0\0", [], "no arguments in the name"),
        (0x13, b"\1\0T<1>\0\2N\0\2M\0\0", [], "more parameters than arguments: a pack stands elsewhere"),
        (0x13, b"\1\0T<1, 2>\0\2N\0\0", [], "fewer parameters than arguments"),
        (0x13, b"\1\0T<A<1, 2>, (3, 4)>\0\2N\0\2M\0\0", [("T", ("N", "M"))], "commas inside brackets are no arguments"),
        (0x13, b"\1\0T<1, 2>\0\2_N\0\2M\0\0", [("T", ("", "M"))], "a name of the compiler's is none"),
        (0x13, b"\1\0T<1>\0\2_N\0\0", [], "no name that is one"),
        (0x13, b"\1\0__T<1>\0\2N\0\0", [], "the standard library's own"),
        (0x2E, b"\1\0operator<1>\0\2N\0\0", [], "an operator"),
        (0x13, b"\1\0T<1>\0\1\0U<2>\0\2M\0\0\2N\0\0", [("U", ("M",)), ("T", ("N",))], "one inside another"),
        (0x13, b"\1\0T<1>\0\2N\0\0\x09", [("T", ("N",))], "an entry of no shape ends the unit"),
        (0x13, b"\x09\1\0T<1>\0\2N\0\0", [], "and nothing behind it counts"),
    ],
)
def test_templates_and_their_parameters(tag: int, entries: bytes, found: list[Any], why: str) -> None:
    assert read(unit(4, entries), shapes(tag, 0x0B)) == found, why


def test_names_may_stand_in_two_other_sections() -> None:
    strings = {0x0E: b"..Left<1>\0", 0x1F: b"....Right<1>\0"}
    for form, at, name in ((0x0E, 2, "Left"), (0x1F, 4, "Right")):
        entries = b"\1\0" + struct.pack("<I", at) + b"\2N\0\0"
        assert read(unit(5, entries), shapes(0x13, 0x0B, form), _strings=strings) == [(name, ("N",))]
        moved = b"\1\0" + struct.pack("<I", 0xEEEEEE) + b"\2N\0\0"
        assert read(unit(5, moved), shapes(0x13, 0x0B, form), _strings=strings, _moved={14: at}) == [(name, ("N",))]


def test_units_that_are_not_read() -> None:
    good = unit(5, b"\1\0T<1>\0\2N\0\0")
    one = [("T", ("N",))]
    table = shapes(0x13, 0x0B)
    assert read(unit(5, b"\1\0T<1>\0\2N\0\0", kind=2) + good, table) == one, "a unit of types alone is passed over"
    assert read(unit(6, b"") + good, table) == read(unit(1, b"") + good, table) == []
    assert read(unit(2, b"\1\0T<1>\0\2N\0\0") + good, table) == one * 2
    assert read(good + good[:-1], table) == one
    assert read(good + good, table, left=4) == read(good + good, table, left=3) == one
    assert read(good + unit(5, b"\1\0T<1>\0\2N\0\0", tables=2), b"\0\0" + table) == [("T", ("N",))]


def test_what_stands_where_a_relocation_says_it_counts_for_nothing() -> None:
    """RELA: the addend is the value, also where it is 0 (System V ABI, relocation)."""
    data = bytearray(stored("flags-13.5.o"))
    expected = parameters(Window(bytes(data)))[0]
    file = Elf(Window(bytes(data)))
    info = file.index(b".debug_info")
    assert info is not None
    home = file.contents(info)
    kept = 0
    for index, (kind, owner) in enumerate(zip(file.kinds, file.owners, strict=True)):
        if kind == 4 and owner == info:
            table = file.contents(index)
            for row in table.array(RELA, table.size // RELA.itemsize, 0, "relocations"):
                if int(row["info"]) & 0xFFFFFFFF == 10:
                    at = home.start + int(row["offset"])
                    data[at : at + 4] = b"\xee" * 4
                    kept += int(row["addend"]) == 0
    assert kept
    assert expected
    assert parameters(Window(bytes(data)))[0] == expected


# ---- host files, cubins, code ---------------------------------------------------------------------------------------


def test_a_relocation_says_where_a_fat_binary_stands() -> None:
    data = bytearray(stored("flags-linked-13.5.so"))
    file = Elf(Window(bytes(data)))
    expected = sources(file)
    assert expected
    index = file.index(b".nvFatBinSegment")
    assert index is not None
    home = file.contents(index)
    for at in range(home.start, home.end, 24):
        data[at + 8 : at + 16] = bytes(8)
    assert sources(Elf(Window(bytes(data)))) == expected


@pytest.mark.parametrize(("number", "counted"), [(35, True), (80, True), (89, True), (90, False), (120, False)])
def test_references_are_counted_up_to_an_architecture(number: int, counted: bool) -> None:
    file = Elf(Window((FOLDER / "textures-sm_80-13.5.cubin").read_bytes()))
    (symbols,) = (file.symbols(index) for index, kind in enumerate(file.kinds) if kind == 2)
    found = references.by_section(file, symbols, number)
    assert [(each.textures, each.surfaces, each.samplers) for each in found.values()] == [(2, 1, 1)] * counted


def test_offsets_outside_of_a_function_name_no_instruction() -> None:
    decoded = Decoded.__new__(Decoded)
    for size, wide, offsets, rows in (
        (16, True, [0, 16, 32, 48, -16, 24], [0, 1, 2, 1]),
        (8, False, [8, 16, 24, 40, 48, 0, 56, 72], [0, 1, 2, 3, 4, 5]),
    ):
        code = SimpleNamespace(bytes_per_instruction=size, group_bytes=32, codes=np.arange(len({*rows})))
        decoded.code, decoded.table = cast(Any, code), cast(Any, SimpleNamespace(wide=wide))
        assert decoded._rows_at(offsets).tolist() == rows


@pytest.mark.parametrize(
    ("rows", "found", "why"),
    [
        ([(True, 0, 96, 0), (False, 48, 0, 0)], [(48, 96)], "the meeting goes on where its barrier was set to"),
        ([(True, 0, 96, 1), (False, 48, 0, 2)], [], "another barrier"),
        ([(True, 0, 96, 0x13), (False, 48, 0, 0xF3)], [(48, 96)], "only the last four bits name it"),
        ([(True, 0, 80, 0), (True, 16, 96, 0), (False, 48, 0, 0)], [(48, 96)], "the last that was set"),
        ([(True, 0, 64, 0), (False, 48, 0, 0)], [], "it goes on at the next instruction anyway"),
        ([(True, 0, 65, 0), (False, 48, 0, 0)], [(48, 65)], "behind the next one"),
        ([(True, 0, 32, 0), (False, 48, 0, 0)], [], "never back"),
        ([(False, 48, 0, 0), (True, 64, 96, 0)], [], "set after it"),
    ],
)
def test_where_threads_meet_again(rows: list[tuple[bool, int, int, int]], found: list[Any], why: str) -> None:
    sets, *columns = (np.array(column) for column in zip(*rows, strict=True))
    code = SimpleNamespace(
        codes=np.where(sets, decode._SYNC_SET, decode._SYNC),
        addresses=lambda at: columns[0][at],
        meetings=lambda at: columns[1][at],
        registers=lambda _, at: columns[2][at],
    )
    controls = decode._reconverging(cast(Any, code))
    assert list(zip(controls[0].tolist(), controls[1].tolist(), strict=True)) == found, why


# ---- sizes ----------------------------------------------------------------------------------------------------------


def stretches(chance: random.Random, most: int) -> Iterator[tuple[int, int]]:
    at = 0
    while (at := at + chance.randrange(3)) < most:
        begin, at = at, at + chance.randrange(1, 5)
        yield begin, min(at, most)


def test_free_bytes_of_parts_are_those_of_a_search_byte_by_byte() -> None:
    chance = random.Random(11)
    for _ in range(300):
        free, parts = list(stretches(chance, 30)), list(stretches(chance, 30))
        loose = {at for begin, end in free for at in range(begin, end)}
        labelled = [(begin, end, number) for number, (begin, end) in enumerate(parts)]
        found = list(_overlaps(free, labelled))
        taken = [(at, label) for begin, end, label in found for at in range(begin, end)]
        assert taken == [(at, label) for begin, end, label in labelled for at in range(begin, end) if at in loose]
        assert all(begin < end for begin, end, _ in found)


def test_bytes_that_no_section_holds_and_that_look_compressed_are_told() -> None:
    chance = random.Random(2)
    host = stored("flags-13.5.o")
    for data, told in (
        (host, 0),
        (host + chance.randbytes(1 << 17), 1),
        (host + bytes(1 << 17), 0),
        (host + chance.randbytes(1 << 15), 0),
        (host + (FOLDER / "tiny-sm_80-13.5.cubin").read_bytes() + chance.randbytes(1 << 17), 0),
    ):
        _, issues = scanned(data)
        assert sum("what no section holds looks compressed" in issue.message for issue in issues) == told
