"""Machine words as NumPy columns: opcode, guard, branch target, local address, stack pointer.

Volta and later (128 bits, two little-endian words a, b): opcode a[0:12], guard a[12:16], target register a[16:24],
sources a[24:32], a[32:40], b[0:8]; STL and LDL: offset a[40:64], width b[9:12], ``.LU`` b[20:23] = 3, uniform register
a[32:40] if b[27]; branches: words to skip a[34:64] + b[0:18], from sm_90 on in quarters with a[16:24] as low byte,
condition b[23:27], uniform condition if b[27].

Maxwell and Pascal (64 bits, a control word before every three): opcode a[51:64], guard a[16:20], target register
a[0:8], sources a[8:16], a[20:28], a[39:47]; STL and LDL: offset a[20:44], width a[48:51], ``.LU`` a[44:46] = 1;
branches: bytes to skip a[20:44], condition a[0:5].

Each field was verified against the text of cuobjdump, instruction by instruction (``tests/oracle/binary_oracle.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from spillscan.reading.binary.tables import ALWAYS, Selectors
from spillscan.reading.binary.window import Window

Words = NDArray[np.int64]
Flags = NDArray[np.bool_]

_WORD = np.dtype("<i8")
STACK_POINTER = 1
FIRST_WITH_LOW_BYTE = 90
BRANCHES, MEET = (0x947, 0x547, 0x944), 0x945
"""Opcodes of BRA, its uniform form and CALL.REL; BSSY."""
_ALL_BITS = (1 << 64) - 1


class Wide:
    """128-bit instructions of one function, one per row."""

    bytes_per_instruction = 16
    stored = "b"
    """Field of the register that STL stores."""

    def __init__(self, code: Window, number: int, selectors: Selectors) -> None:
        self._pairs: Words = code.array(_WORD, code.size // 16 * 2, 0, "code")
        self._lows, self._highs = self._pairs[0::2], self._pairs[1::2]
        self._low_byte = number >= FIRST_WITH_LOW_BYTE
        self.codes: Words = self._lows & 0xFFF
        if selectors.bits:
            selectors.choose(self.codes, (self._lows, self._highs))

    def part(self, begin: int, end: int) -> Wide:
        """Instructions from offset ``begin`` to ``end``, where functions begin; nothing is looked up again."""
        part, rows = copy(self), slice(begin // 16, end // 16)
        part._pairs = self._pairs[2 * rows.start : 2 * rows.stop]
        part._lows, part._highs, part.codes = self._lows[rows], self._highs[rows], self.codes[rows]
        return part

    def words(self) -> tuple[Words, Words]:
        """Low words, and high words."""
        return self._lows, self._highs

    def integers(self) -> list[int]:
        """All words as numbers of 128 bits."""
        lows, highs = (column.view(np.uint64).tolist() for column in (self._lows, self._highs))
        return [low | high << 64 for low, high in zip(lows, highs, strict=True)]

    def integer(self, row: int) -> int:
        """One word as a number of 128 bits."""
        return int(self._lows[row]) & _ALL_BITS | (int(self._highs[row]) & _ALL_BITS) << 64

    def rows_of(self, opcodes: Sequence[int]) -> Words:
        """Rows with one of these opcodes."""
        return np.isin(self._lows & 0xFFF, opcodes).nonzero()[0]

    def branches(self) -> tuple[Words, Words]:
        """Rows of :data:`BRANCHES` and :data:`MEET`, and the byte offsets of their targets and reconvergence points."""
        rows = self.rows_of((*BRANCHES, MEET))
        meets = self._lows[rows] & 0xFFF == MEET
        return rows, np.where(meets, self.meetings(rows), self.targets(rows))

    def rows_before(self, offset: int) -> int:
        """Instructions in the first ``offset`` bytes."""
        return offset // 16

    def bytes_to(self, rows: int) -> int:
        """Bytes from the first instruction of a function (control words included) to the end of its last."""
        return rows * 16

    def addresses(self, rows: Words) -> Words:
        """Byte offsets of rows in the function."""
        return rows * 16

    def guards(self, rows: Words) -> Words:
        """Guard predicate, plus 8 if negated; 7: none."""
        return self._lows[rows] >> 12 & 15

    def targets(self, rows: Words) -> Words:
        """Branch targets, as byte offsets in the function."""
        steps = self._lows[rows] >> 34 & 0x3FFFFFFF | self._highs[rows] << 46 >> 16
        if self._low_byte:
            steps = steps << 8 | self._lows[rows] >> 16 & 0xFF
        return rows * 16 + 16 + steps * 4

    def meetings(self, rows: Words) -> Words:
        """Reconvergence points of BSSY, as byte offsets in the function. The low byte contains its barrier, and bits
        above its low word are no part of the target (``.RECONVERGENT``, sm_100 and later)."""
        return rows * 16 + 16 + (self._lows[rows] >> 34) * 4

    def conditions(self, rows: Words) -> Flags:
        """Whether a branch has a condition besides its guard."""
        high = self._highs[rows]
        column: Flags = (high >> 23 & 15 != ALWAYS) | (high >> 27 & 1 == 1)
        return column

    def local(self, rows: Words) -> Words:
        """Fields of STL and LDL as one number: see :func:`spillscan.reading.machine.instruction.of_word`."""
        low, high = self._lows[rows], self._highs[rows]
        column: Words = low >> 40 << 24 | (high >> 20 & 7 == 3) << 20 | high << 8 & 7 << 17
        column |= high >> 11 & 1 << 16 | low >> 24 & 0xFF
        return column

    def registers(self, letter: str, rows: Words) -> Words:
        """Numbers in one register field: d (target), a, b, c."""
        if letter == "c":
            return self._highs[rows] & 0xFF
        return self._lows[rows] >> {"d": 16, "a": 24, "b": 32}[letter] & 0xFF

    def naming(self, register: int) -> Words:
        """Rows in which field a, b or c has that number, even if it is no register field of the opcode."""
        octets = self._pairs.view(np.uint8).reshape(-1, 16)
        named = octets[:, 3] == register
        for place in (4, 8):
            named |= octets[:, place] == register
        column: Words = named.nonzero()[0]
        return column

    def immediates(self, rows: Words) -> Words:
        """32-bit constants in place of the second source."""
        return self._lows[rows] >> 32


class Narrow:
    """64-bit instructions, three after each control word: Maxwell and Pascal."""

    bytes_per_instruction = 8
    stored = "d"
    _registers: ClassVar = {"d": 0, "a": 8, "b": 20, "c": 39}
    """Lowest bit of each field."""

    def __init__(self, code: Window, selectors: Selectors) -> None:
        words: NDArray[np.uint64] = code.array(np.dtype("<u8"), code.size // 8, 0, "code")
        self._all: Words = words.view("<i8")
        self.codes: Words = np.empty(self.rows_before(code.size), np.int64)
        codes = self.codes.view("<u8")
        for place in range(3):  # after each control word
            np.right_shift(words[place + 1 :: 4], np.uint64(51), out=codes[place::3])
        if selectors.bits:
            selectors.choose(self.codes, (self._words(np.arange(len(self.codes))),))

    def part(self, begin: int, end: int) -> Narrow:
        """See :meth:`Wide.part`."""
        part = copy(self)
        part._all = self._all[begin // 8 : end // 8]
        part.codes = self.codes[self.rows_before(begin) : self.rows_before(end)]
        return part

    def rows_before(self, offset: int) -> int:
        """See :meth:`Wide.rows_before`."""
        words = offset // 8
        return words - -(-words // 4)

    def bytes_to(self, rows: int) -> int:
        """See :meth:`Wide.bytes_to`."""
        return (rows + -(-rows // 3)) * 8

    def _words(self, rows: Words) -> Words:
        column: Words = self._all[rows + rows // 3 + 1]
        return column

    def addresses(self, rows: Words) -> Words:
        """See :meth:`Wide.addresses`."""
        return (rows + rows // 3 + 1) * 8

    def guards(self, rows: Words) -> Words:
        """See :meth:`Wide.guards`."""
        return self._words(rows) >> 16 & 15

    def targets(self, rows: Words) -> Words:
        """See :meth:`Wide.targets`."""
        steps = (self._words(rows) >> 20 & 0xFFFFFF) << 40 >> 40
        return self.addresses(rows) + 8 + steps

    def conditions(self, rows: Words) -> Flags:
        """See :meth:`Wide.conditions`."""
        column: Flags = self._words(rows) & 31 != 15
        return column

    def local(self, rows: Words) -> Words:
        """See :meth:`Wide.local`."""
        words = self._words(rows)
        column: Words = words >> 20 << 40 >> 16 | (words >> 48 & 7) << 17
        column |= (words >> 44 & 3 == 1) << 20 | words >> self._registers["a"] & 0xFF
        return column

    def registers(self, letter: str, rows: Words) -> Words:
        """See :meth:`Wide.registers`."""
        return self._words(rows) >> self._registers[letter] & 0xFF

    def naming(self, register: int) -> Words:
        """See :meth:`Wide.naming`."""
        named = np.zeros(len(self._all), bool)
        for letter in "abc":
            named |= self._all >> self._registers[letter] & 0xFF == register
        places = named.nonzero()[0]
        places = places[places % 4 != 0]  # no control words
        column: Words = places - places // 4 - 1
        return column

    def immediates(self, rows: Words) -> Words:
        """See :meth:`Wide.immediates`."""
        return (self._words(rows) >> 20 & 0xFFFFFFFF) << 32 >> 32


Code = Wide | Narrow
"""Instructions of any architecture."""
