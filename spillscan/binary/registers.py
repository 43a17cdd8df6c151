"""Which general registers each instruction reads and writes: tables, data of ``registers/*.json``, by columns.

Derived by ``fixtures/registers.py`` from what nvdisasm marks. An opcode and the bits that decide make a class; one that
was not met is no class, and what such an instruction does is not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillscan.binary.words import ALWAYS, Words
from spillscan.machine.liveness import WORDS, Effects

_OPCODE_BITS = 0xFFF
_REGISTERS = 255
"""Of a thread; the last number stands for none."""
_SPREAD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
"""Odd numbers by which the parts of a class are made one number."""


class Registers:
    """The table of one architecture."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._masks = np.zeros((2, _OPCODE_BITS + 1), np.uint64)
        """Bits of the low and of the high word that decide, by opcode."""
        classes: list[tuple[int, int, int, str]] = []
        for code, (bits, values) in document["opcodes"].items():
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
            raise ValueError("two classes of instructions have one number")
        shapes: dict[int, int] = {}
        fields_of = [[*_fields(classes[place][3], shapes)] for place in order.tolist()]
        most = max(map(len, fields_of))
        self._fields = np.zeros((most, len(classes), 3), np.int64)
        """Bit, shape and whether it is written, of the n-th field of each class; shape 0: there is none."""
        for number, fields in enumerate(fields_of):
            for place, field in enumerate(fields):
                self._fields[place, number] = field
        self._sets = np.zeros((len(shapes) + 1, _REGISTERS + 1, WORDS), np.uint64)
        for shape, number in shapes.items():
            moved = b"".join(
                (shape << first & (1 << _REGISTERS) - 1).to_bytes(8 * WORDS, "little") for first in range(_REGISTERS)
            )
            self._sets[number, :_REGISTERS] = np.frombuffer(moved, np.uint64).reshape(-1, WORDS)

    def effects(self, lows: Words, highs: Words) -> Effects:
        """What instructions do, given as two columns of words."""
        low, high = lows.view(np.uint64), highs.view(np.uint64)
        codes = lows & _OPCODE_BITS
        keys = _key(codes.view(np.uint64), low & self._masks[0, codes], high & self._masks[1, codes])
        at = np.minimum(self._keys.searchsorted(keys), len(self._keys) - 1)
        unknown: NDArray[np.bool_] = self._keys[at] != keys
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


@cache
def registers(number: int) -> Registers | None:
    """The table of an architecture by its number; ``None`` where none was derived."""
    source = files("spillscan.binary") / "registers" / f"sm_{number}.json"
    return Registers(json.loads(source.read_text())) if source.is_file() else None
