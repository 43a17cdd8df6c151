"""Find GPU code in the bytes of a file, whatever its name and format."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b, sha256
from itertools import chain
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
_HEAD_BYTES = 1 << 12


class Code(NamedTuple):
    """GPU code in a file."""

    pieces: tuple[str, ...] = ()
    """Digests of each cubin and fat binary; equal code has equal digests in all files.

    PTX and compressed files have one digest of the whole file.
    """
    packed: bool = False
    """Whether the file is compressed, so that its contents are known only after reading it."""
    linked: bool = False
    """Whether the device linker wrote part of it."""


def code_of(path: str) -> Code:
    """GPU code in a file; none if it cannot be read."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            head = data[:_HEAD_BYTES]
            if (packed := head.startswith(PACKED)) or (b"\0" not in head and _PTX.search(head)):
                return Code((sha256(data).hexdigest(),), packed)
            stored = list(_stored(file.fileno(), len(data)))
            forms = (form.finditer(data, *each) for form in (_CUBIN, _FATBIN) for each in stored)
            found, end = set[str](), 0
            for begin in sorted(code.start() for code in chain.from_iterable(forms)):
                if begin >= end:
                    end = begin + _size(data[begin : begin + 64].ljust(64, b"\0"))
                    found.add(blake2b(memoryview(data)[begin:end], digest_size=16).hexdigest())
            linked = any(data.find(_LINK_STUB, *each) >= 0 for each in stored)
            return Code(tuple(sorted(found)), linked=linked)
    except (OSError, ValueError):  # ValueError: an empty file
        return Code()


def _stored(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of a file outside of holes, which read as zeros."""
    end = 0
    with suppress(OSError):  # the rest is a hole
        while end < size:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            yield begin, end
    if end == 0 and os.fstat(descriptor).st_blocks:  # a file system that does not know holes
        yield 0, size


def _size(head: bytes) -> int:
    """Size of the cubin or fat binary that begins with ``head``."""
    if _FATBIN.match(head):
        return 16 + int.from_bytes(head[8:16], "little")
    sections, each, count = _SECTION_HEADERS[head[4] == 2].unpack_from(head)
    return max(int(sections + each * count), 64)
