"""File formats by their first bytes: archives that are opened, archives that are not, and files without machine
code."""

from __future__ import annotations

import re
from collections.abc import Mapping

HEAD_BYTES = 512
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

WRITTEN_BY_HAND = (
    *(".cuh", ".h", ".hpp", ".md", ".rst", ".html", ".cmake", ".mk", ".bazel", ".ipynb"),
    *("makefile", "cmakelists.txt", "meson.build", "dockerfile"),
)
"""Name endings of text files that may quote a log but are not one. They occur in source trees used as build folders,
and among reports."""


def kind(head: bytes) -> str | None:
    """Which of :data:`KINDS` a file that begins with ``head`` is; ``None`` for anything else."""
    found = next((name for magic, name in _MAGICS.items() if head.startswith(magic)), None)
    if found is None and _CPIO.match(head):
        return "cpio"
    return "tar" if found is None and is_tar(head) else found


def is_tar(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar member's header: they have a valid checksum or the mark of POSIX or GNU."""
    return len(head) >= HEAD_BYTES and (head[257:263] in (b"ustar\0", b"ustar ") or has_tar_checksum(head))


def has_tar_checksum(head: bytes) -> bool:
    """Whether the first 512 bytes are a tar member's header with a valid checksum. Text may contain the mark alone."""
    stated = head[_TAR_CHECKSUM_AT : _TAR_CHECKSUM_AT + 8]
    if not _TAR_CHECKSUM.fullmatch(stated):
        return False
    digits = stated.strip(b" \0")
    others = sum(head[:_TAR_CHECKSUM_AT]) + 8 * 32 + sum(head[_TAR_CHECKSUM_AT + 8 : HEAD_BYTES])
    return bool(digits) and head[:1] != b"\0" and int(digits, 8) == others


def sealed(head: bytes) -> str | None:
    """Description of an unsupported packed format; ``None`` if ``head`` is not one."""
    return next((how for magic, how in SEALED.items() if head.startswith(magic)), None)
