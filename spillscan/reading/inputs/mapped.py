"""A file mapped for reading, and which of its parts are stored: holes need no search."""

from __future__ import annotations

import errno
import mmap
import os

_LEAST_HOLE_BYTES = 1 << 20
"""Smaller holes count as stored, which bounds the number of ranges."""


class Mapped(mmap.mmap):
    """A file mapped for reading."""

    stored: list[tuple[int, int]]
    """Ranges outside of holes, in order; holes read as zeros."""


def mapped(descriptor: int) -> Mapped:
    """The open file's data. Raises ``OSError`` or ``ValueError`` if it cannot be mapped."""
    buffer = Mapped(descriptor, 0, access=mmap.ACCESS_READ)
    buffer.stored = _stored(descriptor, len(buffer))
    return buffer


def _stored(descriptor: int, size: int) -> list[tuple[int, int]]:
    whole = [(0, size)]
    if not hasattr(os, "SEEK_HOLE") or os.fstat(descriptor).st_blocks * 512 >= size:
        return whole
    position, end = os.lseek(descriptor, 0, os.SEEK_CUR), 0
    ranges: list[tuple[int, int]] = []
    try:
        while end < size:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
            if ranges and begin - ranges[-1][1] < _LEAST_HOLE_BYTES:
                begin, _ = ranges.pop()
            ranges.append((begin, min(end, size)))
    except OSError as error:
        if error.errno != errno.ENXIO:  # otherwise the rest is a hole
            return whole
    finally:
        os.lseek(descriptor, position, os.SEEK_SET)
    return ranges
