"""Where the fields of a function's lines stand, learned from its first lines by the grammar.

cuobjdump pads every line of a function to one width, and repeats one pattern of lines: instruction and second encoding
word from Volta on; a control word and three instructions on Maxwell and Pascal, a control word and seven on Kepler.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from msgspec import Struct

from spillscan.reading import grammar
from spillscan.reading.inputs.memory import Buffer

MAX_LINES = 9
"""Lines that show the longest pattern (Kepler) and the beginning of the next."""

SHORTEST_ADDRESS = 4
LONGEST_ADDRESS = 7
"""Digits of an address that rows can have: each digit more moves the predicate's window away from the prefix."""

WORD = 8
"""Bytes of code that a line shows: an instruction is one word up to Pascal, two from Volta on."""

WINDOW = 8
"""Bytes that are looked at as one word: the opcode's first, and those before it that may hold a predicate."""

_GUARD = len("@!P0 ")
"""Bytes before the opcode that a predicate may take; what is before them is the prefix."""

_HEX_OPEN = b"/* 0x"

_OPENING = 8
"""Column of the address in every listing."""


class Layout(Struct, frozen=True, kw_only=True):
    """Columns of a function with four-digit addresses; a longer address moves what follows it to the right."""

    width: int
    """Bytes of a line, line end included."""
    lines: int
    """Lines of the pattern."""
    lanes: tuple[int, ...]
    """Lines of the pattern that hold an instruction."""
    encodings: tuple[int, ...]
    """Lines of the pattern that hold an encoding word only."""
    opcode: int
    """Column of the opcode."""
    encoding: int
    """Column of the eight bytes that end an encoding word's opening ``/* 0x``."""
    head: bytes
    """Those eight bytes."""
    end: bytes
    """The two last bytes of a line."""

    prefix: int
    """Bytes that the address alone decides: the end of the line before, margin, address and blanks."""
    text: int
    """Bytes of an instruction line from the window before its opcode up to its encoding."""
    stride: int
    """Bytes of text of the pattern."""
    step: int
    """Bytes of code of the pattern: each line shows one word."""


def learn(buffer: Buffer, begin: int, end: int) -> tuple[Layout, int] | None:
    """The layout of the lines in ``buffer[begin:end]`` and the address of the first pattern.

    ``None`` where they have none that the row scanner can use, or too few are at hand.
    """
    instruction, encoding = grammar.line("instruction"), grammar.line("encoding")
    lines: list[tuple[bytes, int | None, int]] = []  # text, address, column of the opcode or the encoding
    at = begin
    while at < end and len(lines) < MAX_LINES:
        stop = buffer.find(b"\n", at, end)
        if stop < 0:
            break
        text = bytes(buffer[at : stop + 1])
        at = stop + 1
        if match := instruction.match(text):
            # a uniform predicate stands where the opcode of other instructions begins
            column = match.start("guard" if match["guard"] and b"U" in match["guard"] else "opcode")
            column -= len(match["address"]) - SHORTEST_ADDRESS
            lines.append((text, int(match["address"], 16), column))
        elif match := encoding.match(text):
            lines.append((text, None, match.end() - WINDOW))
        else:
            break
    return _layout(lines)


def _layout(lines: list[tuple[bytes, int | None, int]]) -> tuple[Layout, int] | None:
    shape = [address is not None for _, address, _ in lines]
    if len(shape) < 2 or shape.count(False) == 0:
        return None
    if shape[0]:
        size = shape.index(False) + 1
    else:
        again = shape.index(False, 1) if False in shape[1:] else None
        if again is None:
            return None
        size = again
    lanes = [(index, address) for index, (_, address, _) in enumerate(lines[:size]) if address is not None]
    if not lanes:
        return None
    base = lanes[0][1] - WORD * lanes[0][0]
    text, _, opcode = lines[lanes[0][0]]
    hexes = {column for _, address, column in lines[:size] if address is None}
    first_free = _OPENING + len(b"/*") + LONGEST_ADDRESS + len(b"*/")
    if (
        len(hexes) != 1
        or any(address != base + WORD * index for index, address in lanes)
        or text.find(b"/*") != _OPENING
        or opcode - _GUARD < first_free
        or min(hexes) <= opcode + WINDOW
    ):
        return None
    end, encoding = text[-2:], hexes.pop()
    layout = Layout(
        width=len(text),
        lines=size,
        lanes=tuple(index for index, _ in lanes),
        encodings=tuple(index for index in range(size) if not shape[index]),
        opcode=opcode,
        encoding=encoding,
        head=next(line[column : column + WINDOW] for line, address, column in lines if address is None),
        end=end,
        prefix=len(end) + opcode - _GUARD,
        text=encoding + WINDOW - len(_HEX_OPEN) - (opcode - WINDOW),
        stride=len(text) * size,
        step=WORD * size,
    )
    return layout, base


REGION = 16**SHORTEST_ADDRESS
"""Addresses that differ in their last four hexadecimal digits."""

_CACHED = 24
"""Tables kept: 128 KiB each."""


@lru_cache(maxsize=1)
def _digits() -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """The four digits of each word address of a region."""
    places = np.arange(4 * (SHORTEST_ADDRESS - 1), -1, -4)
    return np.frombuffer(b"0123456789abcdef", np.uint8).take(np.arange(0, REGION, WORD)[:, None] >> places & 0xF)


@lru_cache(maxsize=_CACHED)
def _table(region: int, phase: int, lines: int, size: int, end: bytes) -> memoryview:
    leading = f"{region:x}".encode() if region else b""
    before = end + b" " * 8 + b"/*" + leading
    text = (before + bytes(SHORTEST_ADDRESS) + b"*/").ljust(size)
    digits = _digits()[phase // WORD :: lines]
    rows = np.empty((len(digits), size), np.uint8)
    rows[:] = np.frombuffer(text, np.uint8)
    rows[:, len(before) : len(before) + SHORTEST_ADDRESS] = digits
    return memoryview(rows.tobytes())


def expected(layout: Layout, address: int, rows: int) -> memoryview:
    """The prefixes of ``rows`` rows, one a pattern, of which the first has this address; all are in one region."""
    region, low = divmod(address, REGION)
    index, phase = divmod(low, layout.step)
    size = layout.prefix
    table = _table(region, phase, layout.lines, size, layout.end)
    return table[index * size : (index + rows) * size]
