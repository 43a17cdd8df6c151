"""Register tables: where each instruction names registers, and whether it reads or writes them.

The tables (``registers/*.json``) are derived by ``fixtures/registers.py`` from nvdisasm's own marks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from spillscan.model.code import MOST_REGISTERS
from spillscan.reading.binary.words import ALWAYS
from spillscan.reading.machine.instruction import FILES
from spillscan.reading.machine.liveness import Effects

_OPCODE_BITS = 0xFFF
_ALL = (1 << MOST_REGISTERS) - 1


class Field(NamedTuple):
    """Field of an instruction that names a register."""

    file: int
    """Register file, as an index of :data:`~spillscan.reading.machine.instruction.FILES`."""
    at: int
    """Lowest bit of the number."""
    width: int
    """Width in bits."""
    shape: int
    """Set of the registers accessed, as offsets from the named one."""
    writes: bool


class Registers:
    """Register table of one architecture, for one file."""

    def __init__(self, opcodes: dict[str, Any], file: int, width: int) -> None:
        self._classes: dict[int, tuple[int, dict[int, list[Field]]]] = {}
        """By opcode: bits that decide, and the fields by their values."""
        for code, (bits, values) in opcodes.items():
            classes = {_placed(int(value, 16), bits): [*_fields(text, file, width)] for value, text in values.items()}
            self._classes[int(code, 16)] = sum(1 << bit for bit in bits), classes

    def fields(self, word: int) -> list[Field] | None:
        """Register fields of an instruction; ``None`` if unknown."""
        mask, classes = self._classes.get(word & _OPCODE_BITS, (0, {}))
        return classes.get(word & mask)

    def effects(self, words: Iterable[int]) -> Effects:
        """Registers read and written by each instruction."""
        effects = Effects([], [], [], [])
        for word in words:
            fields, sides = self.fields(word), [0, 0]
            for _, at, width, shape, writes in fields or ():
                number = word >> at & (1 << width) - 1
                if number < MOST_REGISTERS:
                    sides[writes] |= shape << number & _ALL
            effects.read.append(sides[False])
            effects.written.append(sides[True])
            effects.guarded.append(word >> 12 & 15 != ALWAYS)
            effects.unknown.append(fields is None)
        return effects


def _placed(value: int, bits: Iterable[int]) -> int:
    """``value`` with its bits moved to the places ``bits``."""
    return sum((value >> at & 1) << bit for at, bit in enumerate(bits))


def _fields(text: str, file: int, width: int) -> Iterator[Field]:
    for field in text.split():
        at, _, more = field[1:].partition(".")
        yield Field(file, int(at), width, int(more or "1", 16), field[0] == "w")


def _width(file: str, arch: int) -> int:
    """Width of a register-number field, in bits."""
    if file in "PQ":
        return 3
    return 8 if file == "R" or arch >= 100 else 6


_TABLES = Path(__file__).parent / "registers"


@cache
def registers(number: int, file: str = "R") -> Registers | None:
    """Table of an architecture by its number; ``None`` if none was derived. ``file``: R (general registers), P
    (predicates), U (uniform registers) or Q (uniform predicates)."""
    own = _entries(number, file)
    if own is None and file != "R":  # tables of general registers are complete
        own = _entries(_KIN.get(number, number), file)
    return None if own is None else Registers(own, FILES.index(file), _width(file, number))


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
