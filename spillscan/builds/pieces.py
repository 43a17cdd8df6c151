"""Find GPU code in the bytes of a file, whatever its name and format."""

from __future__ import annotations

import mmap
import re
from hashlib import blake2b, file_digest

TYPE_CHECKING = False  # the launcher starts once per call, and importing `typing` takes as long as everything else
if TYPE_CHECKING:
    from collections.abc import Iterator

PACKED = (b"PK\3\4", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")
_ELF, _FATBIN = b"\x7fELF", b"\x50\xed\x55\xba\1\0\x10\0"
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
                found = {blake2b(memoryview(data)[a:b], digest_size=16).hexdigest() for a, b in _ranges(data)}
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
            return data.find(_LINK_STUB) >= 0
    except (OSError, ValueError):
        return False


def _ranges(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    at, following = 0, {_ELF: data.find(_ELF), _FATBIN: data.find(_FATBIN)}
    while waiting := [place for place in following.values() if place >= 0]:
        begin = min(waiting)
        end = _end_of_cubin(data, begin) if data[begin : begin + 4] == _ELF else _end_of_fatbin(data, begin)
        if end:
            yield begin, end
        at = end or begin + 1
        following = {
            text: place if place < 0 or place >= at else data.find(text, at) for text, place in following.items()
        }


def _end_of_fatbin(data: mmap.mmap, begin: int) -> int:
    size = int.from_bytes(data[begin + 8 : begin + 16], "little")
    return min(begin + 16 + size, len(data))


def _end_of_cubin(data: mmap.mmap, begin: int) -> int:
    """End of a cubin, from its section headers; 0 for another ELF file."""
    head = data[begin : begin + 64]
    if len(head) < 52 or head[18:20] != b"\xbe\0":
        return 0
    wide = head[4] == 2
    table, size, number = (
        (slice(40, 48), slice(58, 60), slice(60, 62)) if wide else (slice(32, 36), slice(46, 48), slice(48, 50))
    )
    sections, each, count = (int.from_bytes(head[part], "little") for part in (table, size, number))
    return min(begin + max(sections + each * count, 64), len(data))
