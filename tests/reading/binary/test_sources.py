"""The source of each fat binary of a linked file, in files written here: by wrappers, their pointers, and symbols of
files before them."""

from __future__ import annotations

import struct

import pytest

from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.host import sources
from spillscan.reading.binary.window import Window

FATBIN, WRAPPERS = 0x1000, 0x2000
FILE, OBJECT, FUNCTION = 4, 1, 2
Symbol = tuple[str, int, int, int]
"""Name, kind, section, place in it."""


def linked(symbols: list[Symbol], pointers: list[int], moved: dict[int, int] | None = None, kind: int = 2) -> Elf:
    """Sections: 1 fat binaries of 256 bytes, 2 wrappers of 24 bytes, 3 symbols, 4 their names, 5 relocations, 6 of a
    place in memory alone."""
    strings, table = b"\0", bytes(24)
    for name, type_, section, place in symbols:
        address = {1: FATBIN, 2: WRAPPERS}.get(section, 0) + place
        table += struct.pack("<IBBHQQ", len(strings), type_, 0, section, address, 24)
        strings += name.encode() + b"\0"
    wrappers = b"".join(struct.pack("<IIQQ", 0x466243B1, 1, pointer, 0) for pointer in pointers)
    rows = [(WRAPPERS + place, 8, addend) for place, addend in (moved or {}).items()]
    relocations = b"".join(struct.pack("<QQq", *row) for row in rows)
    sections = [
        (b".nv_fatbin", bytes(256), 1, FATBIN, 0),
        (b".nvFatBinSegment", wrappers, 1, WRAPPERS, 0),
        (b".symtab", table, 2, 0, 4),
        (b".strtab", strings, 3, 0, 0),
        (b".rela.dyn", relocations, 4, 0, 0),
        (b".bss", bytes(64), 8, 0x3000, 0),
    ]
    names, headers, data = b"\0", bytes(64), b""
    for name, content, type_, address, link in [*sections, (b".shstrtab", b"", 3, 0, 0)]:
        at, names = len(names), names + name + b"\0"
        stored = names if name == b".shstrtab" else content
        fields = (at, type_, 0, address, 64 + len(data), len(stored), link, 0, 1, 24)
        headers += struct.pack("<IIQQQQIIQQ", *fields)
        data += stored
    count = len(headers) // 64
    head = b"\x7fELF\2\1\1" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", kind, 62, 1, 0, 0, 64 + len(data), 0, 64, 0, 0, 64, count, count - 1)
    return Elf(Window(head + data + headers))


ONE: list[Symbol] = [("one.cu", FILE, 0xFFF1, 0), ("w", OBJECT, 2, 0)]
TWO: list[Symbol] = [*ONE, ("two.cu", FILE, 0xFFF1, 0), ("w", OBJECT, 2, 24)]
BEGIN = 64
"""Offsets of the fat binaries in the file."""


@pytest.mark.parametrize(
    ("symbols", "pointers", "found"),
    [
        (ONE, [FATBIN], {BEGIN: "one.cu"}),
        (ONE, [FATBIN + 255], {BEGIN + 255: "one.cu"}),
        (ONE, [FATBIN + 256], {}),  # of no section
        (ONE, [FATBIN - 1], {}),
        (ONE, [0x3000], {}),  # of no bytes in the file
        (ONE, [0], {}),
        (TWO, [FATBIN, FATBIN + 64], {BEGIN: "one.cu", BEGIN + 64: "two.cu"}),
        (TWO, [FATBIN + 64, FATBIN], {BEGIN + 64: "one.cu", BEGIN: "two.cu"}),
        (TWO, [FATBIN], {BEGIN: "one.cu"}),  # the second wrapper is not whole
        ([TWO[0], TWO[2], TWO[3]], [0, FATBIN], {BEGIN: "two.cu"}),  # the nearest before it
        ([ONE[1], ONE[0]], [FATBIN], {}),  # none precedes it
        ([ONE[0], ("w", FUNCTION, 2, 0)], [FATBIN], {}),
        ([ONE[0], ("w", OBJECT, 1, 0)], [FATBIN], {}),  # of another section
        ([("link.stub", FILE, 0xFFF1, 0), ONE[1]], [FATBIN], {}),
        ([("tmpxft_00001a2b_00000000-6_gemm.cudafe1.cpp", FILE, 0, 0), ONE[1]], [FATBIN], {BEGIN: "gemm"}),
        ([("tmpxft_0_0-10_gemm.compute_90.cudafe1.cpp", FILE, 0, 0), ONE[1]], [FATBIN], {BEGIN: "gemm"}),
        ([("gemm.cudafe1.stub.c", FILE, 0, 0), ONE[1]], [FATBIN], {BEGIN: "gemm.cudafe1.stub.c"}),
        ([], [FATBIN], {}),
    ],
)
def test_compiled_from(symbols: list[Symbol], pointers: list[int], found: dict[int, str]) -> None:
    assert sources(linked(symbols, pointers)) == found
    moved = {24 * at + 8: pointer for at, pointer in enumerate(pointers)}
    assert sources(linked(symbols, [0] * len(pointers), moved, 3)) == found, "relocations say what is not yet there"


def test_a_relocation_of_another_place_moves_nothing() -> None:
    moved = {0: FATBIN + 64, 7: FATBIN + 64, 9: FATBIN + 64, 16: FATBIN + 64, 40: FATBIN + 64}
    assert sources(linked(ONE, [FATBIN], moved)) == {BEGIN: "one.cu"}
