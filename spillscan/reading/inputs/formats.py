"""File formats by their first bytes, and the reader of each. Readers are imported only for files of their format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

HEAD_BYTES = 1 << 16
"""Bytes at the beginning of an input from which its format is detected."""

ARCHIVE_HEAD_BYTES = 512
"""Bytes at the beginning of a file that identify an archive."""

KINDS: Mapping[str, str] = {
    "zip": "a zip archive or wheel",
    "tar": "a tar archive",
    "library": "a static library",
    "thin": "a thin archive",
    "cpio": "a cpio archive",
    "rpm": "an RPM package",
    "sqlite": "an SQLite database",
}
"""Archives by name. The members of zip, tar and static libraries are read."""

_MAGICS = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"!<arch>\n": "library",
    b"!<thin>\n": "thin",
    b"\xc7\x71": "cpio",
    b"\xed\xab\xee\xdb": "rpm",
    b"SQLite format 3\0": "sqlite",
}
_CPIO = re.compile(rb"07070(?:[12][0-9a-fA-F]{104}|7[0-7]{70})")
_TAR_CHECKSUM_AT = 148
_TAR_CHECKSUM = re.compile(rb"(?=[ 0-7]{1,7}[\0 ]{1,2}\Z) *[0-7]*[\0 ]*")

SEALED: Mapping[bytes, str] = {
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"MSCF\0\0\0\0": "a cabinet file",
    b"\x1f\x9d": "compressed by compress",
    b"\x1f\xa0": "compressed by SCO compress",
    b"LZIP\1": "compressed by lzip",
    b"\x5d\0\0": "compressed by lzma",
    b"\x78\x9c": "compressed by zlib",
    b"\x78\xda": "compressed by zlib",
    b"\x89LZO\0\r\n\x1a\n": "compressed by lzop",
    b"\xff\x06\0\0sNaPpY": "compressed by snappy",
    b"hsqs": "a squashfs file system",
    b"xar!\0": "a xar archive",
    b"Salted__": "encrypted by openssl",
    b"age-encryption.org/": "encrypted by age",
    b"-----BEGIN PGP MESSAGE": "encrypted by PGP",
    b"-----BEGIN AGE ENCRYPTED": "encrypted by age",
}
"""First bytes of packed formats that are not supported."""

BARREN = (
    *(b"\x89PNG", b"%PDF", b"\xff\xd8\xff", b"PAR1", b"\x93NUMPY", b"\x89HDF", b"GGUF", b"RIFF", b"OggS", b"ID3"),
    *(b"GIF8", b"\0asm", b"\0\1\0\0\0", b"OTTO", b"wOFF", b"wOF2", b"true\0", b"BM", b"II*\0", b"MM\0*"),
    *(b"fLaC", b"\x1aE\xdf\xa3", *(bytes((0, 0, 0, size)) + b"ftyp" for size in range(16, 64, 4))),
)
"""First bytes of formats that contain no machine code: pictures, fonts, sound, tables of numbers."""

OBJECTS = (".o", ".obj", ".cubin", ".fatbin")
"""Name endings of files that one compilation writes."""
WRITTEN_BY_HAND = (
    *(".cuh", ".h", ".hpp", ".md", ".rst", ".html", ".cmake", ".mk", ".bazel", ".ipynb"),
    *("makefile", "cmakelists.txt", "meson.build", "dockerfile"),
)
"""Name endings of text files that may quote a log but are not one. They occur in source trees used as build folders,
and among reports."""


_BINARY_KINDS = {
    b"\x7fELF": "an ELF binary",
    b"\x89PNG": "a PNG image",
    b"MZ": "a Windows binary",
    b"%PDF": "a PDF document",
    b"\xff\xd8\xff": "a JPEG image",
    b"PAR1": "a Parquet file",
    b"\x50\xed\x55\xba": "a CUDA fatbin",
    **{bytes((0x80, protocol)): "a pickle" for protocol in range(2, 6)},
}

GPU_CODE = (b"\x7fELF\2\1\1", b"\x50\xed\x55\xba\1\0\x10\0")
"""First bytes of cubins and fat binaries, at any position of a file."""


def kind(head: bytes) -> str | None:
    """Which of :data:`KINDS` a file that begins with ``head`` is; ``None`` for anything else."""
    found = next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)
    if found is None and _CPIO.match(head):
        return "cpio"
    return "tar" if found is None and is_tar(head) else found


def is_tar(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar member's header: they have a valid checksum or the mark of POSIX or GNU."""
    return len(head) >= ARCHIVE_HEAD_BYTES and (head[257:263] in (b"ustar\0", b"ustar ") or has_tar_checksum(head))


def has_tar_checksum(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar member's header with a valid checksum. Text may contain the mark alone."""
    stated = head[_TAR_CHECKSUM_AT : _TAR_CHECKSUM_AT + 8]
    if not _TAR_CHECKSUM.fullmatch(stated):
        return False
    digits = stated.strip(b" \0")
    others = sum(head[:_TAR_CHECKSUM_AT]) + 8 * 32 + sum(head[_TAR_CHECKSUM_AT + 8 : ARCHIVE_HEAD_BYTES])
    return bool(digits) and head[:1] != b"\0" and int(digits, 8) == others


def sealed(head: bytes) -> str | None:
    """Description of an unsupported packed format; ``None`` if ``head`` is not one."""
    return next((how for magic, how in SEALED.items() if head.startswith(magic)), None)


def kind_of_binary(head: bytes) -> str | None:
    """Description such as ``a PNG image``; ``None`` if ``head`` may be text."""
    for magic, what in _BINARY_KINDS.items():
        if head.startswith(magic):
            return what
    if archive := kind(head):
        return KINDS[archive]
    if any(head.find(beginning) >= 0 for beginning in GPU_CODE):
        return "binary data"
    sample = head[:4096]
    controls = sum(sample.count(byte) for byte in range(32) if byte not in b"\t\n\v\f\r\x1b")
    high = sum(byte >= 0x80 for byte in sample) if 0 in sample else 0  # non-ASCII text contains no NUL
    return "binary data" if controls * 10 > len(sample) or high * 4 > len(sample) else None


def may_be_encoded(head: bytes) -> bool:
    """Whether ``head`` may be text in any encoding: it has no magic of a binary format."""
    return not head.startswith(tuple(_BINARY_KINDS)) and kind(head) is None


def may_hold_code(head: bytes) -> bool:
    """Whether a file that begins with ``head`` may contain GPU code: true unless its format rules it out."""
    return kind_of_binary(head) is None or kind(head) is not None or not head.startswith(BARREN)


# ---- readers -------------------------------------------------------------------------------------------------------

ReaderName = Literal["", "binary", "inputs.own_files", "inputs.ptx", "inputs.sidecars", "dumps", "logs"]
"""A module of :mod:`spillscan.reading`."""
DumpFormat = Literal["sass", "nvdisasm", "res_usage"]

# Expressions are compiled on first use: a cheaper search for a literal part precedes each.


def reader_of(head: bytes) -> ReaderName:
    """Reader of a file that begins with ``head``, its first 64 KiB; empty if none reads it."""
    if kind_of_binary(head) is not None:
        return "binary" if may_hold_code(head) else ""
    return text_reader_of(head)


def text_reader_of(head: bytes) -> ReaderName:
    """Reader of a text that begins with ``head``; any text may be a log."""
    if is_own(head):
        return "inputs.own_files"
    if is_ptx(head):
        return "inputs.ptx"
    if is_sidecar(head):
        return "inputs.sidecars"
    return "logs" if dump_format(head) is None else "dumps"


def is_own(head: bytes) -> bool:
    """Whether ``head`` begins a run file of ``spillscan run``, or a JSON object with a schema version."""
    beginning = rb'\s*\{\s*"(?:schema_version"\s*:|format"\s*:\s*"spillscan build )'
    return head.lstrip()[:1] == b"{" and re.match(beginning, head) is not None


def is_ptx(head: bytes) -> bool:
    """Whether ``head`` begins a PTX module: with its version, optionally after comments."""
    beginning = rb"(?>(?:\s|//[^\n]*\n|/\*.*?\*/)*)\.version\s+\d+\.\d+\s"
    return b".version" in head and re.match(beginning, head, re.DOTALL) is not None


def is_sidecar(head: bytes) -> bool:
    """Whether ``head`` begins a file that a Python kernel compiler writes next to machine code."""
    if b'"num_warps"' in head and b'"shared"' in head and re.match(rb'\s*\{[^{}]{0,200}"(?:hash|target)"\s*:', head):
        return True
    if b'_smem_bytes"' in head and re.match(rb'\s*\{\s*"\w+_smem_bytes"\s*:\s*\d+', head):
        return True
    block = b"#define WP_TILE_BLOCK_DIM "
    if block in head[:4096] and re.search(rb"(?m)^%b\d{1,4}\s*$" % block, head[:4096]):
        return True
    return b"tt.func public @" in head and re.search(rb"\btt\.func public @", head) is not None


def dump_format(head: bytes) -> DumpFormat | None:
    """Format of a disassembly or resource listing that begins with ``head``; ``None`` if it is neither."""
    if is_nvdisasm_json(head):
        return "nvdisasm"
    pasted = b"ptxas" not in head and b" STACK:" in head
    if pasted and re.search(rb"(?m)^[ \t]*REG:\d+ STACK:(?:\d|UNKNOWN)", head):
        return "res_usage"
    if b"Resource usage:" in head and re.search(rb"(?m)^Resource usage:\r?$", head):
        return "res_usage"
    if b"\t\tFunction : " in head and re.search(rb"(?m)^\t\tFunction : ", head):
        return "sass"
    if b"code for sm_" in head and re.search(rb"(?m)^[ \t]*code for sm_", head):
        return "sass"
    section = b"//-" in head or b".section" in head
    if section and re.search(rb"(?m)^(?://-{10,} \.|[ \t]+\.section[ \t]+\.(?:text|nv|debug|note)\b)", head):
        return "nvdisasm"
    if b"        /*" in head and re.search(rb"(?m)^ {8}/\*[0-9a-f]{4,}\*/ ", head):
        return "sass" if re.search(rb"(?m)/\* 0x[0-9a-f]{16} \*/\r?$", head) else "nvdisasm"
    return None


def is_nvdisasm_json(head: bytes) -> bool:
    """Whether ``head`` begins output of nvdisasm -json."""
    return head.lstrip().startswith(b"[") and b'"SM"' in head and b'"Producer"' in head
