"""Lines of a function as a table: cuobjdump pads all lines of a function to one width.

Lines that do not make one are read one by one. The beginnings of lines, up to the modifiers of the opcode, are read by
the grammar, equal ones once; so is what a line says of local memory, where that matters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import compress, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.reading import grammar
from spillscan.reading.dumps.listing import LOCAL, MARKED, Instruction, opcode_of, operation

_GAP = len("*/                   ")
"""Between an address and its opcode. A predicate stands in it, but a uniform one stands behind it (``@UP0 ``)."""
_LONGEST_GUARD = len("@!UP0 A")
_LONGEST_WORD = 36
"""Opcode and modifiers; lines with longer ones are read line by line."""
_BEGINNINGS = np.tri(_LONGEST_WORD, k=-1, dtype=np.uint8)
"""Row n holds n ones, and zeros behind them."""
_MOST_DIGITS = 8
_DIGITS: NDArray[np.uint8] = np.full(256, 16, np.uint8)
_DIGITS[list(b"0123456789abcdef")] = range(16)
_STACK_POINTER = re.compile(rb"R1(?<!\wR1)(?!\w)")


class Table(NamedTuple):
    """Some statements of a function, kept until it is known whether it matters what they say."""

    lines: int
    """How many there are, those of encodings too."""
    numbers: NDArray[np.int64]
    """Lines of the dump, 1-based."""
    addresses: NDArray[np.int64]
    """Ascending."""
    counts: list[tuple[str, int]]
    """Opcodes, and how many there are; one may stand there more than once."""
    heads: list[bytes]
    """Each line's beginning, up to the end of its opcode's modifiers; the address is all zeros."""
    statements: NDArray[Any]
    """What stands between address and encoding."""

    def marked(self) -> Iterator[Instruction]:
        """Those that matter for local memory."""
        marked = {head for head in {*self.heads} if opcode_at(head).encode() in MARKED}
        rows = [*compress(range(len(self.heads)), map(marked.__contains__, self.heads))]
        operations = map(operation, self.statements[rows].tolist())
        return zip(self.addresses[rows].tolist(), operations, self.numbers[rows].tolist(), repeat(None), strict=False)

    def stack_uses(self) -> Iterator[tuple[int, bytes]]:
        """(address, operands) of those that name the stack pointer, STL and LDL apart."""
        found = _STACK_POINTER.finditer(self.statements.tobytes())
        for row in dict.fromkeys(match.start() // self.statements.itemsize for match in found):
            _, opcode, _, operands, _ = operation(bytes(self.statements[row]))
            if opcode not in LOCAL:
                yield int(self.addresses[row]), operands


@lru_cache(maxsize=1 << 14)
def opcode_at(head: bytes) -> str:
    """The opcode of a line that begins like this; empty where none stands there."""
    match = grammar.line("head").match(head)
    return opcode_of(match["word"]) if match else ""


def table(text: bytes, at: int, stop: int, number: int) -> Table | None:
    """Whole lines, the first of which is line ``number`` of the dump; ``None`` where they are not of one width, or not
    all of them statements and encodings."""
    first, width = grammar.line_starts("statement").search(text, at, stop), text.find(b"\n", at) + 1 - at
    if first is None or (stop - at) % width:
        return None
    line = first.start()
    begin, end = first.start("address") - line, first.end("address") - line
    tail = text.find(b"/* 0x", line, line + width) - line
    if not end + _GAP < tail:
        return None
    lines = np.frombuffer(text, np.uint8, stop - at, at).reshape(-1, width)
    shown = lines[:, begin - 1] == ord("*")
    rows, encodings = np.compress(shown, lines, axis=0), np.compress(~shown, lines, axis=0)
    digits, statements = _DIGITS[rows[:, begin:end]], np.ascontiguousarray(rows[:, end:tail])
    addresses = digits @ 16 ** np.arange(end - begin)[::-1]
    encoding = grammar.line("encoding").match(encodings[:1].tobytes())
    opening = encodings[:, : encoding.end() if encoding else 0].tobytes()
    ends = np.count_nonzero(lines[:, -1] == ord("\n"))
    if not (
        ends == len(lines)
        and np.count_nonzero(lines < ord(" ")) == ends + np.count_nonzero(lines[:, -2] == ord("\r"))
        and end - begin <= _MOST_DIGITS
        and digits.max() < 16
        and (statements[:, 0] == ord("*")).all()
        and (addresses[1:] > addresses[:-1]).all()
        and (statements == ord(";")).argmax(axis=1).all()
        and (opening == encoding[0] * len(encodings) if encoding else not len(encodings))
    ):
        return None
    heads = _heads(rows, begin, end)
    counted = Counter(heads)
    opcodes = [*map(opcode_at, counted)]
    if not all(opcodes):
        return None
    counts = [*zip(opcodes, counted.values(), strict=True)]
    return Table(len(lines), number + np.flatnonzero(shown), addresses, counts, heads, _texts(statements))


def _heads(rows: NDArray[np.uint8], begin: int, end: int) -> list[bytes]:
    """Of lines whose addresses stand from ``begin`` to ``end``: see :attr:`Table.heads`."""
    word = end + _GAP
    heads = rows[:, : word + _LONGEST_WORD].copy()
    heads[:, begin:end] = ord("0")
    blank = heads[:, word:] == ord(" ")
    blank[heads[:, word] == ord("@"), :_LONGEST_GUARD] = False
    heads[:, word:] *= _BEGINNINGS[blank.argmax(axis=1), : blank.shape[1]]
    found: list[bytes] = _texts(heads).tolist()  # without the zeros at their ends
    return found


def _texts(columns: NDArray[np.uint8]) -> NDArray[Any]:
    """Each row as a text."""
    return columns.view(f"S{columns.shape[1]}")[:, 0]
