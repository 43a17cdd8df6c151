"""Find GPU code in the bytes of a file, whatever its name and format."""

from __future__ import annotations

import errno
import mmap
import os
import re
from hashlib import blake2b, file_digest
from struct import Struct

TYPE_CHECKING = False  # the launcher starts once per call, and importing `typing` takes as long as everything else
if TYPE_CHECKING:
    from collections.abc import Iterator

PACKED = (b"PK\3\4", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
_ELF, _CUDA = b"\x7fELF", b"\xbe\0"
_FATBIN = b"\x50\xed\x55\xba\1\0\x10\0"
_SECTION_HEADERS = Struct("<32xI10xHH"), Struct("<40xQ10xHH")
"""Offset of the table of section headers, size and number of them, in 32-bit and 64-bit files."""
_PTX = re.compile(rb"^\s*\.version\s[^\0]*^\s*\.target\s+sm_", re.MULTILINE)
_LINK_STUB = b"__cudaPrelinkedFatbins"
_HEAD_BYTES = 1 << 12


def pieces(path: str) -> tuple[str, ...]:
    """Digests of each cubin and fat binary in a file; equal code has equal digests in all files.

    PTX and compressed files have one digest of the whole file.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
            if head.startswith(PACKED) or (b"\0" not in head and _PTX.search(head)):
                file.seek(0)
                return (file_digest(file, "sha256").hexdigest(),)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                ranges = _ranges(data, file.fileno())
                found = {blake2b(memoryview(data)[a:b], digest_size=16).hexdigest() for a, b in ranges}
                return tuple(sorted(found))
    except (OSError, ValueError):  # ValueError: an empty file
        return ()


def is_packed(path: str) -> bool:
    """Whether a file is compressed, so that its contents are known only after reading it."""
    with open(path, "rb") as file:
        return file.read(8).startswith(PACKED)


def is_linked(path: str) -> bool:
    """Whether a file contains output of the device linker."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(True for _ in _places(data, file.fileno(), _LINK_STUB))
    except (OSError, ValueError):
        return False


def _ranges(data: mmap.mmap, descriptor: int) -> Iterator[tuple[int, int]]:
    end = 0
    for begin in sorted((*_places(data, descriptor, _ELF), *_places(data, descriptor, _FATBIN))):
        if begin >= end and (size := _size(data[begin : begin + 64])):
            end = begin + size
            yield begin, end


def _places(data: mmap.mmap, descriptor: int, text: bytes) -> Iterator[int]:
    for begin, end in _stored(descriptor, len(data)):
        at = data.find(text, begin, end)  # several times as fast as a regular expression
        while at >= 0:
            yield at
            at = data.find(text, at + len(text), end)


def _stored(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges of a file outside of holes, which read as zeros."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            begin, end = (size if error.errno == errno.ENXIO else end), size
        yield begin, end


def _size(head: bytes) -> int:
    """Size of the fat binary or cubin that begins with ``head``; 0 for another ELF file."""
    if not head.startswith(_ELF):
        return 16 + int.from_bytes(head[8:16], "little")
    if len(head) < 64 or head[18:20] != _CUDA:
        return 0
    sections, each, count = _SECTION_HEADERS[head[4] == 2].unpack_from(head)
    return max(int(sections + each * count), 64)
