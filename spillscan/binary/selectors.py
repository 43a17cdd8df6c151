"""Bits beside the opcode that tell mnemonics apart which share it. They are looked up only where they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CODE_BITS = 12
"""The opcode's own; what selectors choose stands above them."""
_MOST_BITS = 12
"""From the first bit of a group to its last: the table of what they choose is this large."""

Name = str | list[Any]
"""A mnemonic, or ``[where the bit is 0, where it is 1, bit]``, and so on."""


class _Group(NamedTuple):
    """Bits that stand near each other in one word of an instruction."""

    word: int
    """0: the first, 1: the second."""
    lowest: int
    """Of them, in the word."""
    mask: int
    """From the lowest to the highest."""
    chosen: NDArray[np.int64]
    """What is above the opcode, by these bits."""
    telling: NDArray[np.bool_]
    """By opcode: whether one of them tells its mnemonic."""


class Selectors:
    """Those of one architecture."""

    def __init__(self, bits: Sequence[int], names: Mapping[int, Name]) -> None:
        """``bits``: of the instruction; ``names``: of the opcodes that several mnemonics share."""
        self.bits = tuple(bits)
        self.split = np.zeros(1 << CODE_BITS, bool)
        """By opcode: whether its instructions have them above it."""
        self.split[list(names)] = True
        self._groups = [self._group(near, names) for near in _near(self.bits)]

    def _group(self, near: Sequence[int], names: Mapping[int, Name]) -> _Group:
        span = near[-1] - near[0] + 1
        values, chosen = np.arange(1 << span), np.zeros(1 << span, np.int64)
        for bit in near:
            chosen |= (values >> (bit - near[0]) & 1) << (CODE_BITS + self.bits.index(bit))
        telling = np.zeros(1 << CODE_BITS, bool)
        telling[[code for code, name in names.items() if asked(name) & {*near}]] = True
        return _Group(near[0] // 64, near[0] % 64, (1 << span) - 1, chosen, telling)

    def choose(self, codes: NDArray[np.int64], words: Sequence[NDArray[np.int64]]) -> None:
        """Put what they choose above opcodes. ``words``: the first and second ones of the instructions."""
        rows = np.flatnonzero(self.split.take(codes))
        opcodes = codes[rows]
        for word, lowest, mask, chosen, telling in self._groups:
            mine = rows[telling.take(opcodes)]
            if len(mine):
                codes[mine] |= chosen.take(words[word][mine] >> lowest & mask)


def asked(name: Name) -> set[int]:
    """The bits that tell a mnemonic."""
    return set() if isinstance(name, str) else {name[2]} | asked(name[0]) | asked(name[1])


def mnemonic(name: Name, bits: Sequence[int], chosen: int) -> str:
    """The one that ``chosen`` tells, in which the bits stand one behind the other."""
    while not isinstance(name, str):
        name = name[chosen >> bits.index(name[2]) & 1]
    return name


def _near(bits: Sequence[int]) -> list[list[int]]:
    """Groups of bits in one word that are no further apart than :data:`_MOST_BITS`."""
    groups: list[list[int]] = []
    for bit in sorted(bits):
        if groups and bit // 64 == groups[-1][0] // 64 and bit - groups[-1][0] < _MOST_BITS:
            groups[-1].append(bit)
        else:
            groups.append([bit])
    return groups
