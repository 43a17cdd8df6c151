"""Instructions that name the stack pointer, found in a function's text when the question comes up.

Few functions raise it, and a function's text is large: the blocks that hold it are kept, and read again only when
asked, or when a function is so long that its first blocks must go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from spillscan.sass import terminals
from spillscan.sass.blocks import Block
from spillscan.sass.code import LOCAL

_MARGIN = b"        /*0000"
"""What makes a text an instruction line again."""

KEPT = 10
"""Blocks that one function keeps."""

_R1 = int.from_bytes(b"R1", "little")
_ALNUM = np.zeros(256, bool)
_ALNUM[[*b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_"]] = True


class StackUses:
    """(address, operands) of what names R1 in the text of one function, STL and LDL apart."""

    def __init__(self) -> None:
        self._text: deque[tuple[Block, int, int]] = deque()
        self._blocks: deque[Block] = deque()
        self._found: list[tuple[int, bytes]] = []

    def add(self, block: Block, begin: int, end: int) -> None:
        """Some whole lines of the function."""
        self._text.append((block, begin, end))
        if not self._blocks or self._blocks[-1] is not block:
            self._blocks.append(block)
            block.keepers += 1
            if len(self._blocks) > KEPT:
                oldest = self._blocks.popleft()
                while self._text and self._text[0][0] is oldest:
                    self._found.extend(_uses(*self._text.popleft()))
                oldest.keepers -= 1

    def __call__(self) -> Iterator[tuple[int, bytes]]:
        """All of them so far; the text is read as far as they are asked for."""
        yield from self._found
        for text in self._text:
            yield from _uses(*text)

    def close(self) -> None:
        """Nobody will ask."""
        for block in self._blocks:
            block.keepers -= 1
        self._blocks.clear()
        self._text.clear()


def _uses(block: Block, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    text = np.frombuffer(block.buffer, np.uint8)  # a block has room before and behind
    at = np.concatenate([_places(block, first, end) for first in (begin, begin + 1)])
    at = np.sort(at[~(_ALNUM[text[at + 2]] | _ALNUM[text[at - 1]])])
    done = begin
    for place in at.tolist():
        if place < done:
            continue
        start = block.buffer.rfind(b"\n", begin, place) + 1 or begin
        done = block.buffer.find(b"\n", place, end) + 1 or end
        # what lines have in common stands behind the address, up to the encoding
        close = block.buffer.find(b"*/", start, done)
        operands = _operands(bytes(block.buffer[close : block.buffer.find(b"/*", close, done)])) if close > 0 else b""
        if operands and (match := terminals.line("instruction").match(block.buffer, start, done)):
            yield int(match["address"], 16), operands


def _places(block: Block, begin: int, end: int) -> NDArray[np.int64]:
    """Where R1 stands, an even number of bytes behind ``begin``. Nearly nowhere: eight answers are looked at at once."""
    pairs = (end - begin) // 2
    found = np.empty(-(-pairs // 8) * 8, bool)
    found[pairs:] = False
    np.equal(np.frombuffer(block.buffer, "<u2", pairs, begin), _R1, out=found[:pairs])
    eights = np.flatnonzero(found.view(np.uint64) != 0)
    rows, columns = np.nonzero(found.reshape(-1, 8)[eights])
    places: NDArray[np.int64] = (eights[rows] * 8 + columns) * 2 + begin
    return places


@lru_cache(maxsize=1 << 14)
def _operands(text: bytes) -> bytes:
    """Operands of an instruction, address left out, where it is no access to local memory."""
    match = terminals.line("instruction").match(_MARGIN + text)
    return match["operands"] or b"" if match and match["opcode"] not in LOCAL else b""
