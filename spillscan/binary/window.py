"""A part of a file's bytes that cannot be left: every offset and size that a file claims is checked before use."""

from __future__ import annotations

import mmap
import struct
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Buffer = bytes | bytearray | mmap.mmap
"""What holds a file: an mmap is searched and sliced without a copy of what is not asked for."""


class DamageError(Exception):
    """The bytes contradict their format. Becomes an issue of the file; never leaves the reader."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what, offset)
        self.what = what
        self.offset = offset
        """Byte offset in the buffer that holds the damaged thing."""

    def __str__(self) -> str:
        return f"{self.what} at offset {self.offset:#x}"


class Window:
    """``size`` bytes of ``buffer`` from ``start`` on; all offsets below are relative to ``start``."""

    __slots__ = ("buffer", "size", "start")

    def __init__(self, buffer: Buffer, start: int = 0, size: int | None = None) -> None:
        self.buffer = buffer
        self.start = start
        self.size = len(buffer) - start if size is None else size

    @property
    def end(self) -> int:
        """Of the window, in the buffer."""
        return self.start + self.size

    def check(self, offset: int, size: int, what: str) -> None:
        """Raise :class:`DamageError` unless ``size`` bytes stand at ``offset``."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise DamageError(f"{what}: {size} bytes at {offset:#x} do not fit into {self.size}", self.start)

    def part(self, offset: int, size: int, what: str) -> Window:
        """A window inside this one."""
        self.check(offset, size, what)
        return Window(self.buffer, self.start + offset, size)

    def view(self, offset: int, size: int, what: str) -> memoryview:
        """``size`` bytes, not copied."""
        self.check(offset, size, what)
        begin = self.start + offset
        return memoryview(self.buffer)[begin : begin + size]

    def copy(self, offset: int, size: int, what: str) -> bytes:
        """``size`` bytes, copied."""
        self.check(offset, size, what)
        begin = self.start + offset
        return bytes(self.buffer[begin : begin + size])

    def unpack(self, form: str, offset: int, what: str) -> tuple[Any, ...]:
        """Fields of a little-endian structure; ``form`` without its byte order."""
        structure = _structure(form)
        self.check(offset, structure.size, what)
        return structure.unpack_from(self.buffer, self.start + offset)

    def array(self, kind: np.dtype[Any], count: int, offset: int, what: str) -> NDArray[Any]:
        """``count`` records, not copied."""
        self.check(offset, count * kind.itemsize, what)
        return np.frombuffer(self.buffer, kind, count, self.start + offset)

    def find(self, text: bytes, offset: int = 0) -> int:
        """Where ``text`` stands first from ``offset`` on; -1: nowhere."""
        found = self.buffer.find(text, self.start + offset, self.start + self.size)
        return found - self.start if found >= 0 else -1

    def starts(self, text: bytes) -> bool:
        """Whether the window begins with ``text``."""
        return self.size >= len(text) and self.buffer[self.start : self.start + len(text)] == text

    def text(self, offset: int, limit: int) -> bytes:
        """The bytes from ``offset`` to the next NUL, ``limit`` (an offset) or the window's end."""
        if not 0 <= offset <= self.size:
            return b""
        end = self.start + min(limit, self.size)
        stop = self.buffer.find(b"\0", self.start + offset, end)
        return bytes(self.buffer[self.start + offset : end if stop < 0 else stop])


@cache
def _structure(form: str) -> struct.Struct:
    return struct.Struct("<" + form)
