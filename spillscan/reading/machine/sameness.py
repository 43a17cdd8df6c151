"""Compare the instructions of two functions: equal in equal order, up to one renaming of registers.

The renaming is one-to-one, the same throughout the function, and covers general and uniform registers, predicates,
convergence barriers and scoreboards. It says nothing about memory, timing or reordered code. Everything else in an
instruction's word must be equal: named barriers, stall counts, branch offsets.
"""

from __future__ import annotations

from collections.abc import Sequence

from spillscan.reading.machine.instruction import FIXED, SCOREBOARDS, Instruction

_ALL_SCOREBOARDS = range(6)


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
        alike = [self.add(*names) for names in zip(one.names, other.names, strict=False)]
        return len(one.names) == len(other.names) and all(alike)

    @property
    def is_identity(self) -> bool:
        """Whether all registers have the same name in both functions."""
        return all(old == new for old, new in self._new.items())

    def keeps(self, first: int, count: int) -> bool:
        """Whether each of ``count`` registers keeps its name."""
        return all(
            self._new.get(each, each) == each == self._old.get(each, each) for each in range(first, first + count)
        )

    def waits(self, old: int, new: int) -> bool:
        """Whether two masks of scoreboards are equal after renaming."""
        return new == sum(1 << self._named(each) for each in _ALL_SCOREBOARDS if old >> each & 1)

    def _named(self, scoreboard: int) -> int:
        return self._new.get(SCOREBOARDS + scoreboard, SCOREBOARDS + scoreboard) - SCOREBOARDS


class Compared:
    """Result of a comparison: differing rows, and why equality is unknown."""

    def __init__(self, differing: Sequence[int], unknown: str, renamed: bool) -> None:
        self.differing = differing
        """Rows known to differ."""
        self.unknown = unknown
        """Why equality is unknown; empty if it is known."""
        self.renamed = renamed
        """Whether registers are renamed."""


def compare(old: Sequence[Instruction], new: Sequence[Instruction], *, function: bool) -> Compared:
    """Compare two functions instruction by instruction. ``function``: they are device functions, whose callers depend
    on their registers."""
    if len(old) != len(new):
        return Compared(range(min(len(old), len(new)), max(len(old), len(new))), "", False)
    pairs = list(zip(old, new, strict=True))
    renaming, unknown = Renaming(), ""
    differing = []
    for row, (one, other) in enumerate(pairs):
        if one.known and other.known:
            alike = (one.rest, one.reference) == (other.rest, other.reference) and renaming.covers(one, other)
        else:
            unknown = unknown or f"unknown instruction {one.name or other.name}".rstrip()
            alike = (one.rest, one.reference) == (other.rest, other.reference) or one.known != other.known
        if not alike:
            differing.append(row)
    differing = differing or [
        row for row, (one, other) in enumerate(pairs) if not renaming.waits(one.waits, other.waits)
    ]
    renamed = not renaming.is_identity
    if renamed and not differing:
        differing = [row for row, each in enumerate(old) if function or not _may_rename(each, renaming)]
    certain = not renamed and all(one.word == other.word for one, other in pairs)
    return Compared(differing, "" if certain else unknown, renamed)


def _may_rename(each: Instruction, renaming: Renaming) -> bool:
    """Whether an instruction allows the renaming: it does not call code that depends on its registers, and accesses no
    renamed one without a field."""
    if each.name == "CALL" and (each.target is None or each.reference):
        return False
    return each.name not in FIXED or renaming.keeps(*FIXED[each.name])
