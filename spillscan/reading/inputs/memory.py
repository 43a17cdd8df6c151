"""File data in memory: fast search of mapped files, release of pages already read, and reused scratch memory.

Without the release, a large mapped file would count fully as memory of this process.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

Buffer = bytes | bytearray | mmap.mmap
"""Data of a file. An mmap is searched and sliced without copying the rest."""

_MANY_BYTES = 1 << 16


def find(buffer: Buffer, text: bytes, begin: int, end: int) -> int:
    """First position of ``text`` in ``buffer[begin:end]``; -1 if there is none."""
    if end - begin >= _MANY_BYTES and (memmem := _memmem()) is not None:
        first = np.frombuffer(buffer, np.uint8, end - begin, begin).ctypes.data
        at = memmem(first, end - begin, text, len(text))
        return -1 if at is None else int(at) - first + begin
    return buffer.find(text, begin, end)


@cache
def _memmem() -> Any:
    """The C library's ``memmem``, because ``mmap.find`` compares byte by byte; ``None`` if unavailable."""
    try:
        found = ctypes.CDLL(None).memmem
    except (AttributeError, OSError, TypeError):  # Windows
        return None
    found.restype, found.argtypes = (
        ctypes.c_void_p,
        (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t),
    )
    return found


_STEP_BYTES = 16 << 20
"""Bytes read before pages are released; a system call per member would cost more than it saves."""


class Pages:
    """Pages of a file that is read front to back, once or several times. Released pages are read again from the
    system's cache."""

    def __init__(self) -> None:
        self._left = 0

    def leave(self, buffer: Buffer, position: int) -> None:
        """Release the pages before ``position``, which were read."""
        if position < self._left:  # the file is read again
            self._left = 0
        if not isinstance(buffer, mmap.mmap) or position < self._left + _STEP_BYTES:
            return
        end = position - position % mmap.PAGESIZE
        with suppress(AttributeError):  # not on every system
            buffer.madvise(mmap.MADV_DONTNEED, self._left, end - self._left)
        self._left = end


class Scratch:
    """Memory reused for temporary data, because allocating new pages costs as much as decompressing into them."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def memory(self, size: int) -> mmap.mmap:
        """Memory of at least ``size`` bytes; the last call's, if it is large enough."""
        if self._memory is None or len(self._memory) < size:
            self._memory = None  # release the smaller one first
            self._memory = _own_pages(max(size, 1))
        return self._memory


def _own_pages(size: int) -> mmap.mmap:
    """Private memory, copied on fork, in huge pages if the system has them. Raises ``MemoryError``."""
    try:
        if not hasattr(mmap, "MAP_PRIVATE"):  # Windows, which has no fork
            return mmap.mmap(-1, size)
        made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes: {error.strerror}") from error
    with suppress(AttributeError, OSError):
        made.madvise(mmap.MADV_HUGEPAGE)
    return made
