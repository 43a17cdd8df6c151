"""Instructions that name the stack pointer, found in a function's text when the question comes up.

Few functions raise it, and a function's text is large: the blocks that hold it are kept, and read again only when
asked, or when a function is so long that its first blocks must go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.dumps import terminals
from spillscan.dumps.blocks import Block
from spillscan.dumps.layout import WINDOW, Layout
from spillscan.machine.function import LOCAL

_MARGIN = b"        /*0000"
"""What makes a text an instruction line again."""

KEPT = 5
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
        """Nobody will ask."""
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
        if operands and (match := terminals.line("instruction").match(block.buffer, start, done)):
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
        starts.append(np.unique(_places(copy.view(np.uint8)) // size) * layout.stride + begin)
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
    match = terminals.line("instruction").match(_MARGIN + text)
    return match["operands"] or b"" if match and match["opcode"] not in LOCAL else b""
