"""What a file may claim: offsets and sizes are checked before use, and what it makes of itself is bounded.

A window is a part of a file's bytes that cannot be left. Limits bound what is decompressed and how deep containers
nest.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from spillscan.output.nouns import count
from spillscan.reading.inputs.memory import Buffer, find


class DamageError(Exception):
    """The bytes contradict their format. Becomes an issue of the file; never leaves the reader."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what, offset)
        self.what = what
        self.offset = offset
        """Byte offset in the buffer that holds the damaged thing."""

    def __str__(self) -> str:
        return f"{self.what} at offset {self.offset:#x}"


class UnopenedError(DamageError):
    """Something that is packed in a way that is not opened here: what it holds is not known."""


class LimitError(UnopenedError):
    """More than a limit allows."""

    def __init__(self, what: str, key: str, offset: int) -> None:
        super().__init__(what, offset)
        self.key = key
        """Which raises it."""


class Window:
    """``size`` bytes of ``buffer`` from ``start`` on; all offsets below are relative to ``start``."""

    __slots__ = ("__weakref__", "buffer", "size", "start")

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

    @property
    def whole(self) -> memoryview:
        """All of its bytes, not copied."""
        return memoryview(self.buffer)[self.start : self.start + self.size]

    def copy(self, offset: int, size: int, what: str) -> bytes:
        """``size`` bytes, copied."""
        self.check(offset, size, what)
        begin = self.start + offset
        return memoryview(self.buffer)[begin : begin + size].tobytes()

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
        found = find(self.buffer, text, self.start + offset, self.end)
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
        begin = self.start + offset
        return memoryview(self.buffer)[begin : end if stop < 0 else stop].tobytes()


@cache
def _structure(form: str) -> struct.Struct:
    return struct.Struct("<" + form)


MIB = 1 << 20
_MOST_BEGINNINGS = 1 << 16
"""Places of one input where something packed may begin, and a look tells that nothing does."""


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds for one input. A genuine fatbin member shrinks to a tenth, rarely to a two-hundredth (zstd)."""

    ratio: int = 128
    """Most bytes that one stored byte may become."""
    free_bytes: int = 64 * MIB
    """What any input, and each of its members, may become whatever its size."""
    member_bytes: int = 4096 * MIB
    """Largest decompressed member of a container."""
    total_bytes: int = 1 << 40
    """Most bytes decompressed from one input."""
    depth: int = 6
    """Most containers inside each other: a wheel in a zip with a static library with an object with a fatbin is 5."""
    members: int = 1 << 17
    """Most members of all containers of one input."""
    free_functions: int = 1 << 16
    """Functions that any input may hold, whatever its size."""
    bytes_per_function: int = 32
    """Beyond these: stored bytes of the input that one function takes at least."""


DEFAULT = Limits()
"""Of any input, where no option says otherwise."""


class Budget:
    """What is left of the limits while one input is read. Its errors name the policy key that raises the limit."""

    def __init__(self, limits: Limits, input_bytes: int) -> None:
        self.limits = limits
        self._left = min(limits.total_bytes, limits.free_bytes + limits.ratio * input_bytes)
        self._members = limits.members
        self._beginnings = _MOST_BEGINNINGS
        self._met: set[str] = set()

    def room(self, stored: int, offset: int) -> int:
        """Most bytes that ``stored`` compressed bytes may become now; raises where that is nothing."""
        room = self._room(stored)
        if room <= 0:
            raise self.excess(stored, offset)
        return room

    def excess(self, stored: int, offset: int, size: int | None = None) -> LimitError:
        """What to say where ``stored`` bytes become more than :meth:`room`; ``size``: as many as they claim."""
        limits = self.limits
        key, most = "ratio", f"{limits.ratio:,} times its size"
        if limits.member_bytes <= self._room(stored):
            key, most = "member", f"{limits.member_bytes // MIB:,} MiB"
        claim = "it decompresses to" if size is None else f"{stored} bytes claim to become {size}:"
        return LimitError(f"{claim} more than {most}", key, offset)

    def is_new(self, error: DamageError) -> bool:
        """Whether it is to be said: of what one limit keeps from being read, the first stands for all."""
        if not isinstance(error, LimitError):
            return True
        known = error.key in self._met
        self._met.add(error.key)
        return not known

    def try_beginning(self, offset: int) -> None:
        """Account for a place that may be the beginning of something packed; raises where they are too many."""
        self._beginnings -= 1
        if self._beginnings < 0:
            what = f"more than {_MOST_BEGINNINGS} places look like the beginning of something packed"
            raise LimitError(what, "beginnings", offset)

    def take(self, size: int, stored: int, offset: int) -> None:
        """Account for a member of ``size`` bytes; raises where that is too much."""
        if size > self.room(stored, offset):
            raise self.excess(stored, offset, size)
        self._left -= size

    def enter(self, depth: int, offset: int) -> None:
        """Account for a container or member; raises where they are too many or too deep."""
        self._members -= 1
        if self._members < 0:
            what = f"it holds more than {count(self.limits.members, 'member')}"
            raise LimitError(what, "members", offset)
        if depth > self.limits.depth:
            what = f"containers nest deeper than {self.limits.depth}"
            raise LimitError(what, "nesting", offset)

    def _room(self, stored: int) -> int:
        limits = self.limits
        return min(limits.member_bytes, self._left, limits.free_bytes + limits.ratio * stored)


def leb(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128 number of 64 bits, and where it ends. Raises :class:`IndexError` where none does."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise IndexError
