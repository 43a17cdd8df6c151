"""Compare the instructions of two functions: equal in equal order, up to one renaming of registers.

The renaming is one-to-one, the same throughout the function, and covers general and uniform registers, predicates,
convergence barriers and scoreboards. It says nothing about memory, timing or reordered code. Everything else in an
instruction's word must be equal: named barriers, stall counts, branch offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spillscan.reading.machine.instruction import FIXED, SCOREBOARDS, Instruction


class Renaming:
    """One-to-one mapping of one function's registers to another's."""

    def __init__(self) -> None:
        self._new: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def add(self, old: int, new: int) -> bool:
        """Record a pair; ``False`` if either already has another partner."""
        if min(old, new) < 0:
            return old == new
        return self._new.setdefault(old, new) == new and self._old.setdefault(new, old) == old

    def covers(self, one: Instruction, other: Instruction) -> bool:
        """Record the registers of two instructions; ``False`` if they contradict earlier ones."""
        alike = [self.add(*pair) for pair in zip(one.registers, other.registers, strict=False)]
        return len(one.registers) == len(other.registers) and all(alike)

    def waits(self, one: Instruction, other: Instruction) -> bool:
        """Whether two instructions wait for the same scoreboards after renaming."""
        waited = [SCOREBOARDS + each for each in range(6) if one.waits >> each & 1]
        return other.waits == sum(1 << self._new.get(each, each) - SCOREBOARDS for each in waited)

    @property
    def is_identity(self) -> bool:
        """Whether all registers have the same name in both functions."""
        return all(old == new for old, new in self._new.items())

    def allows(self, each: Instruction) -> bool:
        """Whether an instruction allows it: it does not call code that depends on its registers, and accesses no
        renamed one without a field."""
        if each.name == "CALL" and (each.target is None or each.reference):
            return False
        first, count = FIXED.get(each.name, (0, 0))
        return all(self._new.get(at, at) == at == self._old.get(at, at) for at in range(first, first + count))


class Compared(NamedTuple):
    """Result of a comparison."""

    differing: Sequence[int]
    """Rows known to differ."""
    unknown: str
    """Why equality is unknown; empty if it is known."""
    renamed: bool
    """Whether registers are renamed."""


def compare(old: Sequence[Instruction], new: Sequence[Instruction], *, function: bool) -> Compared:
    """Compare two functions instruction by instruction. ``function``: they are device functions, whose callers depend
    on their registers."""
    if len(old) != len(new):
        return Compared(range(min(len(old), len(new)), max(len(old), len(new))), "", False)
    renaming, unknown = Renaming(), ""
    differing = []
    for row, (one, other) in enumerate(zip(old, new, strict=True)):
        alike = (one.name, one.reference) == (other.name, other.reference)
        if one.known and other.known:
            alike = alike and one.rest == other.rest and renaming.covers(one, other)
        elif one.word != other.word:
            unknown = unknown or f"unknown instruction {one.name or other.name}".rstrip()
        if not alike:
            differing.append(row)
    differing = differing or [row for row, pair in enumerate(zip(old, new, strict=True)) if not renaming.waits(*pair)]
    renamed = not renaming.is_identity
    if renamed:
        unknown = unknown or next((f"unknown instruction {each.name}".rstrip() for each in old if not each.known), "")
    if renamed and not differing:
        differing = [row for row, each in enumerate(old) if function or not renaming.allows(each)]
    return Compared(differing, unknown, renamed)
