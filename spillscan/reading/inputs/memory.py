"""File data in memory: fast search of mapped files, and release of pages already read.

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
        memmem = ctypes.CDLL(None).memmem
    except (AttributeError, OSError, TypeError):  # Windows
        return None
    memmem.restype, memmem.argtypes = (
        ctypes.c_void_p,
        (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t),
    )
    return memmem


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
