"""Which opcode eight bytes of text are: looked up in a perfect hash, and read once by the grammar when they are new."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from spillscan.sass import terminals
from spillscan.sass.layout import WINDOW

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

PLAIN, LOCAL, CONTROL, SPECIAL = range(4)
"""Kinds of a row: none of the others; an access to local memory; what moves control; an opcode that eight bytes do not
hold, for it is longer, or has a uniform predicate before it."""

MAX_WORDS = 1 << 13
"""Distinct beginnings of all dumps read by one scanner; real ones have some hundreds."""

SPECIAL_BYTES = 32
"""How far a special row is read."""

_U = np.uint64
_NOT_STOP = _U(~0x4040404040404040 & (1 << 64) - 1)


class Unreadable(Exception):
    """The text is no opcode that can be read here."""


class Opcodes:
    """The beginnings met so far, their opcodes and kinds."""

    def __init__(self) -> None:
        lark = terminals.lexer()
        guard, opcode = (terminals.terminal(lark, name) for name in ("GUARD", "OPCODE"))
        self._special = re.compile(f"(?P<guard>{guard})?(?P<opcode>{opcode})".encode())
        self._local = re.compile(terminals.terminal(lark, "LOCAL_LINE").encode())
        self._control = re.compile(terminals.terminal(lark, "CONTROL_LINE").encode())
        self.names: list[str] = []
        """By number: an opcode, or nothing for a special beginning."""
        self.kinds = np.zeros(MAX_WORDS, np.uint8)
        """By number."""
        self._kind_of: dict[str, int] = {}
        self._known: dict[int, int] = {}
        self._bits = 10
        self._factor = 0x9E3779B97F4A7C15
        self._build()

    def _build(self) -> None:
        keys = np.array(list(self._known), _U)
        tries = 0
        while True:
            slots = ((keys * _U(self._factor)) >> _U(64 - self._bits)).astype(np.int64)
            if len(np.unique(slots)) == len(keys):
                break
            self._factor = (self._factor * 6364136223846793005 + 1442695040888963407) % (1 << 64) | 1
            tries += 1
            self._bits += tries % 40 == 0
        self._keys = np.full(1 << self._bits, ~0, np.int64).view(_U)  # eight bytes 0xff are no text
        self._keys[slots] = keys
        self.slots = slots
        """By number: where its count stands in a tally of slots."""
        self.numbers = np.zeros(1 << self._bits, np.int64)
        """By slot."""
        self.numbers[slots] = np.arange(len(slots))
        self.kind_of_slot = np.zeros(1 << self._bits, np.uint8)
        """By slot."""
        self.kind_of_slot[slots] = self.kinds[: len(slots)]
        self._multiplier, self._shift = _U(self._factor), _U(64 - self._bits)

    def find(self, words: Words, room: Words, line: Callable[[int], bytes]) -> Ints:
        """The slot of each word, in ``room``, which is two rows of scratch. ``line(index)`` is the text of a row.

        A word counts up to its first byte that has neither bit 6 nor bit 4, as letters, digits and ``_`` do have: the
        opcode is a part of that, or all of it. Raises :class:`Unreadable` with the index of a row in which the grammar
        sees none.
        """
        keys, slots = room
        np.left_shift(words, _U(2), out=slots)
        np.bitwise_or(slots, words, out=slots)
        np.bitwise_or(slots, _NOT_STOP, out=slots)
        np.add(slots, _U(1), out=keys)  # carries up to the first stop
        np.bitwise_xor(keys, slots, out=keys)
        np.bitwise_and(keys, words, out=keys)
        while True:
            np.multiply(keys, self._multiplier, out=slots)
            np.right_shift(slots, self._shift, out=slots)
            found = slots.view(np.int64)
            new = self._keys.take(found) != keys
            if not new.any():
                return found
            unknown, first = np.unique(keys[new], return_index=True)
            rows = np.flatnonzero(new)[first]
            for word, row in zip(unknown.tolist(), rows.tolist(), strict=True):
                if word not in self._known:
                    self._learn(word, row, line(row))
            self._build()

    def _learn(self, word: int, row: int, text: bytes) -> None:
        match = terminals.line("head").match(text)
        if match is None or len(self.names) == MAX_WORDS:
            raise Unreadable(row)
        name = match["opcode"].decode()
        first = word.to_bytes(WINDOW, "little")
        special = len(name) >= WINDOW or not first.startswith(match["opcode"])
        self.kinds[len(self.names)] = SPECIAL if special else self._kind(name, text)
        self._known[word] = len(self.names)
        self.names.append("" if special else name)

    def _kind(self, name: str, line: bytes) -> int:
        """The grammar knows the opcodes that matter: their lines have terminals of their own."""
        if name not in self._kind_of:
            local, control = self._local.match(line), self._control.match(line)
            self._kind_of[name] = LOCAL if local else CONTROL if control else PLAIN
        return self._kind_of[name]

    def special(self, texts: Iterable[bytes], line: Callable[[int], bytes]) -> list[tuple[str, int]]:
        """Opcode and kind of special rows; ``texts`` are their bytes from the opcode's column on.

        Raises :class:`Unreadable` with the index of the first row that has none, or one that is too long.
        """
        found = []
        for index, text in enumerate(texts):
            match = self._special.match(text)
            if match is None or match.end() >= len(text):
                raise Unreadable(index)
            name = match["opcode"].decode()
            found.append((name, self._kind_of[name] if name in self._kind_of else self._kind(name, line(index))))
        return found

    def counted(self, tally: Ints) -> dict[str, int]:
        """Rows by opcode of a tally by number; special rows are counted elsewhere."""
        counts: dict[str, int] = {}
        present = tally.nonzero()[0]
        for number, count in zip(present.tolist(), tally[present].tolist(), strict=True):
            if name := self.names[number]:
                counts[name] = counts.get(name, 0) + count
        return counts
