"""Tables of instructions, for each architecture one of opcodes and one of registers.

Opcode tables (``opcodes/*.json``) give the mnemonic and register fields of each code. They are derived by
``fixtures/opcodes.py``. No code is guessed: one in no table is counted by its hexadecimal number. Mnemonics that share
an opcode are distinguished by further bits, the selectors, which are read only for such opcodes.

Register tables (``registers/*.json``) tell where each instruction names registers, and whether it reads or writes them.
They are derived by ``fixtures/registers.py`` from nvdisasm's own marks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.model.code import MOST_REGISTERS, OPCODE_CLASSES, SETS_REGISTERS
from spillscan.reading.machine.flow import KINDS
from spillscan.reading.machine.instruction import FILES
from spillscan.reading.machine.liveness import Effects

CODE_BITS = 12
"""Bits of the opcode; selector bits are placed above them."""

Name = str | list[Any]
"""A mnemonic, or ``[name if the bit is 0, name if it is 1, bit]``, recursively."""


class Selectors:
    """Selectors of one architecture."""

    def __init__(self, bits: Sequence[int], names: Iterable[int]) -> None:
        """``bits``: of the instruction; ``names``: opcodes that several mnemonics share."""
        self.bits = tuple(bits)
        self.split = np.zeros(1 << CODE_BITS, bool)
        """By opcode: whether its codes include selector bits."""
        self.split[list(names)] = True

    def choose(self, codes: NDArray[np.int64], words: Sequence[NDArray[np.int64]]) -> None:
        """Put the selector bits above the opcodes, in place. ``words``: first and second words of the instructions."""
        rows = self.split.take(codes).nonzero()[0]
        for place, bit in enumerate(self.bits):
            codes[rows] |= (words[bit // 64][rows] >> bit % 64 & 1) << CODE_BITS + place


def mnemonic(name: Name, bits: Sequence[int], chosen: int) -> str:
    """Mnemonic for ``chosen``, which packs the values of ``bits``."""
    while not isinstance(name, str):
        name = name[chosen >> bits.index(name[2]) & 1]
    return name


STORE, LOAD = "STL", "LDL"
SHARED = ("STS", "LDS")
NARROW_BITS = 13
_CLASSES = ("fp32", "fp64", "fp16", "fp8", "sfu", "int", "convert", "move", "predicate", "local", "constant", "texture")
_OTHERS = ("LDG", "STG", "ATOMG", "REDG", "RED", "BAR", "MEMBAR", "WARPSYNC", "NANOSLEEP", "NOP")
_BRANCHES = ("BRA", "BSSY", "BSYNC", "BREAK", "EXIT")
_ELSEWHERE = frozenset((*_OTHERS, *_BRANCHES)).union(*(OPCODE_CLASSES[name] for name in _CLASSES))
"""Opcodes that neither access shared memory nor call code that may."""


class Table:
    """Opcode table of one architecture."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.arch: str = document["arch"]
        self.wide: bool = document["word_bits"] == 128
        """Volta and later: an instruction has two words."""
        own_bits = CODE_BITS if self.wide else NARROW_BITS
        self.mask = (1 << own_bits) - 1
        """Bits of a code that are the opcode's own."""
        bits: tuple[int, ...] = tuple(document["selectors"])
        entries = list(_entries(document["opcodes"]))
        runs = [*_runs(entries, bits)]
        shared = [range(begin, end) for begin, end, name, _ in entries if not isinstance(name, str)]
        self.selectors = Selectors(bits, (code for codes in shared for code in codes))
        """Bits that distinguish mnemonics that share an opcode; codes of such opcodes include them."""
        self.names = sorted({mnemonic for _, mnemonic, _ in runs})
        """Mnemonics, sorted; their index is their rank."""
        rank = {name: index for index, name in enumerate(self.names)}
        size = 1 << own_bits << len(bits)
        self.unknown = len(self.names)
        """Rank of every code that is in no table."""
        self.ranks: NDArray[np.int64] = np.full(size, self.unknown, np.int64)
        """Rank by code."""
        self.pairs: dict[tuple[str, int], tuple[str, int]] = {}
        """(mnemonic, instructions) of functions, each once: few are distinct."""
        self.fields: dict[str, NDArray[np.bool_]] = {letter: np.zeros(size, bool) for letter in "dabc"}
        """By register field and code: whether it is one. Unknown codes may have all source fields."""
        for codes, name, letters in runs:
            self.ranks[codes] = rank[name]
            for letter in letters:
                self.fields[letter][codes] = True
        for letter in "abc":
            self.fields[letter] |= self.ranks == self.unknown
        self.store, self.load, self.setting = (
            rank.get(name, self.unknown + 1) for name in (STORE, LOAD, SETS_REGISTERS)
        )
        """Ranks of STL, LDL and USETMAXREG; the one after all others if the table has none."""
        self.is_shared = np.isin([*self.names, ""], SHARED)
        """By rank: STS and LDS."""
        self.private = frozenset(rank for rank, name in enumerate(self.names) if name in _ELSEWHERE)
        """Ranks of mnemonics that neither access shared memory nor call code that may."""
        self.kinds = np.full(len(self.names) + 1, -1)
        """Effect on control flow, by rank (:class:`~spillscan.reading.machine.flow.Kind`); -1: none."""
        for opcode, kind in KINDS.items():
            if opcode.decode() in rank:
                self.kinds[rank[opcode.decode()]] = kind


_Entry = tuple[int, int, Name, str]
"""First opcode, the one after the last, mnemonic, register fields."""


def _entries(entries: dict[str, Any]) -> Iterator[_Entry]:
    for text, (name, letters, _) in entries.items():
        first, _, last = text.partition("-")
        yield int(first, 16), int(last or first, 16) + 1, name, letters


def _runs(entries: Iterable[_Entry], bits: tuple[int, ...]) -> Iterator[tuple[slice, str, str]]:
    """(codes, mnemonic, register fields). A code is longer than its opcode only if that is shared."""
    for begin, end, name, letters in entries:
        for chosen in range(1 if isinstance(name, str) else 1 << len(bits)):
            above = chosen << CODE_BITS
            yield slice(begin + above, end + above), mnemonic(name, bits, chosen), letters


@cache
def table(number: int) -> Table | None:
    """Table of an architecture by its number; ``None`` if none was derived."""
    found = document("opcodes", _SHARED.get(number, number))
    return None if found is None else Table(found)


_SHARED = {52: 50, 53: 50, 61: 60, 62: 60}
"""Architectures that share the table of another, which contains nvdisasm's codes of both."""


def document(folder: str, number: int) -> dict[str, Any] | None:
    """Derived table of one kind for an architecture; ``None`` if none was derived."""
    source = Path(__file__).parent / folder / f"sm_{number}.json"
    return json.loads(source.read_text()) if source.is_file() else None


# Register tables.

ALWAYS = 7
"""Predicate that is always true."""
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


@cache
def registers(number: int, file: str = "R") -> Registers | None:
    """Table of an architecture by its number; ``None`` if none was derived. ``file``: R (general registers), P
    (predicates), U (uniform registers) or Q (uniform predicates)."""
    own = _register_entries(number, file)
    if own is None and file != "R":  # tables of general registers are complete
        own = _register_entries(_KIN.get(number, number), file)
    return None if own is None else Registers(own, FILES.index(file), _width(file, number))


_KIN = {86: 80, 87: 80, 88: 80, 89: 80, 101: 100, 103: 100, 107: 100, 110: 100, 121: 120}
"""Architectures with the same predicate and uniform register fields as another that has a table (verified: sm_86 and
sm_89 against sm_80, sm_103 against sm_100, sm_121 against sm_120: 600, 603, 534 and 575 entries, no class differs)."""


def _register_entries(number: int, file: str) -> dict[str, Any] | None:
    found = document("registers", number) or {}
    tables = found if file == "R" else found.get("others", {}).get(file, {})
    return tables.get("opcodes")
