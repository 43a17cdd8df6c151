"""Machine code of one function that uses local memory, or has spills elsewhere: the instructions that matter are given
to :mod:`spillscan.dumps` in its own terms, as a dump's reader does, so that classes and loop depths have one home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spillscan.binary.branches import IS_DIRECT, LOAD, OTHER, PUSHES, STORE, Branches, Text, kinds_of
from spillscan.binary.counts import Counts
from spillscan.binary.cubin import Function
from spillscan.binary.table import Table
from spillscan.binary.window import DamageError
from spillscan.binary.words import ALWAYS, STACK_POINTER, Code, Flags, Words
from spillscan.dumps.headers import Cubin
from spillscan.machine import local
from spillscan.machine.function import Code as Listing
from spillscan.machine.kept import Marked
from spillscan.machine.moves import AnyMoves, Kind
from spillscan.machine.pointer import Plain, StackUse
from spillscan.model import Origin, Role
from spillscan.model.code import LocalTraffic

_FRAMES = frozenset({"IADD3", "VIADD", "IADD", "IADD32I", "UIADD3"})
"""What moves the stack pointer by a constant."""

_NOWHERE = Origin(input="")
"""Where a function was read is for its record to say."""
MOST_LOOP_WORK = 5_000_000
"""Branches back times branches; 1.3 million is the most seen, in a function of 81,000 instructions."""
MOST_PUSHES = 10_000
"""Maxwell's SSY and its like; 3,080 is the most seen."""

_FEW = 2000
"""Branches: were all of them back, or pushes, it were not too many."""

Spills = tuple[int, ...] | None
"""Offsets of annotated instructions; ``None`` where the toolkit writes no annotations."""


class Decoded:
    """One function's instructions, by opcode."""

    def __init__(self, function: Function, stretch: Code, table: Table, number: int) -> None:
        self.code = stretch.part(function.code.start - stretch.start, function.code.size)
        self.table = table
        self._text = Text(function.code, number, self.code)

    def shared_among(self, offsets: Sequence[int]) -> int:
        """How many of the instructions at some offsets are STS or LDS."""
        if not offsets:
            return 0
        codes = self.code.codes[self._rows_at(offsets)]
        return int(np.count_nonzero(self.table.is_shared[self.table.ranks[codes]]))

    def _rows_at(self, offsets: Sequence[int]) -> Words:
        """Instructions by their offsets; what lies outside of the function is left out."""
        rows = np.array(offsets, np.int64) // self.code.bytes_per_instruction
        if not self.table.wide:
            rows = rows - rows // 4 - 1
        return rows[(rows >= 0) & (rows < len(self.code.codes))]

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

    def _check(self, moves: AnyMoves) -> None:
        """Refuse what would take loop analysis minutes: it grows with branches back times branches."""
        branches = len(moves.kinds)
        if branches <= _FEW:
            return
        kinds = np.bincount(moves.kinds, minlength=len(Kind))
        direct, pushes, back = int(kinds[IS_DIRECT].sum()), int(kinds[[*PUSHES]].sum()), 0
        if direct * branches > MOST_LOOP_WORK:
            back = int(((moves.targets >= 0) & (moves.targets <= moves.addresses)).sum())
        if back * branches > MOST_LOOP_WORK or pushes > MOST_PUSHES:
            raise DamageError(f"{branches} branches, {back} of them back: more than a compiler writes", self.code.start)

    def _marked(self, annotated: Sequence[int]) -> Marked:
        """Local and control instructions."""
        kinds = kinds_of(self.table).take(self.code.codes)
        rows = (kinds != OTHER).nonzero()[0]
        kinds = kinds[rows]
        is_local = kinds >= LOAD
        accesses = rows[is_local]
        addresses = self.code.addresses(accesses)
        fields = self.code.local(accesses)
        fields |= (kinds[is_local] == STORE) * local.STORE | (self.code.guards(accesses) != ALWAYS) * local.PREDICATED
        if annotated:
            ordered = np.sort(np.array((*annotated, -1), np.int64))
            fields |= (ordered[ordered.searchsorted(addresses, side="right") - 1] == addresses) * local.ANNOTATED
        branches = Branches(self._text, rows[~is_local], kinds[~is_local])
        return Marked(addresses, None, fields, None, branches)

    def _stack_uses(self) -> Iterator[tuple[int, StackUse]]:
        """What names the stack pointer, STL and LDL apart: changes of it by a constant, and what reads it."""
        code, table = self.code, self.table
        rows = code.naming(STACK_POINTER)
        codes = code.codes[rows]
        kinds = kinds_of(table)[codes]
        named: Flags = np.zeros(len(rows), bool)
        for letter in "abc":
            named |= table.fields[letter][codes] & (code.registers(letter, rows) == STACK_POINTER)
        found = (named & (kinds != LOAD) & (kinds != STORE)).nonzero()[0]
        rows, codes = rows[found], codes[found]
        written = table.fields["d"][codes] & (code.registers("d", rows) == STACK_POINTER)
        for address, rank, is_written, is_variable, amount in zip(
            code.addresses(rows).tolist(),
            table.ranks[codes].tolist(),
            written.tolist(),
            table.fields["b"][codes].tolist(),
            code.immediates(rows).tolist(),
            strict=True,
        ):
            if not is_written:
                yield address, Plain(taken=True)
            elif table.names[rank] in _FRAMES and not is_variable:
                yield address, Plain(taken=False, change=amount)
