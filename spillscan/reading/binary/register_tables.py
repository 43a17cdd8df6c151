"""Register tables: where each instruction names registers, and whether it reads or writes them.

The tables (``registers/*.json``) are derived by ``fixtures/registers.py`` from nvdisasm's own marks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillscan.model.code import MOST_REGISTERS
from spillscan.reading.binary.words import ALWAYS, Words
from spillscan.reading.machine.liveness import WORDS, Effects

_OPCODE_BITS = 0xFFF
_SPREAD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
"""Odd factors that hash the parts of a class into one number."""


class Registers:
    """Register table of one architecture."""

    def __init__(self, opcodes: dict[str, Any]) -> None:
        self._masks = np.zeros((2, _OPCODE_BITS + 1), np.uint64)
        """Bits of the low and of the high word that decide the class, by opcode."""
        classes: list[tuple[int, int, int, str]] = []
        for code, (bits, values) in opcodes.items():
            opcode = int(code, 16)
            for bit in bits:
                self._masks[bit // 64, opcode] |= np.uint64(1 << bit % 64)
            for value, fields in values.items():
                placed = sum((int(value, 16) >> at & 1) << bit for at, bit in enumerate(bits))
                classes.append((opcode, placed & (1 << 64) - 1, placed >> 64, fields))
        parts = np.array([each[:3] for each in classes], np.uint64)
        keys = _key(parts[:, 0], parts[:, 1], parts[:, 2])
        order = keys.argsort()
        self._keys = keys[order]
        if (self._keys[1:] == self._keys[:-1]).any():
            raise ValueError("two instruction classes share a number")
        shapes: dict[int, int] = {}
        self.fields = fields_of = [[*_fields(classes[place][3], shapes)] for place in order.tolist()]
        """Fields of each class: (lowest bit of the register number, shape number, whether it is written)."""
        self.shapes = {
            number: [bit for bit in range(shape.bit_length()) if shape >> bit & 1] for shape, number in shapes.items()
        }
        """Registers accessed, as offsets from the named one, by shape number."""
        most = max(map(len, fields_of))
        self._fields = np.zeros((most, len(classes), 3), np.int64)
        """Bit, shape and whether it is written, by field number and class; shape 0: no such field."""
        for number, fields in enumerate(fields_of):
            for place, field in enumerate(fields):
                self._fields[place, number] = field
        self._sets = np.zeros((len(shapes) + 1, MOST_REGISTERS + 1, WORDS), np.uint64)
        for shape, number in shapes.items():
            moved = b"".join(
                (shape << first & (1 << MOST_REGISTERS) - 1).to_bytes(8 * WORDS, "little")
                for first in range(MOST_REGISTERS)
            )
            self._sets[number, :MOST_REGISTERS] = np.frombuffer(moved, np.uint64).reshape(-1, WORDS)

    def classes(self, lows: Words, highs: Words) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Class of each instruction, an index of :attr:`fields`, and whether it is unknown."""
        low, high = lows.view(np.uint64), highs.view(np.uint64)
        codes = lows & _OPCODE_BITS
        keys = _key(codes.view(np.uint64), low & self._masks[0, codes], high & self._masks[1, codes])
        at = np.minimum(self._keys.searchsorted(keys), len(self._keys) - 1)
        return at, self._keys[at] != keys

    def effects(self, lows: Words, highs: Words) -> Effects:
        """Registers read and written by instructions, which are given as columns of low and high words."""
        low, high = lows.view(np.uint64), highs.view(np.uint64)
        at, unknown = self.classes(lows, highs)
        read, written = (np.zeros((len(low), WORDS), np.uint64) for _ in range(2))
        for column in self._fields:
            bits, shapes, roles = column[at].T
            for role, sets in ((0, read), (1, written)):
                rows = ((shapes != 0) & (roles == role) & ~unknown).nonzero()[0]
                bit = bits[rows]
                word = np.where(bit < 64, low[rows], high[rows]) >> (bit & 63).astype(np.uint64) & np.uint64(0xFF)
                sets[rows] |= self._sets[shapes[rows], word.astype(np.int64)]
        return Effects(read, written, lows >> 12 & 15 != ALWAYS, unknown)


def _key(codes: NDArray[np.uint64], low: NDArray[np.uint64], high: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = low * _SPREAD[0]
    mixed ^= mixed >> np.uint64(29)
    found: NDArray[np.uint64] = (mixed + high) * _SPREAD[1] + codes * _SPREAD[2]
    return found


def _fields(text: str, shapes: dict[int, int]) -> Iterator[tuple[int, int, bool]]:
    for field in text.split():
        at, _, more = field[1:].partition(".")
        yield int(at), shapes.setdefault(int(more or "1", 16), len(shapes) + 1), field[0] == "w"


_TABLES = Path(__file__).parent / "registers"


@cache
def registers(number: int, file: str = "R") -> Registers | None:
    """Table of an architecture by its number; ``None`` if none was derived. ``file``: R (general registers), P
    (predicates), U (uniform registers) or Q (uniform predicates)."""
    own = _entries(number, file)
    if own is None and file != "R":  # tables of general registers are complete
        own = _entries(_KIN.get(number, number), file)
    return None if own is None else Registers(own)


_KIN = {86: 80, 87: 80, 88: 80, 89: 80, 101: 100, 103: 100, 107: 100, 110: 100, 121: 120}
"""Architectures with the same predicate and uniform register fields as another that has a table (verified: sm_86 and
sm_89 against sm_80, sm_103 against sm_100, sm_121 against sm_120: 600, 603, 534 and 575 entries, no class differs)."""


def _entries(number: int, file: str) -> dict[str, Any] | None:
    source = _TABLES / f"sm_{number}.json"
    if not source.is_file():
        return None
    document: dict[str, Any] = json.loads(source.read_text())
    if file == "R":
        found: dict[str, Any] | None = document["opcodes"]
    else:
        found = document.get("others", {}).get(file, {}).get("opcodes")
    return found
