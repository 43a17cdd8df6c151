"""Whatever a cubin is packed in, the same functions come out of it."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache

import pytest

from spillscan.model.code import SassFunction
from spillscan.reading.inputs.codecs import zstd
from tests.reading.binary.support import functions, scanned, stored, without_place

PLAIN = stored("plain-13.5.o")


def figures(found: list[SassFunction]) -> list[tuple[object, ...]]:
    return [without_place(function) for function in found]


def read(data: bytes) -> list[SassFunction]:
    found, issues = scanned(data)
    assert not issues
    return found


@cache
def expected() -> list[tuple[object, ...]]:
    return figures(read(PLAIN))


def test_an_object_holds_two_architectures() -> None:
    assert {function.arch for function in read(PLAIN)} == {"sm_80", "sm_90a"}
    assert len(expected()) == 10


@pytest.mark.parametrize("name", ["lz4-13.5.o", "zstd-13.5.o"])
def test_compressed_members(name: str) -> None:
    assert figures(functions(name)) == expected()


def test_a_fat_binary_alone_names_its_family() -> None:
    assert {function.arch for function in functions("fat-13.5.fatbin")} == {"sm_75", "sm_100f"}


def test_a_static_library_names_its_objects() -> None:
    found = functions("relocatable-13.5.a")
    assert {function.identifier for function in found} == {"rdc_a.o", "rdc_b.o"}
    assert {function.final for function in found} == {False}


def test_linked_code_counts_instead_of_the_linkers_input() -> None:
    linked = {function.symbol: function for function in functions("linked-13.5.so")}
    assert {function.final for function in linked.values()} == {None}
    unlinked = {function.symbol: function for function in functions("relocatable-13.5.a")}
    assert linked.keys() == unlinked.keys()


def zipped(compression: int, data: bytes = PLAIN, name: str = "package/lib.so") -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        archive.writestr("package/__init__.py", b"print('nothing to see')\n" * 100)
        archive.writestr(name, data)
    return target.getvalue()


def tarred(data: bytes = PLAIN) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, content in (("README", b"text"), ("lib/kernels.o", data)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("lib/link.o")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return target.getvalue()


LIBRARY = b"!<arch>\n" + b"kernels.o/".ljust(48) + b"%-10d`\n" % len(PLAIN) + PLAIN

PACKED: dict[str, Callable[[], bytes]] = {
    "stored zip": lambda: zipped(zipfile.ZIP_STORED),
    "wheel": lambda: zipped(zipfile.ZIP_DEFLATED),
    "tar": tarred,
    "tar.gz": lambda: gzip.compress(tarred()),
    "tar.zst": lambda: zstd().compress(tarred()),
    "object.gz": lambda: gzip.compress(PLAIN),
    "wheel in a tar": lambda: tarred(zipped(zipfile.ZIP_DEFLATED)),
    "library in a wheel": lambda: zipped(zipfile.ZIP_DEFLATED, LIBRARY),
}


@pytest.mark.parametrize("name", PACKED)
def test_archives(name: str) -> None:
    assert figures(read(PACKED[name]())) == expected()


def test_members_are_named() -> None:
    assert {function.identifier for function in read(PACKED["wheel"]())} == {"package/lib.so"}


def test_several_members_that_differ_in_compression() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.so", PLAIN)
        archive.writestr("b.so", stored("zstd-13.5.o"))
    assert figures(read(target.getvalue())) == expected() * 2


def fat_section() -> bytes:
    """The fat binary of the object."""
    begin = PLAIN.index(b"\x50\xed\x55\xba")
    return PLAIN[begin : begin + 16 + int.from_bytes(PLAIN[begin + 8 : begin + 16], "little")]


def coff(executable: bool) -> bytes:
    """The least Windows file with a section that holds a fat binary."""
    body = fat_section()
    head = (b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0") if executable else b""
    at = len(head) + 20 + 80
    header = struct.pack("<HHIIIHH", 0x8664, 2, 0, 0, 0, 0, 0)
    sections = struct.pack("<8sIIII16x", b".text", 0, 0, 0, 0)
    sections += struct.pack("<8sIIII16x", b".nv_fatb", len(body) if executable else 0, 0x1000, len(body), at)
    return head + header + sections + body


@pytest.mark.parametrize("executable", [True, False])
def test_windows_files(executable: bool) -> None:
    assert figures(read(coff(executable))) == expected()


def test_a_source_is_named_if_the_fat_binary_names_it() -> None:
    entry = fat_section()
    name = b"src/gemm.cu\0".ljust(16, b"\0")
    # one entry whose header is 16 bytes longer, for the name
    size = struct.unpack_from("<Q", entry, 16 + 8)[0]
    head = bytearray(entry[16 : 16 + 64])
    struct.pack_into("<I", head, 4, 80)
    struct.pack_into("<II", head, 32, 64, 11)
    body = bytes(head) + name + entry[16 + 64 : 16 + 64 + size]
    data = entry[:8] + struct.pack("<Q", len(body)) + body
    assert {function.identifier for function in read(data)} == {"src/gemm.cu"}


def test_a_library_that_ends_between_two_members() -> None:
    """Its symbol table names members that are not there."""
    data = stored("relocatable-13.5.a")
    begin = data.rindex(b"`\n", 0, 18_700) - 58  # the last member's header
    whole, cut = scanned(data), scanned(data[:begin])
    assert not whole[1]
    assert 0 < len(cut[0]) < len(whole[0])
    assert [issue.code for issue in cut[1]] == ["damaged"]


def test_a_fat_binary_that_lost_its_beginning() -> None:
    data = bytearray(stored("linked-13.5.so"))
    second = data.index(b"\x50\xed\x55\xba", data.index(b"\x50\xed\x55\xba") + 4)
    data[second] ^= 0xFF
    assert "unexpected data between fat binaries" in scanned(bytes(data))[1][0].message
