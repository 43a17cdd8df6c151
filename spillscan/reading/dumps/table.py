"""Lines of a function as a table: cuobjdump pads all lines of a function to one width.

Lines that do not form a table are read one by one. The grammar parses the beginnings of lines, up to the opcode's
modifiers, once per distinct text. It parses the rest of a line only if that matters for local memory.
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
"""Opcodes that matter for local memory."""

Operation = tuple[bytes, bytes, bytes, bytes, bytes]
"""Predicate, opcode, modifiers, operands and remark of an instruction, as printed."""

Instruction = tuple[int, Operation, int | None, SourceLine | None]
"""An instruction that matters for local memory: address, operation, line of the disassembly, source line."""

_ANY_ADDRESS = b"        /*0000"
_GAP = len("*/                   ")
"""Width between an address and its opcode. It includes a predicate, but a uniform one follows it (``@UP0 ``)."""
_LONGEST_GUARD = len("@!UP0 A")
_LONGEST_WORD = 36
"""Longest opcode with modifiers; longer ones are read line by line."""
_ONES = np.tri(_LONGEST_WORD, k=-1, dtype=np.uint8)
"""Row n has n ones followed by zeros."""
bytes(1 << 24)
"""Raises glibc's M_MMAP_THRESHOLD (mallopt(3)) by freeing a large block, so that memory for columns is reused. Without
it, the columns of each table would be fresh pages."""
_STACK_POINTER = re.compile(rb"R1(?<!\wR1)(?!\w)")


class Table(NamedTuple):
    """Statements of a function, kept unparsed until they are needed."""

    lines: int
    """Number of lines, including those with encodings only."""
    numbers: NDArray[np.int64]
    """Line numbers in the disassembly, 1-based."""
    addresses: NDArray[Any]
    """Addresses as printed, ascending."""
    counts: list[tuple[str, int]]
    """Opcodes and their counts; an opcode may occur more than once."""
    heads: list[bytes]
    """Text of each statement from its address to the end of its opcode's modifiers."""
    statements: NDArray[Any]
    """Text of each statement between address and encoding."""

    def marked(self) -> Iterator[Instruction]:
        """Statements that matter for local memory."""
        marked = {head for head in {*self.heads} if opcode_at(head).encode() in MARKED}
        rows = [*compress(range(len(self.heads)), map(marked.__contains__, self.heads))]
        operations = map(operation, self.statements[rows].tolist())
        addresses = map(offset, self.addresses[rows].tolist())
        return zip(addresses, operations, self.numbers[rows].tolist(), repeat(None), strict=False)

    def stack_uses(self) -> Iterator[tuple[int, bytes]]:
        """(address, operands) of statements that name the stack pointer, other than STL and LDL."""
        found = _STACK_POINTER.finditer(self.statements.tobytes())
        for row in dict.fromkeys(match.start() // self.statements.itemsize for match in found):
            _, opcode, _, operands, _ = operation(bytes(self.statements[row]))
            if opcode not in LOCAL:
                yield int(self.addresses.item(row), 16), operands


@lru_cache(maxsize=1 << 14)
def opcode_of(word: bytes) -> str:
    """Opcode without predicate and modifiers; empty if there is none."""
    match = grammar.line("word").fullmatch(word)
    return match["opcode"].decode() if match else ""


@lru_cache(maxsize=1 << 14)
def operation(text: bytes) -> Operation:
    """Parse a statement whose opcode is known. Text before its predicate must be the end of its address and blanks."""
    begin = len(text) - len(text.lstrip(b"*/ "))
    match = grammar.line("operation").match(text, begin, text.find(b";") + 1 or len(text))
    assert match, text
    return match.groups(b"")  # type: ignore[return-value]


@lru_cache(maxsize=1 << 14)
def opcode_at(head: bytes) -> str:
    """Opcode of a line, given the text after its address; empty if there is none."""
    match = grammar.line("head").match(_ANY_ADDRESS + head)
    return opcode_of(match["word"]) if match else ""


def table(text: bytes, at: int, stop: int, number: int) -> Table | None:
    """Table of whole lines whose first is line ``number`` of the disassembly.

    ``None`` unless all lines have one width and are statements or encodings.
    """
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
    """Beginning of each row, up to the first blank after its opcode, padded with zeros."""
    heads = rows[:, : _GAP + _LONGEST_WORD].copy()
    blank = heads[:, _GAP:] == ord(" ")
    blank[heads[:, _GAP] == ord("@"), :_LONGEST_GUARD] = False
    heads[:, _GAP:] *= np.take(_ONES[:, : blank.shape[1]], blank.argmax(axis=1), axis=0)
    return heads


def _texts(columns: NDArray[np.uint8]) -> NDArray[Any]:
    """Each row as a text, without trailing zeros."""
    return np.ascontiguousarray(columns).view(f"S{columns.shape[1]}")[:, 0]
