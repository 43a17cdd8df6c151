"""A byte stream in large blocks; a line or a pattern never stands in two of them. Memory that is read into is used
again. A large file is mapped instead: to copy it costs as much as a fifth of what is done with it.

A function that spans blocks keeps them for a while: which of its instructions name the stack pointer is asked at its
end, if at all. Few functions raise that question, so their text is read again only then, or when a function is so long
that its first blocks must go. A block is read into again when no function keeps it.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.reading import grammar
from spillscan.reading.dumps.common import Readable
from spillscan.reading.dumps.layout import WINDOW, Layout
from spillscan.reading.dumps.listing import LOCAL
from spillscan.reading.machine.flow import distinct

SIZE = 1 << 22
"""Bytes read at once: smaller blocks cost more calls; larger ones leave the cache before they are scanned."""

_BEGIN = 64
"""Where the text of a block that is read begins; before it stands a line end."""

_SLACK = 64
"""Bytes behind the text that may be looked at."""


class Block:
    """Some text, as bytes and as unaligned integers. Before it stands a line end."""

    def __init__(self, buffer: bytearray | mmap.mmap, begin: int, size: int = 0) -> None:
        self.buffer = buffer
        self.size = size
        """Bytes that it has room for; 0: it is mapped."""
        self.begin = begin
        """Where the text begins."""
        self.end = begin
        """Where it ends."""
        self.fresh = begin
        """Where what was in no block before begins."""
        self.keepers = 0
        """Functions that still want the text."""

    def foreign(self) -> int:
        """Bytes outside ASCII among those that were in no block before."""
        text = np.frombuffer(self.buffer, np.uint8, self.end - self.fresh, self.fresh)
        return int(np.count_nonzero(text & 0x80)) if len(text) and int(text.max()) & 0x80 else 0


class Blocks:
    """Reads a stream block by block."""

    def __init__(self, stream: Readable, size: int = SIZE) -> None:
        self._into = getattr(stream, "readinto", None)
        self._read = stream.read
        self._size = size
        self._free: list[Block] = []
        self.finished = False
        """Nothing is left to read."""

    def next(self, last: Block | None, kept: int) -> Block:
        """A block that begins with ``last`` from ``kept`` on, and is filled up from the stream."""
        tail = last.end - kept if last is not None else 0
        size = max(self._size, tail * 2)
        block = self._filled(last, tail, size)
        if last is not None:
            self._release(last)
        return block

    def _filled(self, last: Block | None, tail: int, size: int) -> Block:
        block = self._take(size)
        if last is not None:
            block.buffer[_BEGIN : _BEGIN + tail] = last.buffer[last.end - tail : last.end]
        block.end = block.fresh = _BEGIN + tail
        while block.end < _BEGIN + block.size and not self.finished:
            count = self._fill(block)
            if not count:
                self.finished = True
            block.end += count
        return block

    def _fill(self, block: Block) -> int:
        if self._into is not None:
            return self._into(memoryview(block.buffer)[block.end : _BEGIN + block.size]) or 0
        data = self._read(_BEGIN + block.size - block.end) or b""
        block.buffer[block.end : block.end + len(data)] = data
        return len(data)

    def _take(self, size: int) -> Block:
        for index in reversed(range(len(self._free))):  # the last one used may still be in the cache
            if self._free[index].size >= size and not self._free[index].keepers:
                return self._free.pop(index)
        buffer = bytearray(_BEGIN + size + _SLACK)
        buffer[:_BEGIN] = b"\n" * _BEGIN
        return Block(buffer, _BEGIN, size)

    def _release(self, block: Block) -> None:
        """The reader is through with a block."""
        if block.size == self._size:
            self._free.append(block)


_MARGIN = b"        /*0000"
"""What makes a text an instruction line again."""

KEPT = 3
"""Blocks that one function keeps."""

_R1 = int.from_bytes(b"R1", "little")
_ALNUM = np.zeros(256, bool)
_ALNUM[[*b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_"]] = True


class _Text(NamedTuple):
    """Some lines of a function."""

    block: Block
    begin: int
    end: int
    layout: Layout | None
    shift: int


class StackUses:
    """(address, operands) of what names R1 in the text of one function, STL and LDL apart."""

    def __init__(self) -> None:
        self._text: deque[_Text] = deque()
        self._blocks: deque[Block] = deque()
        self._found: list[tuple[int, bytes]] = []

    def add(self, block: Block, begin: int, end: int, layout: Layout | None = None, shift: int = 0) -> None:
        """Some whole lines of the function; whole patterns of ``layout``, if there is one, their opcodes ``shift``
        columns further right."""
        self._text.append(_Text(block, begin, end, layout, shift))
        if not self._blocks or self._blocks[-1] is not block:
            self._blocks.append(block)
            block.keepers += 1
            if len(self._blocks) > KEPT:
                oldest = self._blocks.popleft()
                while self._text and self._text[0].block is oldest:
                    self._found.extend(_uses(self._text.popleft()))
                oldest.keepers -= 1

    def __call__(self) -> Iterator[tuple[int, bytes]]:
        """All of them so far; the text is read as far as they are asked for."""
        yield from self._found
        for text in self._text:
            yield from _uses(text)

    def close(self) -> None:
        """It is not asked any more."""
        for block in self._blocks:
            block.keepers -= 1
        self._blocks.clear()
        self._text.clear()


def _uses(text: _Text) -> Iterator[tuple[int, bytes]]:
    block, end = text.block, text.end
    for start in _in_rows(text, text.layout) if text.layout else _in_lines(text):
        done = block.buffer.find(b"\n", start, end) + 1 or end
        # what lines have in common stands behind the address, up to the encoding
        close = block.buffer.find(b"*/", start, done)
        operands = _operands(bytes(block.buffer[close : block.buffer.find(b"/*", close, done)])) if close > 0 else b""
        if operands and (match := grammar.line("instruction").match(block.buffer, start, done)):
            yield int(match["address"], 16), operands


def _in_lines(text: _Text) -> list[int]:
    """Where the lines begin that hold R1."""
    lines = np.frombuffer(text.block.buffer, np.uint8, text.end - text.begin, text.begin)
    find = text.block.buffer.rfind
    places = (_places(lines) + text.begin).tolist()
    return list(dict.fromkeys(find(b"\n", text.begin, place) + 1 or text.begin for place in places))


def _in_rows(text: _Text, layout: Layout) -> list[int]:
    """The same of lines that have a layout: only what may hold operands is looked at."""
    size = layout.text
    rows = (text.end - text.begin) // layout.stride
    starts = []
    for lane in layout.lanes:
        begin = text.begin + lane * layout.width
        column = begin + layout.opcode + text.shift - WINDOW
        copy = np.ndarray((rows,), f"V{size}", text.block.buffer, column, (layout.stride,)).copy()
        starts.append(distinct(_places(copy.view(np.uint8)) // size) * layout.stride + begin)
    found: list[int] = np.sort(np.concatenate(starts)).tolist()
    return found


def _places(text: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where R1 stands."""
    found = np.concatenate([_pairs(text, first) for first in (0, 1)])
    found.sort()
    after = np.minimum(found + len("R1"), len(text) - 1)  # the last byte is no part of a longer name
    places: NDArray[np.int64] = found[~_ALNUM[text[after]]]
    return places[~(_ALNUM[text[places - 1]] & (places > 0))]


def _pairs(text: NDArray[np.uint8], first: int) -> NDArray[np.int64]:
    """Where ``R1`` begins, an even number of bytes behind ``first``: rare enough to look at eight answers at once."""
    pairs = max(0, len(text) - first) // 2
    found = np.empty(-(-pairs // 8) * 8, bool)
    found[pairs:] = False
    np.equal(text[first : first + 2 * pairs].view("<u2"), _R1, out=found[:pairs])
    eights = np.flatnonzero(found.view(np.uint64) != 0)
    few = np.flatnonzero(found.reshape(-1, 8)[eights])
    places: NDArray[np.int64] = (eights[few // 8] * 8 + few % 8) * 2 + first
    return places


@lru_cache(maxsize=1 << 14)
def _operands(text: bytes) -> bytes:
    """Operands of an instruction, address left out, where it is no access to local memory."""
    match = grammar.line("instruction").match(_MARGIN + text)
    return match["operands"] or b"" if match and match["opcode"] not in LOCAL else b""
