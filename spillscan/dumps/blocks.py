"""A byte stream in large blocks that are used again; a line or a pattern never stands in two of them.

A function that spans blocks keeps them for a while: whether the address of its frame is taken is asked at its end, if
at all. A block is read into again when nobody keeps it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

SIZE = 1 << 21
"""Bytes read at once: a block stays in the processor's cache while it is scanned."""

BEGIN = 64
"""Where a block's text begins; before it stands a line end."""

_SLACK = 64
"""Bytes behind the text that may be looked at."""


class Stream(Protocol):
    """What is read from: a binary file, pipe or decompressor."""

    def read(self, size: int, /) -> bytes | None:
        """At most ``size`` bytes; empty at the end."""


class Block:
    """Some text, as bytes and as unaligned integers."""

    def __init__(self, size: int) -> None:
        self.buffer = bytearray(BEGIN + size + _SLACK)
        self.buffer[:BEGIN] = b"\n" * BEGIN
        self.view = memoryview(self.buffer)
        self.size = size
        self.end = BEGIN
        """Where the text ends."""
        self.fresh = BEGIN
        """Where what was read last begins."""
        self.keepers = 0
        """Functions that still want the text."""

    def foreign(self) -> int:
        """Bytes outside ASCII among those that were read last."""
        text = np.frombuffer(self.buffer, np.uint8, self.end - self.fresh, self.fresh)
        return int(np.count_nonzero(text & 0x80)) if len(text) and int(text.max()) & 0x80 else 0


class Blocks:
    """Reads a stream block by block."""

    def __init__(self, stream: Stream, size: int = SIZE) -> None:
        self._into = getattr(stream, "readinto", None)
        self._read = stream.read
        self._size = size
        self._free: list[Block] = []
        self.finished = False
        """Nothing is left to read."""

    def next(self, last: Block | None, kept: int) -> Block:
        """A block that begins with ``last`` from ``kept`` on, and is filled up from the stream."""
        tail = last.end - kept if last is not None else 0
        block = self._take(max(self._size, tail * 2))
        if last is not None:
            block.buffer[BEGIN : BEGIN + tail] = last.buffer[kept : last.end]
            self.release(last)
        block.end = block.fresh = BEGIN + tail
        while block.end < BEGIN + block.size and not self.finished:
            count = self._fill(block)
            if not count:
                self.finished = True
            block.end += count
        return block

    def _fill(self, block: Block) -> int:
        if self._into is not None:
            return self._into(block.view[block.end : BEGIN + block.size]) or 0
        data = self._read(BEGIN + block.size - block.end) or b""
        block.buffer[block.end : block.end + len(data)] = data
        return len(data)

    def _take(self, size: int) -> Block:
        for index in reversed(range(len(self._free))):  # the last one used may still be in the cache
            if self._free[index].size >= size and not self._free[index].keepers:
                return self._free.pop(index)
        return Block(size)

    def release(self, block: Block) -> None:
        """The reader is through with a block."""
        if block.size == self._size:
            self._free.append(block)
