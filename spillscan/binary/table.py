"""Opcode tables, data of ``opcodes/*.json``: which mnemonic a code is, and which of its fields are registers.

Derived by ``fixtures/opcodes.py``; no code is guessed: one that no table knows is counted by its hexadecimal number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillscan.binary.selectors import CODE_BITS, Name, Selectors, asked, mnemonic
from spillscan.machine.moves import KINDS

STORE, LOAD = "STL", "LDL"
SHARED = ("STS", "LDS")
NARROW_BITS = 13


class Table:
    """The codes of one architecture."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.arch: str = document["arch"]
        self.wide: bool = document["word_bits"] == 128
        """Volta and later: an instruction is two words."""
        self.mask = (1 << (CODE_BITS if self.wide else NARROW_BITS)) - 1
        """The opcode's own bits of a code."""
        bits: tuple[int, ...] = tuple(document["selectors"])
        runs = list(_runs(document["opcodes"], bits))
        shared = ((range(begin, end), name) for begin, end, name, _ in _entries(document["opcodes"]) if asked(name))
        self.selectors = Selectors(bits, {code: name for codes, name in shared for code in codes})
        """What tells mnemonics apart that share an opcode; such codes have more than its bits."""
        self.names = sorted({mnemonic for _, mnemonic, _ in runs})
        """Mnemonics, sorted; their index is their rank."""
        rank = {name: index for index, name in enumerate(self.names)}
        size = (1 << CODE_BITS << len(bits)) if self.wide else 1 << NARROW_BITS
        self.unknown = len(self.names)
        """Rank of every code that is in no table."""
        self.ranks: NDArray[np.int64] = np.full(size, self.unknown, np.int64)
        """Rank by code."""
        self.pairs = Pairs(self.names)
        """(mnemonic, instructions) by rank and number."""
        self.fields: dict[str, NDArray[np.bool_]] = {letter: np.zeros(size, bool) for letter in "dabc"}
        """For each register field of a code: whether it is one. Unknown codes may have all that are read."""
        for codes, name, letters in runs:
            self.ranks[codes] = rank[name]
            for letter in letters:
                self.fields[letter][codes] = True
        for letter in "abc":
            self.fields[letter] |= self.ranks == self.unknown
        self.store, self.load = rank.get(STORE, -1), rank.get(LOAD, -1)
        self.local = [rank for rank in (self.store, self.load) if rank >= 0]
        """Ranks of STL and LDL."""
        self.is_shared = np.isin([*self.names, ""], SHARED)
        """By rank: STS and LDS."""
        self.kinds = np.full(len(self.names) + 1, -1)
        """What it does to control, by rank (:class:`~spillscan.machine.moves.Kind`); -1: nothing."""
        for opcode, kind in KINDS.items():
            if opcode.decode() in rank:
                self.kinds[rank[opcode.decode()]] = kind


class Pairs(dict[int, tuple[str, int]]):
    """(mnemonic, instructions) by ``rank << 32 | instructions``. Few are distinct: most kernels share them."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def __reduce__(self) -> tuple[type[Pairs], tuple[list[str]]]:
        return Pairs, (self._names,)  # what was looked up already is no part of it

    def __missing__(self, key: int) -> tuple[str, int]:
        pair = self[key] = self._names[key >> 32], key & 0xFFFFFFFF
        return pair


def _entries(entries: dict[str, Any]) -> Iterator[tuple[int, int, Name, str]]:
    """(first opcode, the one behind the last, mnemonic, register fields)."""
    for text, (name, letters, _) in entries.items():
        first, _, last = text.partition("-")
        yield int(first, 16), int(last or first, 16) + 1, name, letters


def _runs(entries: dict[str, Any], bits: tuple[int, ...]) -> Iterator[tuple[slice, str, str]]:
    """(codes, mnemonic, register fields). A code is more than an opcode only where that is shared."""
    for begin, end, name, letters in _entries(entries):
        for chosen in range(1 if isinstance(name, str) else 1 << len(bits)):
            above = chosen << CODE_BITS
            yield slice(begin + above, end + above), mnemonic(name, bits, chosen), letters


@cache
def table(number: int) -> Table | None:
    """The table of an architecture by its number; ``None`` where nobody has derived one."""
    source = files("spillscan.binary") / "opcodes" / f"sm_{_SHARED.get(number, number)}.json"
    if not source.is_file():
        return None
    return Table(json.loads(source.read_text()))


_SHARED = {52: 50, 53: 50, 61: 60, 62: 60}
"""Architectures whose codes stand in the table of another, which holds what nvdisasm knows of either."""
