"""Damaged and hostile files: an issue with its offset, never an exception, a hang or a flood of memory."""

from __future__ import annotations

import gzip
import io
import struct
import tracemalloc
import zipfile
import zlib
from itertools import cycle
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.reading.binary import records
from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.window import DEFAULT, Limits, Window
from spillscan.reading.inputs.codecs import zstd
from tests.conftest import sized
from tests.reading.binary.support import scanned, stored
from tests.reading.binary.test_containers import coff, fat_section, tarred, zipped

CUBIN = stored("sass-sm_90a-13.5.cubin")
OLD = stored("sass-sm_52-12.3.cubin")
OBJECT = stored("lz4-13.5.o")

SEEDS = {
    "new cubin": CUBIN,
    "old cubin": OLD,
    "lz4 object": OBJECT,
    "zstd object": stored("zstd-13.5.o"),
    "fat binary": stored("fat-13.5.fatbin"),
    "static library": stored("relocatable-13.5.a"),
    "shared library": stored("linked-13.5.so"),
    "wheel": zipped(zipfile.ZIP_DEFLATED),
    "tar": tarred(),
    "dll": coff(executable=True),
}
SCALE = sized(32, 1)
"""How much smaller than the defaults the bounds are, and with them what is to exceed them."""
LIMITS = Limits(free_bytes=(64 << 20) // SCALE, free_functions=(1 << 16) // SCALE, members=(1 << 17) // SCALE)
MOST_RECORDS = 100_000 // SCALE
LARGEST_BYTES = (512 << 20) // SCALE
BOMB = b"\x7fELF" + bytes((600 << 20) // SCALE)

DAMAGES = b"\x07 \x7f\xff"
"""Bytes that no compiler writes in a name."""
ODD = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]


def survives(data: bytes, limits: Limits = DEFAULT) -> tuple[list[SassFunction], list[Issue]]:
    """Read it, and all that it contains: only functions and printable issues may result."""
    found, issues = scanned(data, limits=limits)
    assert all(issue.message.isprintable() for issue in issues)
    for stats in (function.stats for function in found):
        assert sum(count for _, count in stats.opcodes) == stats.instructions
        assert sum(stats.local.groups.values()) == len(stats.local.accesses) == stats.local.total.accesses
    return found, issues


@pytest.mark.parametrize("name", SEEDS)
@given(data=st.data())
def test_any_field_may_hold_anything(name: str, data: st.DataObject) -> None:
    seed = bytearray(SEEDS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(seed) - 8))
        size = data.draw(st.sampled_from([1, 2, 4, 8]))
        value = data.draw(st.one_of(st.sampled_from(ODD), st.integers(0, 2**64 - 1)))
        seed[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    survives(bytes(seed))


@pytest.mark.parametrize("name", ["new cubin", "old cubin"])
@given(data=st.data())
def test_any_header_may_hold_anything(name: str, data: st.DataObject) -> None:
    """Headers and section headers: where offsets and sizes are."""
    seed = bytearray(SEEDS[name])
    (table,) = struct.unpack_from("<Q", seed, 40)
    places = st.one_of(st.integers(0, 62), st.integers(table, len(seed) - 8))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(places)
        seed[at : at + 8] = data.draw(st.sampled_from(ODD)).to_bytes(8, "little")[: len(seed) - at]
    survives(bytes(seed))


@pytest.mark.parametrize("name", SEEDS)
def test_cut_off_anywhere(name: str) -> None:
    seed = SEEDS[name]
    for size in sorted({*range(0, 200, 7), *range(0, len(seed), max(1, len(seed) // 60))}):
        survives(seed[:size])


@given(st.sampled_from([b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>\n", b"MZ", b"PK\x03\x04"]), st.binary(max_size=4096))
def test_anything_after_a_magic(magic: bytes, rest: bytes) -> None:
    survives(magic + rest)


def test_damage_is_reported_with_its_offset_and_the_rest_is_read() -> None:
    data = bytearray(stored("plain-13.5.o"))
    second = data.rindex(b"\x7fELF")
    struct.pack_into("<Q", data, second + 40, 1 << 63)
    found, issues = survives(bytes(data))
    assert {function.arch for function in found} == {"sm_80"}
    assert [(issue.code, issue.severity) for issue in issues] == [("damaged", "error")]
    assert f"offset {second:#x}" in issues[0].message


def test_one_damaged_function_does_not_hide_the_others() -> None:
    data = bytearray(CUBIN)
    name = data.index(b"\0.nv.info.spills_wide\0") + 1
    assert name
    (table,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    strings = struct.unpack_from("<Q", data, table + 64 * struct.unpack_from("<H", data, 62)[0] + 24)[0]
    for number in range(count):
        at = table + 64 * number
        if struct.unpack_from("<I", data, at)[0] + strings == name:
            (offset,) = struct.unpack_from("<Q", data, at + 24)
            data[offset] = 99
    found, issues = survives(bytes(data))
    assert {function.symbol for function in scanned(CUBIN)[0]} - {function.symbol for function in found} == {
        "spills_wide"
    }
    assert "spills_wide" in issues[0].message


@pytest.mark.parametrize("name", ["new cubin", "old cubin"])
def test_no_name_that_is_used_is_damaged_in_silence(name: str) -> None:
    """A character that no compiler writes into a name is reported, or nothing read depends on it."""
    seed = SEEDS[name]
    elf, whole = Elf(Window(seed)), scanned(seed)
    used = {function.symbol.encode() for function in whole[0]}
    reported = set()
    for index in (
        at for at, each in enumerate(elf.sections) if each.type == 3
    ):  # string tables: of sections, of symbols
        begin = elf.sections[index].offset
        places = range(begin + 1, begin + elf.sections[index].size, sized(11, 1))
        for at, damage in zip((at for at in places if seed[at]), cycle(DAMAGES), strict=False):
            data = bytearray(seed)
            data[at] = damage
            found, issues = scanned(bytes(data))
            if len(issues) > len(whole[1]):
                reported.add(damage)
                continue
            assert found == whole[0]
            assert seed[seed.rindex(b"\0", 0, at) + 1 : seed.index(b"\0", at)] not in used
    assert reported == {*DAMAGES}


def bomb_lz4(size: int) -> bytes:
    """A fat binary entry that claims to become ``size`` bytes."""
    section = bytearray(fat_section())
    struct.pack_into("<Q", section, 16 + 40, 0x2011)
    struct.pack_into("<I", section, 16 + 16, 1000)
    struct.pack_into("<Q", section, 16 + 56, size)
    return bytes(section)


def bomb_zip() -> bytes:
    return zipped(zipfile.ZIP_DEFLATED, BOMB)


def overlapping_zip() -> bytes:
    """Many directory entries for one member."""
    data = bytearray(zipped(zipfile.ZIP_STORED, stored("plain-13.5.o")))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        start = archive.start_dir
    end = data.rindex(b"PK\x05\x06")
    entries, tail = bytes(data[start:end]), bytearray(data[end:])
    count = 20_000 // SCALE
    struct.pack_into("<HH", tail, 8, count, count)
    struct.pack_into("<I", tail, 12, len(entries) * count // 2)
    return bytes(data[:start]) + entries * (count // 2) + bytes(tail)


def self_referring_elf() -> bytes:
    """A host whose every section is a fat binary, and all are the same."""
    section = fat_section()
    names = b"\0.nv_fatbin\0"
    count = 5000 // SCALE
    table = 64 + len(section) + len(names)
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, count + 1, 0)
    )
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(section), len(names), 0, 0, 1, 0)
    fat = struct.pack("<IIQQQQIIQQ", 1, 1, 2, 0, 64, len(section), 0, 0, 1, 0)
    return header + section + names + strings + fat * count


def nested(depth: int) -> bytes:
    data = stored("plain-13.5.o")
    for _ in range(depth):
        data = gzip.compress(data, 1)
    return data


def quine() -> bytes:
    """Fat binary with an entry that contains the same fat binary as a cubin."""
    section = fat_section()
    return section[:16] + section[16:] + section


def many_sections() -> bytes:
    """A small zstd file that becomes a cubin with sections only."""
    data = bytearray(CUBIN)
    (table,) = struct.unpack_from("<Q", data, 40)
    (count,) = struct.unpack_from("<H", data, 60)
    text = next(
        data[table + 64 * number : table + 64 * number + 64]
        for number in range(count)
        if struct.unpack_from("<Q", data, table + 64 * number + 8)[0] == 6
    )
    more = 1_000_000 // SCALE
    first = bytearray(64)
    struct.pack_into("<Q", first, 32, more + count)
    struct.pack_into("<Q", data, 40, len(data))
    names = struct.unpack_from("<H", data, 62)[0]
    struct.pack_into("<H", data, 60, 0)
    old = bytes(data[table + 64 : table + 64 * count])
    assert names < count
    return zstd().compress(bytes(data) + bytes(first) + old + bytes(text) * more)


HOSTILE = {
    "lz4 entry of 2^63 bytes": lambda: bomb_lz4((1 << 63) - 1),
    "lz4 entry of 3 GB": lambda: bomb_lz4(3 << 30),
    "deflate bomb": bomb_zip,
    "gzip bomb": lambda: gzip.compress(BOMB, 1),
    "zstd bomb": lambda: zstd().compress(BOMB),
    "gzip in gzip": lambda: nested(40),
    "one section a thousand times": self_referring_elf,
    "one member a thousand times": overlapping_zip,
    "a million functions": many_sections,
    "itself": quine,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_bounded_in_records_and_memory_and_the_limit_is_named(name: str) -> None:
    data = HOSTILE[name]()
    tracemalloc.start()
    found, issues = survives(data, LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < LARGEST_BYTES, f"{peak >> 20} MiB"
    assert len(found) + len(issues) < MOST_RECORDS
    if "bomb" in name or "2^63" in name or "gzip in" in name or "one member" in name:
        assert issues[0].code == ("damaged" if "one member" in name else "unopened-member")
        assert "offset 0x" in issues[0].message


def test_limits_can_be_set() -> None:
    small = Limits(free_bytes=1 << 10, ratio=1)
    issues = [item for item in records.items(OBJECT, "file", small) if isinstance(item, Issue)]
    assert any("more than" in issue.message for issue in issues)


def test_names_do_not_act() -> None:
    name = "\x1b[31m<script>\n\u202e.so"
    data = zipped(zipfile.ZIP_STORED, b"\x7fELF" + b"\xff" * 100, name)
    _, issues = survives(data)
    assert issues
    assert "\x1b" not in issues[0].message


def test_a_deflated_member_that_breaks_off() -> None:
    packed = zipped(zipfile.ZIP_DEFLATED)
    begin = packed.index(b"lib.so") + 300
    _, issues = survives(packed[:begin] + b"\xff" * 64 + packed[begin + 64 :])
    assert any("damaged" in cast(str, issue.code) for issue in issues)
    assert zlib.crc32(packed)


def loops(count: int) -> bytes:
    """A cubin in which a function is nothing but nested loops around an access to local memory."""
    data = bytearray(CUBIN)
    (table,) = struct.unpack_from("<Q", data, 40)
    at = table + 64 * Elf(Window(CUBIN)).names.index(b".text.spills")
    branches = []
    for index in range(count):
        steps = (count - 1 - index) - (count + 1 + index) - 1  # the last branch goes back to the first instruction
        words = (steps * 4) & ((1 << 56) - 1)
        low, rest = words & 0xFF, words >> 8
        first = 0x7947 | low << 16 | (rest & 0x3FFFFFFF) << 34
        branches.append(struct.pack("<QQ", first & ((1 << 64) - 1), rest >> 30 & 0x3FFFF))
    nothing = struct.pack("<QQ", 0x7918, 0)
    access = struct.pack("<QQ", 0x0000440301007387, 0x100800)
    code = nothing * count + access + b"".join(branches)
    struct.pack_into("<QQ", data, at + 24, len(data), len(code))
    return bytes(data) + code


@pytest.mark.parametrize(("nested", "depth"), [(50, 50), (8_000, 8_000), (60_000, None)])
def test_loops_are_followed_farther_than_a_compiler_nests_them(nested: int, depth: int | None) -> None:
    """Beyond a bound depths are not known; the function keeps its record."""
    found, issues = survives(loops(nested))
    assert not issues
    depths = {access.depth for function in found for access in function.stats.local.accesses}
    assert depth in depths
    if depth is not None:
        assert max(each for each in depths if each is not None) == depth
