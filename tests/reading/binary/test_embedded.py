"""GPU code in unmarked places: in data, after a prefix, in a pickle; and code that is not yet machine code."""

from __future__ import annotations

import base64
import gzip
import lzma
import pickle
import random
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.commands import _issues
from spillscan.model.code import PortableCode, SassFunction
from spillscan.output.errors import InputError
from spillscan.reading.binary import images, records
from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.fetch import texts_of
from spillscan.reading.binary.window import Window
from spillscan.reading.inputs import formats
from spillscan.reading.inputs.formats import GPU_CODE, kind_of_binary
from tests.conftest import FIXTURES
from tests.reading.binary.support import FOLDER, extract, scanned, stored, without_place
from tests.reading.binary.test_containers import expected, fat_section, zipped

TINY_FILE = FOLDER / "tiny-sm_80-13.5.cubin"
TINY = TINY_FILE.read_bytes()
OLD = (FOLDER / "tiny-sm_52-12.3.cubin").read_bytes()
PTX = (FIXTURES / "ptx" / "sweep.ptx").read_bytes()


def elf_file(**sections: bytes) -> bytes:
    """The least ELF file of a host with these sections, a dot before each name."""
    names = b"\0" + b"".join(f".{name}\0".encode() for name in sections) + b".shstrtab\0"
    body, headers = b"", [bytes(64)]
    for name, data in (*sections.items(), ("shstrtab", names)):
        headers.append(
            struct.pack(
                "<IIQQQQIIQQ", names.index(f".{name}\0".encode()), 1, 2, 0, 64 + len(body), len(data), 0, 0, 1, 0
            )
        )
        body += data
    head = b"\x7fELF\2\1\1" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, len(headers), len(headers) - 1
    )
    return head + body + b"".join(headers)


def entry(data: bytes, arch: int, kind: int = 2) -> bytes:
    """An entry of a fat binary, not compressed."""
    return struct.pack("<HHIQIIHHIIIQQQ", kind, 0x101, 64, len(data), 0, 0, 8, 1, arch, 0, 0, 0x11, 0, 0) + data


def fat(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return b"\x50\xed\x55\xba" + struct.pack("<HHQ", 1, 16, len(body)) + body


def units(data: bytes, name: str = "file") -> set[str]:
    found, issues = scanned(data, name)
    assert not issues
    return {function.identifier for function in found}


BARE = [without_place(function) for function in scanned(TINY)[0]]

WHERE = {
    "data of an object": (elf_file(text=b"\x90" * 99, data=b"abc" + TINY), "file:.data+0x3"),
    "data of another size": (elf_file(lrodata=TINY + b"abc" * 30), "file:.lrodata+0x0"),
    "no section": (elf_file(data=b"abc") + bytes(40) + TINY, "file+0x"),
    "prefix of a cache": (b"0123456789abcdef0123456789abcdef01234567" + TINY, "file+0x28"),
    "pickle": (pickle.dumps({"name": "x" * 5000, "code": TINY}), "file+0x"),
    "fat binary in data": (elf_file(rodata=b"a" + fat(entry(TINY, 80))), "file:.rodata+0x1"),
    "twice": (elf_file(data=TINY, rodata=b"abc" + TINY), "file:.data+0x0"),
    "two forms": (elf_file(data=b"abcd" + TINY, rodata=fat(entry(TINY, 80))), "file:.data+0x4"),
}


@pytest.mark.parametrize("name", WHERE)
def test_found_at_any_offset(name: str) -> None:
    data, place = WHERE[name]
    assert kind_of_binary(data)
    assert formats.reader_of(data[:65536]) == "binary"
    found, issues = scanned(data)
    assert not issues
    assert [without_place(function) for function in found] == BARE
    assert all(function.identifier.startswith(place) for function in found)
    assert extract(data, 0) == TINY


def test_a_section_of_fat_binaries_next_to_data() -> None:
    data = elf_file(nv_fatbin=fat_section(), data=TINY, rodata=stored("sass-sm_90a-13.5.cubin"))
    found, issues = scanned(data, "lib.so")
    assert not issues
    assert [without_place(each) for each in found if not each.identifier] == expected()
    assert {each.identifier for each in found} == {"", "lib.so:.data+0x0", "lib.so:.rodata+0x0"}


def test_false_beginnings() -> None:
    noise = random.Random(1).randbytes(1 << 22)
    words = gzip.compress(b"".join(b"%d mustard ustar  ustar\0\n" % number for number in range(5000)))
    for data in (
        noise,
        noise + elf_file(text=b"abc") + noise,  # of another machine
        elf_file(data=b"\x7fELF\2\1\1" + bytes(200)),
        zipped(zipfile.ZIP_STORED, words, "words.gz"),  # the mark of a tar archive alone
    ):
        assert scanned(data) == ([], [])


def test_a_cubin_that_is_cut_off_among_data() -> None:
    found, issues = scanned(elf_file(data=TINY[: len(TINY) // 2]))
    assert not found
    assert [issue.code for issue in issues] == ["damaged"]
    assert ".data+0x0" in issues[0].message


def test_a_folder_with_a_cache_is_seen(tmp_path: Path) -> None:
    (tmp_path / "3f2a.cubin").write_bytes(b"0" * 40 + TINY)
    (tmp_path / "model.bin").write_bytes(bytes(range(256)) * 100)
    assert {kernel.key.unit for kernel in scan(tmp_path).kernels} == {"3f2a.cubin+0x28"}
    _issues.refuse_issues(scan(tmp_path).issues)


def test_unlinked_code_counts_next_to_linked_code() -> None:
    """cuBLAS's assembler kernels are relocatable, among linked ones."""
    relocatable = extract(stored("relocatable-13.5.a"), 0)
    unlinked, issues = scanned(relocatable)
    assert not issues
    assert {function.final for function in unlinked} == {False}
    arch = int((unlinked[0].arch or "").removeprefix("sm_").rstrip("af"))
    both, issues = scanned(elf_file(nv_fatbin=fat(entry(TINY, 80), entry(relocatable, arch))))
    assert not issues
    assert len(both) == len(unlinked) + len(BARE)


def test_architecture_of_an_old_cubin() -> None:
    """Assemblers set a flag that later means sm_90a."""
    data = bytearray(OLD)
    data[49] |= 8
    assert {function.arch for function in scanned(bytes(data))[0]} == {"sm_52"}


def test_joined_entries_are_named_as_not_opened() -> None:
    """``fatbinary -concat``: one entry that holds several."""
    found, issues = scanned(fat(entry(TINY, 80, kind=0x100), entry(TINY, 80)))
    assert {function.arch for function in found} == {"sm_80"}
    assert [issue.code for issue in issues] == ["unopened-member"]


DAMAGED = {
    "unknown kind": fat(entry(TINY, 80, kind=3)),
    "cubin that is called PTX": fat(entry(TINY, 80, kind=1)),
    "another architecture": fat(entry(TINY, 90)),
    "unknown version": fat_section()[:4] + b"\2" + fat_section()[5:],
    "unknown header": fat_section()[:6] + b"\x20" + fat_section()[7:],
    "lost magic": elf_file(nv_fatbin=b"\0" + fat_section()[1:]),
    "host that says it is a cubin": elf_file(data=b"abc")[:18] + b"\xbe" + elf_file(data=b"abc")[19:],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_reported(name: str) -> None:
    assert "damaged" in {issue.code for issue in scanned(DAMAGED[name])[1]}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_members_are_checked_by_their_checksums(compression: int) -> None:
    data = bytearray(zipped(compression, TINY, "lib/kernels.so"))
    at = data.rindex(b"PK\x01\x02") + 16  # the checksum in the directory
    data[at] ^= 1
    found, issues = scanned(bytes(data))
    assert ["damaged: Bad CRC-32" in issue.message for issue in issues] == [True]
    assert len(found) == (len(BARE) if compression == zipfile.ZIP_STORED else 0)


def test_a_member_that_lost_its_magic() -> None:
    data = bytearray(zipped(zipfile.ZIP_STORED, TINY, "lib/kernels.so"))
    data[data.index(b"\x7fELF")] ^= 1
    assert scanned(bytes(data))[1]


def test_a_member_that_the_directory_does_not_name() -> None:
    data = zipped(zipfile.ZIP_STORED, TINY, "lib/kernels.so")
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 4)
    end = data.rindex(b"PK\x05\x06")
    tail = bytearray(data[end:])
    struct.pack_into("<HHI", tail, 8, 1, 1, second - first)
    struct.pack_into("<I", tail, 16, first)
    damaged = data[:first] + data[first:second] + bytes(tail)
    assert any("its index does not list" in issue.message for issue in scanned(damaged)[1])


def modules(data: bytes) -> list[PortableCode]:
    return [item for item in records.items(data, "file") if isinstance(item, PortableCode)]


def test_ptx_alone_is_listed_and_no_gate_passes(tmp_path: Path) -> None:
    (module,) = modules(fat(entry(PTX, 90, kind=1)))
    assert (module.form, module.arch, module.bytes) == ("PTX", "compute_90", len(PTX))
    assert module.kernels
    assert len(module.kernels) == PTX.count(b".entry")
    (tmp_path / "a.ptx").write_bytes(PTX)
    build = scan(tmp_path / "a.ptx")
    assert build.portable[0].kernels == module.kernels
    assert [issue.code for issue in build.issues] == ["ptx-only"]


def test_ptx_next_to_machine_code_has_its_kernels() -> None:
    data = fat(entry(PTX, 90, kind=1), entry(TINY, 80))
    (module,) = modules(data)
    assert module.kernels == tuple(
        sorted({function.symbol for function in scanned(data)[0] if function.role == "entry"})
    )


def test_a_comment_declares_no_kernel() -> None:
    from spillscan.reading.inputs import ptx

    text = b'// .entry one()\n.visible .entry two(\n) {\n}\n.weak .entry three();\n.pragma ".entry four {";\n'
    assert list(ptx.kernels(text)) == ["two"]


def test_a_unit_names_its_library_once() -> None:
    place = images.Place(members=("pkg/_C.so",), identifier="pkg/_C.so:gemm")
    assert place.unit("pkg.whl", "") == "pkg/_C.so:gemm"
    assert replace(place, identifier="gemm.cu").unit("pkg.whl", "") == "pkg/_C.so:gemm.cu"


@pytest.mark.parametrize(
    ("path", "unit"),
    [(b"/home/me/src/gemm.cu", "gemm.cu"), (b"C:\\work\\gemm.cu", "gemm.cu"), (b"src/gemm.cu", "src/gemm.cu")],
)
def test_no_unit_names_a_folder_of_the_machine_that_built_it(path: bytes, unit: str) -> None:
    name = path + b"\0" * (32 - len(path))
    head = struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, 96, len(TINY), 0, 0, 8, 1, 80, 64, len(path), 0x11, 0, 0)
    assert units(fat(head + name + TINY)) == {unit}


def test_objects_are_named_by_symbols_of_the_linked_file() -> None:
    linked = stored("linked-13.5.so")
    assert Elf(Window(linked)).index(b".nvFatBinSegment")
    assert units(linked) == {""}  # what the device linker made is of no one source


def test_files_without_gpu_code_are_told_from_unreadable_ones(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(elf_file(data=b"abc"))
    with pytest.raises(InputError, match="without any GPU code"):
        scan(tmp_path / "lib.so")
    assert isinstance(scanned(TINY)[0][0], SassFunction)


LOST = {
    "code": (b".text.", b".tex_."),
    "attributes of the module": (b".nv.info\0", b".nv.inf_\0"),
    "attributes of a kernel": (b".nv.info.", b".nv.inf_."),
    "a name": (b".text.tiny", b".text.tony"),
}


@pytest.mark.parametrize("what", LOST)
def test_a_cubin_that_has_lost_something(what: str) -> None:
    name, damaged = LOST[what]
    assert [issue.code for issue in scanned(TINY.replace(name, damaged))[1]] == ["damaged"]


def test_cuda_8_has_no_attributes_of_a_kernel_without_parameters() -> None:
    """Cubin with version and attributes changed to those of CUDA 8."""
    lost = OLD.replace(b".nv.info.", b".nv.inf_.")
    of_cuda_8 = bytearray(lost)
    struct.pack_into("<I", of_cuda_8, 20, 80)
    found, issues = scanned(bytes(of_cuda_8))
    assert found
    assert not issues
    struct.pack_into("<I", of_cuda_8, 20, 123)
    assert [issue.code for issue in scanned(bytes(of_cuda_8))[1]] == ["damaged"]


@pytest.mark.parametrize("beginning", GPU_CODE)
def test_each_beginning_of_gpu_code_makes_a_text_binary(beginning: bytes) -> None:
    text = b"static const char code[] = {};\n" * 9
    assert kind_of_binary(text) is None
    assert kind_of_binary(text + beginning + text) == "binary data"


def test_a_binary_is_one_input_of_all_its_bytes() -> None:
    path = FOLDER / "tiny-sm_80-13.5.cubin"
    stats = scan([str(path)]).stats
    assert (stats.inputs, stats.bytes) == (1, path.stat().st_size)


UNOPENED = {
    "array of C": b"char code[] = {" + b",\n".join(b"0x%02x" % each for each in TINY) + b"};\n",
    "words of C": b"code[] = {0x33010102464c457full,0x7};\n",
    "hexadecimal digits": TINY.hex().encode(),
    "base64": b"payload:\n" + base64.encodebytes(TINY),
    "base64 in JSON": b'{"code": "' + base64.b64encode(TINY) + b'"}\n',
    "zip behind a script": b"#!/bin/sh\nexit 0\n" * 9 + zipped(zipfile.ZIP_DEFLATED, TINY),
    "gzip behind a script": b"#!/bin/sh\nexit 0\n" * 9 + gzip.compress(TINY),
    "zip behind a program": elf_file(text=b"\x90" * 99) + zipped(zipfile.ZIP_DEFLATED, TINY),
    "cpio": b"070701" + b"%08x" * 13 % (1, 0o100644, 0, 0, 1, 0, 9, 0, 0, 0, 0, 2, 0) + b"a\0" + b"text text",
    "RPM": b"\xed\xab\xee\xdb\3\0" + bytes(90),
    "SQLite": b"SQLite format 3\0" + bytes(100),
    "LZMA": lzma.compress(TINY, lzma.FORMAT_ALONE),
    "zlib": zlib.compress(TINY),
    "7z": b"7z\xbc\xaf\x27\x1c" + bytes(40),
}


@pytest.mark.parametrize("form", UNOPENED)
def test_packings_that_are_not_opened_are_named(form: str, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(UNOPENED[form])
    (tmp_path / "tiny.cubin").write_bytes(TINY)
    build = scan(tmp_path)
    assert [kernel.key.unit for kernel in build.kernels] == [""]
    assert [issue.code for issue in build.issues] == ["unopened-member"]
    assert "not opened" in build.issues[0].message


@pytest.mark.parametrize("text", [b"f0VMRgIBAQAAAAAAAAAAAAMAPgAB", b"0x7f, 0x45, 0x4c, 0x46, 0x02", b"7f454c46"])
def test_other_files_in_text_are_no_gpu_code(text: bytes) -> None:
    assert scanned(b"payload: " + text + b"\n") == ([], [])


def test_code_after_text_is_found() -> None:
    found, issues = scanned(b"-- a line of a build\n" * 9 + TINY)
    assert [without_place(function) for function in found] == BARE
    assert not issues


@pytest.mark.parametrize("at", [4097, 5_000_000_019])
def test_sparse_ranges_are_not_searched(at: int, tmp_path: Path) -> None:
    file = tmp_path / "sparse.bin"
    with file.open("wb") as stream:
        stream.write(b"\x7f\0")
        stream.truncate(1 << 40)
        stream.seek(at)
        stream.write(TINY)
    read, right = (scan(str(each)).kernels for each in (file, TINY_FILE))
    assert [kernel.usage for kernel in read] == [kernel.usage for kernel in right] != []


def test_equal_code_of_two_archs_is_read_again_from_its_own(tmp_path: Path) -> None:
    other = bytearray(TINY)
    assert other[49] == 80
    other[49] = 86
    (tmp_path / "both.fatbin").write_bytes(fat(entry(TINY, 80), entry(bytes(other), 86)))
    kernels = scan(tmp_path / "both.fatbin").kernels
    texts = texts_of(kernels)
    assert [(each.key.arch, texts[id(each)].number) for each in kernels] == [("sm_80", 80), ("sm_86", 86)]
