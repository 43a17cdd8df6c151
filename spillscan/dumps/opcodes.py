"""Which opcode eight bytes of text are: looked up in a perfect hash, thousands of keys at once, and read once by the
grammar when they are new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from spillscan import grammar
from spillscan.dumps.layout import WINDOW

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

_U = np.uint64
_TRIES = 8
"""Factors that are tried before the table is doubled."""
_LEAST_BITS = 9
"""Of the index of a table."""
_ABSENT = -1


class FullError(Exception):
    """There are too many distinct keys."""


class Numbers:
    """What each key met so far stands for. No key is eight bytes 0xff, which are no text."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[int, int] = {}
        self._bits = _LEAST_BITS
        self._factor = 0x9E3779B97F4A7C15
        self._build()

    def _build(self) -> None:
        keys = np.array(list(self._known), _U)
        self._bits = max(self._bits, (len(keys) ** 2 // 4).bit_length())  # so that one factor in a few does
        tries = 0
        while True:
            slots = ((keys * _U(self._factor)) >> _U(64 - self._bits)).astype(np.int64)
            if len(np.unique(slots)) == len(keys):
                break
            self._factor = (self._factor * 6364136223846793005 + 1442695040888963407) % (1 << 64) | 1
            tries += 1
            self._bits += tries % _TRIES == 0
        self._keys = np.full(1 << self._bits, _ABSENT, np.int64).view(_U)
        self._keys[slots] = keys
        self._values = np.zeros(1 << self._bits, np.int64)
        self._values[slots] = list(self._known.values())
        self._multiplier, self._shift = _U(self._factor), _U(64 - self._bits)

    def find(self, keys: Words, scratch: Words, learn: Callable[[int, int], int]) -> Ints:
        """The number of each key; ``learn(key, index)`` gives that of a new one, which stands at ``index`` first.

        Raises :class:`FullError` where there is no room for another key, and what ``learn`` raises.
        """
        while True:
            np.multiply(keys, self._multiplier, out=scratch)
            np.right_shift(scratch, self._shift, out=scratch)
            slots = scratch.view(np.int64)
            new = self._keys.take(slots) != keys
            if not new.any():
                return self._values.take(slots)
            unknown, first = np.unique(keys[new], return_index=True)
            rows = np.flatnonzero(new)[first]
            for key, row in zip(unknown.tolist(), rows.tolist(), strict=True):
                if key not in self._known:
                    if len(self._known) == self._most:
                        raise FullError
                    self._known[key] = learn(key, row)
            self._build()


PLAIN, LOCAL, CONTROL, SPECIAL = range(4)
"""Kinds of a row: none of the others; an access to local memory; what moves control; an opcode that eight bytes do not
hold, for it is longer, or has a uniform predicate before it."""

MAX_OPCODES = 512
"""Distinct opcodes of all dumps read by one scanner; NVIDIA's tables name some 300."""

MAX_WORDS = 1 << 12
"""Distinct beginnings that are remembered; real dumps have some hundreds."""

SPECIAL_BYTES = 16
"""How far a special row is read."""

_STOPS = _U(0x4040404040404040)


class UnreadableError(Exception):
    """The text is no opcode that can be read here."""


class Opcodes:
    """The beginnings met so far, their opcodes and kinds."""

    def __init__(self) -> None:
        lark = grammar.lexer()
        guard, opcode = (grammar.terminal(lark, name) for name in ("GUARD", "OPCODE"))
        self._read: dict[bytes, int] = {}
        self._special = re.compile(f"(?P<guard>{guard})?(?P<opcode>{opcode})".encode())
        self._local = re.compile(grammar.terminal(lark, "LOCAL_LINE").encode())
        self._control = re.compile(grammar.terminal(lark, "CONTROL_LINE").encode())
        self._plain = re.compile(grammar.terminal(lark, "PLAIN_RUN").encode())
        self.names = [""]
        """By number: opcodes; the first stands for all special beginnings."""
        self.kinds = np.zeros(MAX_OPCODES, np.uint8)
        self.kinds[0] = SPECIAL
        """By number."""
        self.marks = np.zeros(MAX_OPCODES, bool)
        self.marks[0] = True
        """By number: not plain."""
        self._number_of: dict[str, int] = {}
        self._words = Numbers(MAX_WORDS)

    def find(self, words: Words, room: Words, line: Callable[[int], bytes]) -> Ints:
        """The number of each word's opcode; ``room`` is two rows of scratch. ``line(index)`` is the text of a row.

        A word counts up to and with its first byte that has neither bit 6 nor bit 4, as letters, digits and ``_`` do
        have: the opcode and what ends it are a part of that, or all of it. Raises :class:`UnreadableError` with the
        index of a row in which the grammar sees none.
        """
        keys, slots = room
        np.left_shift(words, _U(2), out=slots)
        np.bitwise_or(slots, words, out=slots)
        np.invert(slots, out=slots)
        np.bitwise_and(slots, _STOPS, out=slots)
        np.negative(slots.view(np.int64), out=keys.view(np.int64))
        np.bitwise_and(keys, slots, out=keys)  # the first of them
        np.left_shift(keys, _U(2), out=keys)
        np.subtract(keys, _U(1), out=keys)
        np.bitwise_and(keys, words, out=keys)
        return self._words.find(keys, slots, lambda word, row: self._learn(word, row, line(row)))

    def _learn(self, word: int, row: int, text: bytes) -> int:
        match = grammar.line("head").match(text)
        if match is None:
            raise UnreadableError(row)
        name = match["opcode"]
        if len(name) >= WINDOW or not word.to_bytes(WINDOW, "little").startswith(name):
            return 0
        return self._number(name.decode(), row, text)

    def _number(self, name: str, row: int, line: bytes) -> int:
        """The grammar knows the opcodes that matter: their lines have terminals of their own."""
        if name not in self._number_of:
            if len(self.names) == MAX_OPCODES:
                raise UnreadableError(row)
            local, control = self._local.match(line), self._control.match(line)
            if not (local or control or self._plain.match(line)):
                raise UnreadableError(row)  # damaged behind the opcode: of what kind it is, such a line does not say
            self.kinds[len(self.names)] = LOCAL if local else CONTROL if control else PLAIN
            self.marks[len(self.names)] = bool(local or control)
            self._number_of[name] = len(self.names)
            self.names.append(name)
        return self._number_of[name]

    def special(self, texts: Sequence[bytes], line: Callable[[int], bytes]) -> list[int]:
        """The numbers of special rows; ``texts`` are their bytes from the opcode's column on.

        Raises :class:`UnreadableError` with the index of the first row that has no opcode, or one that is too long.
        """
        found = list(map(self._read.get, texts))
        return [
            self._read_special(texts[index], index, line(index)) if number is None else number
            for index, number in enumerate(found)
        ]

    def _read_special(self, text: bytes, row: int, line: bytes) -> int:
        match = self._special.match(text)
        if match is None or match.end() == len(text):
            raise UnreadableError(row)
        number = self._number(match["opcode"].decode(), row, line)
        if len(self._read) < MAX_WORDS:
            self._read[text] = number
        return number

    def counted(self, tally: Ints) -> dict[str, int]:
        """Rows by opcode of a tally by number."""
        present = tally.nonzero()[0]
        names = self.names
        return {names[number]: count for number, count in zip(present.tolist(), tally[present].tolist(), strict=True)}
