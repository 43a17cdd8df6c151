"""Machine code of one function that uses local memory, or has spills elsewhere: the instructions that matter are given
to :mod:`spillscan.sass` in its own terms, as a dump's reader does, so that classes and loop depths have one home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spillscan.binary.counts import Counts, code_of
from spillscan.binary.cubin import Function
from spillscan.binary.table import Table
from spillscan.binary.window import DamageError
from spillscan.binary.words import ALWAYS, STACK_POINTER, Flags, Words
from spillscan.model import Origin, Role
from spillscan.sass.code import Code as Listing
from spillscan.sass.headers import Cubin
from spillscan.sass.kept import Marked
from spillscan.sass.local import ANNOTATED, PREDICATED, STORE
from spillscan.sass.model import LocalTraffic
from spillscan.sass.moves import Kind, Moves
from spillscan.sass.pointer import Plain, StackUse

_FRAMES = frozenset({"IADD3", "VIADD", "IADD", "IADD32I", "UIADD3"})
"""What moves the stack pointer by a constant."""

_NOWHERE = Origin(input="")
"""Where a function was read is for its record to say."""
MOST_LOOP_WORK = 5_000_000
"""Branches back times branches; 1.3 million is the most seen, in a function of 81,000 instructions."""
MOST_PUSHES = 10_000
"""Maxwell's SSY and its like; 3,080 is the most seen."""

Spills = tuple[int, ...] | None
"""Offsets of annotated instructions; ``None`` where the toolkit writes no annotations."""


class Decoded:
    """One function's instructions, by opcode."""

    def __init__(self, function: Function, table: Table, number: int) -> None:
        self.code = code_of(function.code, table, number)
        self.table = table
        self.ranks: Words = table.ranks.take(self.code.codes)

    def shared_among(self, offsets: Sequence[int]) -> int:
        """How many of the instructions at some offsets are STS or LDS."""
        if not offsets:
            return 0
        rows = self._rows_at(offsets)
        return int(self.table.is_shared[self.ranks[rows]].sum())

    def _rows_at(self, offsets: Sequence[int]) -> Words:
        """Instructions by their offsets; what lies outside of the function is left out."""
        rows = np.array(offsets, np.int64) // self.code.bytes_per_instruction
        if not self.table.wide:
            rows = rows - rows // 4 - 1
        return rows[(rows >= 0) & (rows < len(self.ranks))]

    def local(
        self, function: Function, counts: Counts, member: Cubin, *, parts: tuple[int, ...], spills: Spills
    ) -> tuple[Role, LocalTraffic]:
        """What the function is, and its accesses to local memory. ``parts``: where callees begin in its section.

        Raises :class:`DamageError` where its branches are more than a compiler writes.
        """
        marked = self._marked(spills or ())
        self._check(marked.moves)
        listing = Listing(function.symbol, member, _NOWHERE)
        listing.role = function.role
        if function.role == "unknown":  # they decide
            listing.opcodes = dict(counts.opcodes)
        listing.last_address = counts.code_bytes - self.code.bytes_per_instruction
        listing.parts = parts
        listing.annotations = spills is not None
        listing.stack_uses = self._stack_uses
        return listing.judged(marked)

    def _check(self, moves: Moves) -> None:
        """Refuse what would take loop analysis minutes: it grows with branches back times branches."""
        branches, pushes = len(moves.kinds), int(_IS_PUSH[moves.kinds].sum())
        back = int(((moves.targets >= 0) & (moves.targets <= moves.addresses)).sum())
        if back * branches > MOST_LOOP_WORK or pushes > MOST_PUSHES:
            raise DamageError(f"{branches} branches, {back} of them back: more than a compiler writes", self.code.start)

    def _marked(self, annotated: Sequence[int]) -> Marked:
        """Local and control instructions."""
        table = self.table
        rows = table.control.take(self.ranks).nonzero()[0]
        ranks = self.ranks[rows]
        is_local = (ranks == table.store) | (ranks == table.load)
        accesses = rows[is_local]
        addresses = self.code.addresses(accesses)
        fields = self.code.local(accesses) & ~_UNIFORM_REGISTER | (ranks[is_local] == table.store) * STORE
        fields |= (self.code.guards(accesses) != ALWAYS) * PREDICATED
        if annotated:
            ordered = np.sort(np.array((*annotated, -1), np.int64))
            fields |= (ordered[np.searchsorted(ordered, addresses, side="right") - 1] == addresses) * ANNOTATED
        return Marked(addresses, None, fields, None, self._moves(rows[~is_local]))

    def _moves(self, rows: Words) -> Moves:
        """What moves control."""
        code, table = self.code, self.table
        kinds = table.kinds[self.ranks[rows]]
        if table.wide:
            near = code.codes[rows] & table.mask == _CALL_RELATIVE
            kinds = np.where((kinds == Kind.CALL) & ~near, Kind.FAR_CALL, kinds)
        direct = _IS_DIRECT[kinds]
        conditional = code.guards(rows) != ALWAYS
        jumps = kinds == Kind.JUMP
        conditional[jumps] |= code.conditions(rows[jumps])
        return Moves(code.addresses(rows), np.where(direct, code.targets(rows), -1), kinds, conditional)

    def _stack_uses(self) -> Iterator[tuple[int, StackUse]]:
        """What names the stack pointer, STL and LDL apart: changes of it by a constant, and what reads it."""
        code, table = self.code, self.table
        rows = np.arange(len(self.ranks))
        codes = code.codes
        local = (self.ranks == table.store) | (self.ranks == table.load)
        named: Flags = np.zeros(len(rows), bool)
        for letter in "abc":
            named |= table.fields[letter][codes] & (code.registers(letter, rows) == STACK_POINTER)
        written = table.fields["d"][codes] & (code.registers("d", rows) == STACK_POINTER)
        rows = rows[named & ~local]
        amounts = code.immediates(rows).tolist()
        for row, address, amount in zip(rows.tolist(), code.addresses(rows).tolist(), amounts, strict=True):
            if not written[row]:
                yield address, Plain(taken=True)
            elif self.table.names[int(self.ranks[row])] in _FRAMES and not table.fields["b"][codes[row]]:
                yield address, Plain(taken=False, change=amount)


_CALL_RELATIVE = 0x944
_PUSHES = (Kind.PUSH_SYNC, Kind.PUSH_BREAK, Kind.PUSH_CONTINUE)
_IS_PUSH = np.isin(np.arange(len(Kind)), _PUSHES)
"""By kind."""
_IS_DIRECT = np.isin(np.arange(len(Kind)), (Kind.JUMP, Kind.CALL, *_PUSHES))
"""By kind: what has its target in the instruction, relative to it."""

_UNIFORM_REGISTER = 0xFF00
"""Which one it is: of the fields of :class:`~spillscan.binary.words.LocalFields` the only that nobody asks for."""
