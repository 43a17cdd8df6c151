"""Bounds-checked access to untrusted files: offsets and sizes are checked before use, and expansion is limited.

A window is a part of a file's bytes; reads outside of it fail. Limits bound decompressed bytes and the nesting of
containers. Pages of a mapped file that were read are released: without that, a large file would count fully as memory
of this process.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from spillscan.output.nouns import count
from spillscan.reading.inputs.source import Mapped

Buffer = bytes | bytearray | mmap.mmap
"""Data of a file. An mmap is searched and sliced without copying the rest."""


def find(buffer: Buffer, text: bytes, begin: int, end: int) -> int:
    """First position of ``text``, which is not all zeros, in ``buffer[begin:end]``; -1 if there is none."""
    if not isinstance(buffer, Mapped):
        return buffer.find(text, begin, end)
    ranges, more = buffer.stored, len(text)
    for index in range(bisect(ranges, begin - more, key=lambda each: each[1]), len(ranges)):
        first, last = ranges[index]
        if first >= end:
            break
        at = buffer.find(text, max(begin, first - more), min(end, last + more))
        if at >= 0:
            return at
    return -1


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


class DamageError(Exception):
    """The bytes contradict their format. Becomes an issue of the file; never leaves the reader."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what, offset)
        self.what = what
        self.offset = offset
        """Byte offset of the damage in its buffer."""

    def __str__(self) -> str:
        return f"{self.what} (offset {self.offset:#x})"


class UnopenedError(DamageError):
    """Data packed in a way that is not opened here, so that its contents are unknown."""


class LimitError(UnopenedError):
    """Input that exceeds a limit."""

    def __init__(self, what: str, key: str, offset: int) -> None:
        super().__init__(what, offset)
        self.key = key
        """Policy key that raises the limit."""


class Window:
    """``size`` bytes of ``buffer`` from ``start`` on; all offsets below are relative to ``start``."""

    __slots__ = ("__weakref__", "buffer", "size", "start")

    def __init__(self, buffer: Buffer, start: int = 0, size: int | None = None) -> None:
        self.buffer = buffer
        self.start = start
        self.size = len(buffer) - start if size is None else size

    @property
    def end(self) -> int:
        """End of the window in the buffer."""
        return self.start + self.size

    def check(self, offset: int, size: int, what: str) -> None:
        """Raise :class:`DamageError` unless the window contains ``size`` bytes at ``offset``."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise DamageError(f"{what}: {offset + size:,} bytes expected, {self.size:,} found", self.start)

    def part(self, offset: int, size: int, what: str) -> Window:
        """A window inside this one."""
        self.check(offset, size, what)
        return Window(self.buffer, self.start + offset, size)

    def view(self, offset: int, size: int, what: str) -> memoryview:
        """``size`` bytes, not copied."""
        self.check(offset, size, what)
        return self.whole[offset : offset + size]

    @property
    def whole(self) -> memoryview:
        """All of its bytes, not copied."""
        return memoryview(self.buffer)[self.start : self.end]

    def copy(self, offset: int, size: int, what: str) -> bytes:
        """``size`` bytes, copied."""
        self.check(offset, size, what)
        return self.whole[offset : offset + size].tobytes()

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
        """First offset of ``text`` from ``offset`` on; -1 if there is none."""
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


class Limits(Struct, frozen=True, kw_only=True):
    """Limits for one input. Genuine fatbin members compress to a tenth, rarely to 1/200 (zstd)."""

    ratio: int = 128
    """Maximum decompressed bytes per stored byte."""
    free_bytes: int = 64 * MIB
    """Decompressed bytes allowed for any input, and each of its members, whatever its size."""
    member_bytes: int = 4096 * MIB
    """Largest decompressed member of a container."""
    total_bytes: int = 1 << 40
    """Maximum bytes decompressed from one input."""
    depth: int = 6
    """Maximum nesting of containers: a wheel in a zip with a static library with an object with a fatbin is 5."""
    members: int = 1 << 17
    """Maximum members of all containers of one input."""
    free_functions: int = 1 << 16
    """Functions allowed in any input, whatever its size."""
    bytes_per_function: int = 32
    """Minimum stored bytes of the input per function beyond these."""


DEFAULT = Limits()
"""Limits for inputs unless an option overrides them."""


class Budget:
    """Remaining limits while one input is read. Errors name the policy key that raises the limit."""

    def __init__(self, limits: Limits, input_bytes: int) -> None:
        self.limits = limits
        self._left = min(limits.total_bytes, limits.free_bytes + limits.ratio * input_bytes)
        self._members = limits.members
        self._met: set[str] = set()

    def room(self, stored: int, offset: int) -> int:
        """Maximum decompressed size of ``stored`` bytes now; raises :class:`LimitError` if it is 0."""
        room = self._room(stored)
        if room <= 0:
            raise self.excess(stored, offset)
        return room

    def excess(self, stored: int, offset: int, size: int | None = None) -> LimitError:
        """Error for ``stored`` bytes that decompress to more than :meth:`room`. ``size``: the size that they claim."""
        key, most = "ratio", f"{self.limits.ratio:,} times the compressed size of the member or of the whole input"
        if self.limits.member_bytes <= self._room(stored):
            key, most = "member", f"{self.limits.member_bytes // MIB:,} MiB"
        claim = "" if size is None else f"{size:,} bytes declared for {stored:,} compressed bytes, "
        return LimitError(f"decompression limit exceeded: {claim}more than {most}", key, offset)

    def is_new(self, error: DamageError) -> bool:
        """Whether to report an error: of those from one limit only the first is reported."""
        if not isinstance(error, LimitError):
            return True
        known = error.key in self._met
        self._met.add(error.key)
        return not known

    def take(self, size: int, stored: int, offset: int) -> None:
        """Charge a member of ``size`` bytes; raises :class:`LimitError` if that is too much."""
        if size > self.room(stored, offset):
            raise self.excess(stored, offset, size)
        self._left -= size

    def enter(self, depth: int, offset: int, members: int = 1) -> None:
        """Count a member, unless ``members`` is 0; raises :class:`LimitError` for too many, or nested too deeply."""
        self._members -= members
        if self._members < 0:
            what = f"the input contains more than {count(self.limits.members, 'member')}"
            raise LimitError(what, "members", offset)
        if depth > self.limits.depth:
            raise LimitError(f"containers nest deeper than {self.limits.depth}", "nesting", offset)

    def _room(self, stored: int) -> int:
        limits = self.limits
        return min(limits.member_bytes, self._left, limits.free_bytes + limits.ratio * stored)


def leb(data: bytes, at: int) -> tuple[int, int]:
    """Unsigned LEB128 number of 64 bits, and its end offset. Raises :class:`IndexError` if it has no end."""
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
