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

from spillscan.model.code import SourceLine
from spillscan.reading import grammar
from spillscan.reading.machine.flow import KINDS, offset

LOCAL = frozenset({b"STL", b"LDL"})
MARKED = LOCAL | KINDS.keys()
"""Opcodes of the lines that matter for local memory."""

Operation = tuple[bytes, bytes, bytes, bytes, bytes]
"""What an instruction does: predicate, opcode, modifiers, operands and remark as printed."""

Instruction = tuple[int, Operation, int | None, SourceLine | None]
"""One that matters for local memory: address, operation, the line of the dump, the source line."""

_ANY_ADDRESS = b"        /*0000"
_GAP = len("*/                   ")
"""Between an address and its opcode. A predicate stands in it, but a uniform one stands behind it (``@UP0 ``)."""
_LONGEST_GUARD = len("@!UP0 A")
_LONGEST_WORD = 36
"""Opcode and modifiers; lines with longer ones are read line by line."""
_ONES = np.tri(_LONGEST_WORD, k=-1, dtype=np.uint8)
"""Row n holds n ones, and zeros behind them."""
bytes(1 << 24)
"""glibc keeps what is freed of blocks up to the largest that was freed (mallopt(3), M_MMAP_THRESHOLD): else the columns
of each table are fresh pages."""
_STACK_POINTER = re.compile(rb"R1(?<!\wR1)(?!\w)")


class Table(NamedTuple):
    """Some statements of a function, kept until it is known whether it matters what they say."""

    lines: int
    """How many there are, those of encodings too."""
    numbers: NDArray[np.int64]
    """Lines of the dump, 1-based."""
    addresses: NDArray[Any]
    """As printed; ascending."""
    counts: list[tuple[str, int]]
    """Opcodes, and how many there are; one may stand there more than once."""
    heads: list[bytes]
    """Of each, what stands between its address and the end of its opcode's modifiers."""
    statements: NDArray[Any]
    """What stands between address and encoding."""

    def marked(self) -> Iterator[Instruction]:
        """Those that matter for local memory."""
        marked = {head for head in {*self.heads} if opcode_at(head).encode() in MARKED}
        rows = [*compress(range(len(self.heads)), map(marked.__contains__, self.heads))]
        operations = map(operation, self.statements[rows].tolist())
        addresses = map(offset, self.addresses[rows].tolist())
        return zip(addresses, operations, self.numbers[rows].tolist(), repeat(None), strict=False)

    def stack_uses(self) -> Iterator[tuple[int, bytes]]:
        """(address, operands) of those that name the stack pointer, STL and LDL apart."""
        found = _STACK_POINTER.finditer(self.statements.tobytes())
        for row in dict.fromkeys(match.start() // self.statements.itemsize for match in found):
            _, opcode, _, operands, _ = operation(bytes(self.statements[row]))
            if opcode not in LOCAL:
                yield int(self.addresses.item(row), 16), operands


@lru_cache(maxsize=1 << 14)
def opcode_of(word: bytes) -> str:
    """The opcode without predicate and modifiers; empty where there is none."""
    match = grammar.line("word").fullmatch(word)
    return match["opcode"].decode() if match else ""


@lru_cache(maxsize=1 << 14)
def operation(text: bytes) -> Operation:
    """Of a statement whose opcode is known; what stands before its predicate are the end of its address and blanks."""
    begin = len(text) - len(text.lstrip(b"*/ "))
    match = grammar.line("operation").match(text, begin, text.find(b";") + 1 or len(text))
    assert match, text
    return match.groups(b"")  # type: ignore[return-value]


@lru_cache(maxsize=1 << 14)
def opcode_at(head: bytes) -> str:
    """The opcode of a line, of which this stands behind the address; empty where none stands there."""
    match = grammar.line("head").match(_ANY_ADDRESS + head)
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
    addresses, statements = _texts(rows[:, begin:end]), np.ascontiguousarray(rows[:, end:tail])
    encoding = grammar.line("encoding").match(encodings[:1].tobytes())
    ends = 2 if text[at + width - 2] == ord("\r") else 1
    heads = _texts(_beginnings(rows[:, end:])).tolist()
    counted = Counter(heads)
    opcodes = [*map(opcode_at, counted)]
    if not (
        (lines[:, -ends:] == lines[0, -ends:]).all()
        and lines[:, :-ends].min() >= ord(" ")
        and rows[:, :begin].tobytes() == text[line : line + begin] * len(rows)
        and not addresses.tobytes().translate(None, b"0123456789abcdef")
        and (addresses[1:] > addresses[:-1]).all()
        and (statements[:, 0] == ord("*")).all()
        and (statements == ord(";")).argmax(axis=1).all()
        and not (len(encodings) and encoding is None)
        and (encoding is None or encodings[:, : encoding.end()].tobytes() == encoding[0] * len(encodings))
        and all(opcodes)
    ):
        return None
    counts = [*zip(opcodes, counted.values(), strict=True)]
    return Table(len(lines), number + np.flatnonzero(shown), addresses, counts, heads, _texts(statements))


def _beginnings(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Of each row what stands before the first blank behind its opcode; zeros in place of the rest."""
    heads = rows[:, : _GAP + _LONGEST_WORD].copy()
    blank = heads[:, _GAP:] == ord(" ")
    blank[heads[:, _GAP] == ord("@"), :_LONGEST_GUARD] = False
    heads[:, _GAP:] *= np.take(_ONES[:, : blank.shape[1]], blank.argmax(axis=1), axis=0)
    return heads


def _texts(columns: NDArray[np.uint8]) -> NDArray[Any]:
    """Each row as a text, without zeros at its end."""
    return np.ascontiguousarray(columns).view(f"S{columns.shape[1]}")[:, 0]
