"""Instructions that move control, read from machine code column by column, as far as somebody asks.

Of most functions nobody asks where each branch goes: that decides the loops around an instruction, and these are looked
for when somebody looks at them, long after the code is gone. So the words of these instructions are kept.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.binary.counts import code_of
from spillscan.binary.table import Table, table
from spillscan.binary.window import Window
from spillscan.binary.words import ALWAYS, Code, Flags, Words
from spillscan.machine.moves import Kind, Moves

Kinds = NDArray[np.uint8]

LOAD, STORE, OTHER = len(Kind), len(Kind) + 1, 255
"""What an instruction may be besides a :class:`~spillscan.machine.moves.Kind`: LDL, STL, what neither touches local
memory nor moves control."""
PUSHES = (Kind.PUSH_SYNC, Kind.PUSH_BREAK, Kind.PUSH_CONTINUE)
IS_DIRECT = np.isin(np.arange(len(Kind)), (Kind.JUMP, Kind.CALL, *PUSHES))
"""By kind: what has its target in the instruction, relative to it."""
_JUMP = int(Kind.JUMP)
_CALL_RELATIVE = 0x944
"""Volta and later."""


@lru_cache(maxsize=64)
def kinds_of(table: Table) -> Kinds:
    """What the instructions of each code are."""
    kinds = table.kinds.take(table.ranks)
    if table.wide:
        far = np.arange(len(kinds)) & table.mask != _CALL_RELATIVE
        kinds[(kinds == Kind.CALL) & far] = Kind.FAR_CALL
    kinds[kinds < 0] = OTHER
    kinds[table.ranks == table.load] = LOAD
    kinds[table.ranks == table.store] = STORE
    return kinds.astype(np.uint8)


class Text(NamedTuple):
    """The code of one function."""

    window: Window
    number: int
    """Of its architecture."""
    code: Code


class Branches:
    """Some instructions of one function; for the columns see :class:`~spillscan.machine.moves.Moves`."""

    def __init__(self, text: Text, rows: Words, kinds: Kinds) -> None:
        self.kinds = kinds
        self._text = text
        self._rows = rows

    @cached_property
    def addresses(self) -> Words:
        """Byte offsets."""
        return self._text.code.addresses(self._rows)

    @cached_property
    def targets(self) -> Words:
        """Where each goes; -1: the instruction does not say."""
        return np.where(IS_DIRECT[self.kinds], self._text.code.targets(self._rows), -1)

    @cached_property
    def conditional(self) -> Flags:
        """A predicate decides."""
        found: Flags = self._text.code.guards(self._rows) != ALWAYS
        jumps = (self.kinds == _JUMP).nonzero()[0]
        if len(jumps):
            found[jumps] |= self._text.code.conditions(self._rows[jumps])
        return found

    def at(self, which: NDArray[np.int64]) -> Branches:
        """Those of some numbers."""
        return Branches(self._text, self._rows[which], self.kinds[which])

    def keep(self) -> Excerpt | Moves:
        """What they are, without the code around them."""
        window, number, code = self._text
        size = code.group_bytes
        per_group = code.rows_before(size)
        groups = self._rows if per_group == 1 else self._rows // per_group
        if len(groups) and groups[-1] >= window.size // size:  # in a part of a group
            return Moves(self.addresses, self.targets, self.kinds, self.conditional)
        words = window.array(_WORD, window.size // size * (size // _WORD.itemsize), 0, "code")
        chosen = words.reshape(-1, size // _WORD.itemsize).take(groups, axis=0)
        return Excerpt(chosen.tobytes(), self._rows.astype(np.int32).tobytes(), self.kinds.tobytes(), number)


_WORD = np.dtype("<i8")


class Excerpt(NamedTuple):
    """The branches of one function: a group of words for each, and which instruction of the function it was."""

    words: bytes
    rows: bytes
    """32 bits each."""
    kinds: bytes
    number: int
    """Of the architecture."""

    def moves(self) -> Moves:
        """What they are."""
        opcodes = table(self.number)
        assert opcodes  # it was read by one
        window = Window(self.words)
        code = code_of(window, opcodes, self.number)
        rows, per_group = np.frombuffer(self.rows, np.int32).astype(np.int64), code.rows_before(code.group_bytes)
        here = np.arange(len(rows))
        found = Branches(
            Text(window, self.number, code),
            here * per_group + rows % per_group,
            np.frombuffer(self.kinds, np.uint8),
        )
        moved = (rows // per_group - here) * code.group_bytes
        targets = np.where(IS_DIRECT[found.kinds], found.targets + moved, found.targets)
        return Moves(found.addresses + moved, targets, found.kinds, found.conditional)
