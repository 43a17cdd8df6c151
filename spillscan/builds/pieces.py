"""Find GPU code in the bytes of a file, whatever its name and format."""

from __future__ import annotations

import mmap
import os
import re
from hashlib import blake2b, sha256
from struct import Struct
from typing import NamedTuple

PACKED = (b"PK\3\4", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
_CUBIN = re.compile(rb"\x7fELF[\x01\x02].{13}\xbe\0", re.DOTALL)
_FATBIN = re.compile(rb"\x50\xed\x55\xba\x01\0\x10\0")
"""Two expressions: each begins with fixed bytes, which are found at memory speed."""
_SECTION_HEADERS = Struct("<32xI10xHH"), Struct("<40xQ10xHH")
"""Offset of the table of section headers, size and number of them, in 32-bit and 64-bit files."""
_PTX = re.compile(rb"^\s*\.version\s[^\0]*^\s*\.target\s+sm_", re.MULTILINE)
_LINK_STUB = b"__cudaPrelinkedFatbins"
_HEAD_BYTES, _LARGE_BYTES = 1 << 12, 1 << 30
_SPARSE = 8
"""A large file of which the file system stores less than one byte in so many is not searched here."""


class Code(NamedTuple):
    """GPU code in a file."""

    pieces: tuple[str, ...] = ()
    """Digests of each cubin and fat binary; equal code has equal digests in all files.

    PTX and packed files have one of the whole file.
    """
    packed: bool = False
    """Whether the file is compressed or sparse, so that its contents are known only after reading it."""
    linked: bool = False
    """Whether the device linker wrote part of it."""


def code_of(path: str) -> Code:
    """GPU code in a file; none if it cannot be read."""
    try:
        status = os.stat(path)
        if status.st_size > max(_LARGE_BYTES, _SPARSE * status.st_blocks * 512):
            return Code((f"{status.st_ino}-{status.st_ctime_ns}",), packed=True)
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            head = data[:_HEAD_BYTES]
            if (packed := head.startswith(PACKED)) or (b"\0" not in head and _PTX.search(head)):
                return Code((sha256(data).hexdigest(),), packed)
            pieces, end = set[str](), 0
            for begin in sorted(code.start() for form in (_CUBIN, _FATBIN) for code in form.finditer(data)):
                if begin >= end:
                    end = begin + _size(data[begin : begin + 64].ljust(64, b"\0"))
                    pieces.add(blake2b(memoryview(data)[begin:end], digest_size=16).hexdigest())
            return Code(tuple(sorted(pieces)), linked=data.find(_LINK_STUB) >= 0)
    except (OSError, ValueError):  # ValueError: an empty file
        return Code()


def _size(head: bytes) -> int:
    """Size of the cubin or fat binary that begins with ``head``."""
    if _FATBIN.match(head):
        return 16 + int.from_bytes(head[8:16], "little")
    sections, each, count = _SECTION_HEADERS[head[4] == 2].unpack_from(head)
    return max(int(sections + each * count), 64)
