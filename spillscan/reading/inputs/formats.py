"""File formats by their first bytes, and the reader of each. Readers are imported only for files of their format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

HEAD_BYTES = 1 << 16
"""Bytes at the beginning of an input from which its format is detected."""

ARCHIVE_HEAD_BYTES = 512
"""Bytes at the beginning of a file that identify an archive."""

KINDS: Mapping[str, str] = {
    "zip": "a zip archive or wheel",
    "tar": "a tar archive",
    "library": "a static library",
    "thin": "a thin archive",
}
"""Archives by name. Their members are read, except those of thin archives, which are separate files."""

_MAGICS = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"!<arch>\n": "library",
    b"!<thin>\n": "thin",
}
_CPIO = re.compile(rb"\xc7\x71|07070(?:[12][0-9a-fA-F]{104}|7[0-7]{70})")
_TAR_CHECKSUM_AT = 148
_TAR_CHECKSUM = re.compile(rb"(?=[ 0-7]{1,7}[\0 ]{1,2}\Z) *[0-7]*[\0 ]*")

_PACKAGES = {b"\xed\xab\xee\xdb": "an RPM package", b"SQLite format 3\0": "an SQLite database"}
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
"""First bytes of packed formats that are not supported, besides packages and databases."""

BARREN = (
    *(b"\x89PNG", b"%PDF", b"\xff\xd8\xff", b"PAR1", b"\x93NUMPY", b"\x89HDF", b"GGUF", b"RIFF", b"OggS", b"ID3"),
    *(b"GIF8", b"\0asm", b"\0\1\0\0\0", b"OTTO", b"wOFF", b"wOF2", b"true\0", b"BM", b"II*\0", b"MM\0*"),
    *(b"fLaC", b"\x1aE\xdf\xa3", *(bytes((0, 0, 0, size)) + b"ftyp" for size in range(16, 64, 4))),
)
"""First bytes of formats that contain no machine code: pictures, fonts, sound, tables of numbers."""

OBJECTS = (".o", ".obj", ".cubin", ".fatbin")
"""Name endings of files that one compilation writes."""
WRITTEN_BY_HAND = (
    *(".cuh", ".h", ".hpp", ".md", ".rst", ".html", ".cmake", ".mk", ".bazel", ".ipynb", ".sarif"),
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
"""First bytes of cubins (64 bits, little-endian, version 1) and fat binaries (version, header bytes), at any position
of a file."""


def kind(head: bytes) -> str | None:
    """Archive format of a file that begins with ``head``, a key of :data:`KINDS`; ``None`` if it is none."""
    archive = next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)
    return "tar" if archive is None and is_tar(head) else archive


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
    return _package(head) or _described(SEALED, head)


def _package(head: bytes) -> str | None:
    return "a cpio archive" if _CPIO.match(head) else _described(_PACKAGES, head)


def _described(magics: Mapping[bytes, str], head: bytes) -> str | None:
    return next((what for magic, what in magics.items() if head.startswith(magic)), None)


def kind_of_binary(head: bytes) -> str | None:
    """Description such as ``a PNG image``; ``None`` if ``head`` may be text."""
    if what := _by_magic(head):
        return what
    if any(head.find(beginning) >= 0 for beginning in GPU_CODE):
        return "binary data"
    sample = head[:4096]
    controls = sum(sample.count(byte) for byte in range(32) if byte not in b"\t\n\v\f\r\x1b")
    high = sum(byte >= 0x80 for byte in sample) if 0 in sample else 0  # non-ASCII text contains no NUL
    return "binary data" if controls * 10 > len(sample) or high * 4 > len(sample) else None


def may_be_encoded(head: bytes) -> bool:
    """Whether ``head`` may be text in any encoding: it has no magic of a binary format."""
    return _by_magic(head) is None


def _by_magic(head: bytes) -> str | None:
    return _described(_BINARY_KINDS, head) or _package(head) or KINDS.get(kind(head) or "")


def may_hold_code(head: bytes) -> bool:
    """Whether a file that begins with ``head`` may contain GPU code: true unless its format rules it out."""
    return kind_of_binary(head) is None or kind(head) is not None or not head.startswith(BARREN)


# ---- readers -------------------------------------------------------------------------------------------------------

ReaderName = Literal["", "binary", "inputs.own_files", "inputs.ptx", "inputs.sidecars", "disassembly", "logs"]
"""A module of :mod:`spillscan.reading`."""
ListingFormat = Literal["sass", "nvdisasm", "res_usage"]


class _TextFormat(NamedTuple):
    """A format of text, recognised by its first 64 KiB."""

    reader: ReaderName
    words: tuple[bytes, ...]
    """Texts that it contains; a search for them is much cheaper than compiling the expression."""
    expression: bytes
    """Regular expression for its beginning, or for one of its lines."""
    listing: ListingFormat | None = None


_SECTION = rb"^(?://-{10,} \.|[ \t]+\.section[ \t]+\.(?:text|nv|debug|note)\b)"
_ROW = rb"^ {8}/\*[0-9a-f]{4,}\*/ "
_TEXTS = (
    _TextFormat("inputs.own_files", (b'"schema_version"',), rb'\A\s*\{\s*"schema_version"\s*:'),
    _TextFormat("inputs.own_files", (b'"spillscan build ',), rb'\A\s*\{\s*"format"\s*:\s*"spillscan build '),
    _TextFormat("inputs.ptx", (b".version",), rb"\A(?>(?:\s|//[^\n]*\n|/\*(?s:.*?)\*/)*)\.version\s+\d+\.\d+\s"),
    _TextFormat("inputs.sidecars", (b'"num_warps"', b'"shared"'), rb'\A\s*\{[^{}]{0,200}"(?:hash|target)"\s*:'),
    _TextFormat("inputs.sidecars", (b'_smem_bytes"',), rb'\A\s*\{\s*"\w+_smem_bytes"\s*:\s*\d+'),
    _TextFormat(
        "inputs.sidecars", (b"WP_TILE_BLOCK_DIM",), rb"\A(?s:.{0,4000}?)^#define WP_TILE_BLOCK_DIM \d{1,4}\s*$"
    ),
    _TextFormat("inputs.sidecars", (b"tt.func public @",), rb"\btt\.func public @"),
    _TextFormat("disassembly", (b"Resource usage:",), rb"^Resource usage:\r?$", "res_usage"),
    _TextFormat(
        "disassembly", (b" STACK:",), rb"\A(?!(?s:.*)ptxas)(?s:.*?)^[ \t]*REG:\d+ STACK:(?:\d|UNKNOWN)", "res_usage"
    ),
    _TextFormat("disassembly", (b"\t\tFunction : ",), rb"^\t\tFunction : ", "sass"),
    _TextFormat("disassembly", (b"code for sm_",), rb"^[ \t]*code for sm_", "sass"),
    _TextFormat("disassembly", (b'"SM"', b'"Producer"'), rb"\A\s*\[", "nvdisasm"),
    _TextFormat("disassembly", (b"//----------",), _SECTION, "nvdisasm"),
    _TextFormat("disassembly", (b".section",), _SECTION, "nvdisasm"),
    _TextFormat("disassembly", (b"        /*", b"/* 0x"), _ROW, "sass"),
    _TextFormat("disassembly", (b"        /*",), _ROW, "nvdisasm"),
)


def reader_of(head: bytes) -> ReaderName:
    """Reader of a file that begins with ``head``, its first 64 KiB; empty if none reads it."""
    if kind_of_binary(head) is not None:
        return "binary" if may_hold_code(head) else ""
    return text_reader_of(head)


def text_reader_of(head: bytes) -> ReaderName:
    """Reader of a text that begins with ``head``; any text may be a log."""
    form = _text_format(head)
    return "logs" if form is None else form.reader


def listing_format(head: bytes) -> ListingFormat | None:
    """Format of a disassembly or resource listing that begins with ``head``; ``None`` if it is neither."""
    form = _text_format(head)
    return None if form is None else form.listing


def _text_format(head: bytes) -> _TextFormat | None:
    for each in _TEXTS:
        if all(word in head for word in each.words) and re.search(each.expression, head, re.MULTILINE):
            return each
    return None
