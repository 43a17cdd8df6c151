"""Contents of host files and static libraries: headers typed by hand, one fact per row."""

from __future__ import annotations

import struct

import pytest

from spillscan.reading.binary import archive, host
from spillscan.reading.binary.archive import Content
from spillscan.reading.binary.window import Budget, DamageError, Limits, Window

DATA, FAT = b"d" * 80, b"f" * 96
CODE = 0x20


def coff(
    sections: list[tuple[bytes, bytes, int, int]],
    *,
    executable: int = 0,
    between: bytes = b"",
    names: bytes = b"",
    symbols: int = 0,
    signature: tuple[int, int] = (0, 0),
) -> bytes:
    """A Windows file of ``sections``, each (name, bytes, size in memory, traits); ``executable``: kind of its optional
    header; what is ``between`` its headers and the first section, and behind the last its symbols and ``names``."""
    head = (b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0") if executable else b""
    optional = b""
    if executable:
        fields = {0x20B: 112, 0x10B: 96}[executable]
        optional = struct.pack("<H", executable).ljust(fields, b"\0") + bytes(32) + struct.pack("<II", *signature)
    at = len(head) + 20 + len(optional) + 40 * len(sections) + len(between)
    table, bodies = b"", between
    for name, body, virtual, traits in sections:
        table += struct.pack("<8sIIII12xI", name, virtual, 0x1000, len(body), at if body else 0, traits)
        bodies += body
        at += len(body)
    counted = 18 * symbols
    strings = struct.pack("<I", 4 + len(names)) + names if symbols else b""
    where = at if symbols else 0
    header = struct.pack("<HHIIIHH", 0x8664, len(sections), 0, where, symbols, len(optional), 0)
    return head + header + optional + table + bodies + bytes(counted) + strings


@pytest.mark.parametrize("executable", [0, 0x20B, 0x10B])
@pytest.mark.parametrize(
    ("section", "expected", "why"),
    [
        ((b".nv_fatb", FAT, 0, 0), (".nv_fatb", FAT, True), "fat binaries"),
        ((b".data", DATA, 0, 0), (".data", DATA, False), "data may hold anything"),
        ((b".text", DATA, 0, CODE), None, "code holds none"),
        ((b".text", DATA, 0, CODE | 0x40), None, "whatever else it is"),
        ((b".odd", DATA, 0, 0x40), (".odd", DATA, False), "what is initialised is data"),
        ((b".reloc", DATA, 0, 0), None, "linkers write it for each other"),
        ((b".bss", b"", 4096, 0), None, "it takes no room in the file"),
    ],
)
def test_sections_of_windows_files(
    executable: int, section: tuple[bytes, bytes, int, int], expected: tuple[str, bytes, bool] | None, why: str
) -> None:
    found = [
        (name, bytes(part.whole), fat)
        for name, part, fat in host.of_coff(Window(coff([section], executable=executable)))
    ]
    assert found == ([] if expected is None else [expected]), why


@pytest.mark.parametrize(("executable", "used"), [(0, 80), (0x20B, 50)])
def test_only_loaded_parts_of_an_executable_count(executable: int, used: int) -> None:
    ((_, part, _),) = host.of_coff(Window(coff([(b".data", DATA, 50, 0)], executable=executable)))
    assert part.size == used


@pytest.mark.parametrize(("size", "seen"), [(63, False), (64, True), (65, True)])
def test_gaps_are_looked_through_from_64_bytes_on(size: int, seen: bool) -> None:
    found = host.of_coff(Window(coff([(b".text", DATA, 0, CODE)], between=b"g" * size)))
    assert [(name, part.size, fat) for name, part, fat in found] == ([("", size, False)] if seen else [])


def test_long_names_of_windows_files() -> None:
    file = coff([(b"/4", FAT, 0, 0), (b".data", DATA, 0, 0)], names=b".nv_fatbin\0", symbols=2)
    ((name, part, fat), (other, _, _)) = host.of_coff(Window(file))
    assert (name, bytes(part.whole), fat, other) == (".nv_fatbin", FAT, True, ".data")


@pytest.mark.parametrize(
    ("change", "is_one"),
    [
        ({}, True),
        ({0: b"\x64\xaa"}, True),
        ({0: b"\x4c\x01"}, False),
        ({2: b"\0\0"}, False),
        ({2: b"\xff\xfe"}, True),
        ({2: b"\0\xff"}, False),
        ({16: b"\1\0"}, False),
        ({8: struct.pack("<I", 140)}, True),
        ({8: struct.pack("<I", 141)}, False),
    ],
)
def test_beginnings_of_windows_objects(change: dict[int, bytes], is_one: bool) -> None:
    file = bytearray(coff([(b".data", DATA, 0, 0)]))
    assert len(file) == 140
    for at, data in change.items():
        file[at : at + len(data)] = data
    assert host.is_coff_object(Window(bytes(file))) is is_one
    least = coff([(b".data", b"", 0, 0)])
    assert host.is_coff_object(Window(least))
    assert not host.is_coff_object(Window(least[:-1]))


def test_a_windows_file_without_its_header() -> None:
    with pytest.raises(DamageError, match="without a PE header"):
        list(host.of_coff(Window(coff([], executable=0x20B).replace(b"PE\0\0", b"XX\0\0"))))


def member(name: bytes, data: bytes, size: bytes | None = None, mark: bytes = b"`\n") -> bytes:
    stated = size or b"%d" % len(data)
    return name.ljust(16) + b"0".ljust(32) + stated.ljust(10) + mark + data + b"\n" * (len(data) % 2)


@pytest.mark.parametrize(
    ("members", "expected", "why"),
    [
        ([member(b"a.o/", b"xyz")], [("a.o", b"xyz")], "GNU ends names by a slash"),
        ([member(b"a.o", b"xy")], [("a.o", b"xy")], "BSD does not"),
        ([member(b"#1/6", b"long.oxyz")], [("long.o", b"xyz")], "nor does it count a name as bytes"),
        ([member(b"#1/99", b"long")], [("long", b"")], "and a name is no longer than its member"),
        (
            [member(b"//", b"first.o/\nlonger name.o/\n"), member(b"/9", b"xy")],
            [("longer name.o", b"xy")],
            "a long one",
        ),
        (
            [member(b"//", b"first.o/\n"), member(b"/0", b"x"), member(b"b/", b"y")],
            [("first.o", b"x"), ("b", b"y")],
            "two",
        ),
        ([member(b"/", bytes(4)), member(b"a/", b"x")], [("a", b"x")], "a table of symbols is no member"),
        ([member(b"/SYM64/", bytes(8)), member(b"a/", b"x")], [("a", b"x")], "nor is a large one"),
        ([member(b"__.SYMDEF", bytes(8)), member(b"a/", b"x")], [("a", b"x")], "nor BSD's"),
        ([member(b"a/", b"x"), b"\n\0\n"], [("a", b"x")], "filling at the end"),
    ],
)
def test_members_of_static_libraries(members: list[bytes], expected: list[tuple[str, bytes]], why: str) -> None:
    data = b"!<arch>\n" + b"".join(members)
    found = list(archive.members(Window(data), Budget(Limits(), len(data))))
    assert [(each.name, bytes(each.window.whole)) for each in found if isinstance(each, Content)] == expected, why


@pytest.mark.parametrize(
    ("behind", "said"),
    [
        (member(b"b/", b"y", mark=b"XX"), "has no header"),
        (member(b"b/", b"y", size=b"x"), "has no header"),
        (b"x", "the library is truncated"),
        (member(b"b/", b"y")[:50], "the library is truncated"),
    ],
)
def test_damage_of_static_libraries(behind: bytes, said: str) -> None:
    data = b"!<arch>\n" + member(b"a/", b"x") + behind
    with pytest.raises(DamageError, match=said):
        list(archive.members(Window(data), Budget(Limits(), len(data))))


@pytest.mark.parametrize(("farthest", "whole"), [(8, True), (8 + 60 + 8 + 60 + 1, True), (8 + 60 + 8 + 60 + 2, False)])
def test_a_symbol_table_tells_the_extent_of_a_library(farthest: int, whole: bool) -> None:
    data = b"!<arch>\n" + member(b"/", struct.pack(">II", 1, farthest)) + member(b"a/", b"x")
    found = archive.members(Window(data), Budget(Limits(), len(data)))
    if whole:
        assert list(found)
    else:
        with pytest.raises(DamageError, match="the library is truncated"):
            list(found)
