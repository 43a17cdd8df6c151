"""Bytes of files in memory: mapped ones are searched as quickly as others, and the pages that were read are given back,
else a large file counts as a whole. What is decompressed is put into the same memory each time.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

Buffer = bytes | bytearray | mmap.mmap
"""What holds a file: an mmap is searched and sliced without a copy of what is not asked for."""

_MANY_BYTES = 1 << 16


def find(buffer: Buffer, text: bytes, begin: int, end: int) -> int:
    """Where ``text`` stands first in ``buffer[begin:end]``; -1: nowhere."""
    if end - begin >= _MANY_BYTES and (memmem := _memmem()) is not None:
        first = np.frombuffer(buffer, np.uint8, end - begin, begin).ctypes.data
        at = memmem(first, end - begin, text, len(text))
        return -1 if at is None else int(at) - first + begin
    return buffer.find(text, begin, end)


@cache
def _memmem() -> Any:
    """The C library's search; that of a mapped file takes a step a byte. ``None`` where it has none."""
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
"""How far reading goes on before pages are given back: a call for each member would cost more than it saves."""


class Pages:
    """Those of a file that is read from its beginning on, once or in several rounds. What is asked for again comes from
    the system's cache."""

    def __init__(self) -> None:
        self._left = 0

    def leave(self, buffer: Buffer, position: int) -> None:
        """Everything before ``position`` was read."""
        if position < self._left:  # another round
            self._left = 0
        if not isinstance(buffer, mmap.mmap) or position < self._left + _STEP_BYTES:
            return
        end = position - position % mmap.PAGESIZE
        with suppress(AttributeError):  # not on every system
            buffer.madvise(mmap.MADV_DONTNEED, self._left, end - self._left)
        self._left = end


class Scratch:
    """Memory for what is of use until the next is put into its place. To make new pages costs as much as to decompress
    into them."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def memory(self, size: int) -> mmap.mmap:
        """Bytes for ``size`` or more; those of the last call, if they are enough."""
        if self._memory is None or len(self._memory) < size:
            self._memory = None  # first give back the smaller one
            self._memory = _own_pages(max(size, 1))
        return self._memory


def _own_pages(size: int) -> mmap.mmap:
    """Memory of which a forked process has a copy, in large pages where the system has them. Raises
    ``MemoryError``."""
    try:
        if not hasattr(mmap, "MAP_PRIVATE"):  # Windows, where nothing forks
            return mmap.mmap(-1, size)
        made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes: {error.strerror}") from error
    with suppress(AttributeError, OSError):
        made.madvise(mmap.MADV_HUGEPAGE)
    return made
