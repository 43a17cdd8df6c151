"""Machine code of one function as the record that a dump's reader makes: the instructions that matter for local memory
are given to :mod:`spillscan.sass` in its own terms, so that classes and loop depths have one home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from spillscan.binary.cubin import Function
from spillscan.binary.table import Table
from spillscan.binary.window import DamageError, Window
from spillscan.binary.words import ALWAYS, STACK_POINTER, WIDTHS, ZERO_REGISTER, Code, Flags, Narrow, Wide, Words
from spillscan.model import Origin
from spillscan.sass.code import Code as Listing
from spillscan.sass.headers import Cubin
from spillscan.sass.kept import Marked
from spillscan.sass.local import Access, Target
from spillscan.sass.model import AddressForm, SassFunction, SassStats
from spillscan.sass.moves import Kind, Moves

_FRAMES = frozenset({"IADD3", "VIADD", "IADD", "IADD32I", "UIADD3"})
"""What moves the stack pointer by a constant."""
_HEX = "unknown 0x{:03x}"

MOST_LOOP_WORK = 5_000_000
"""Branches back times branches; 1.3 million is the most seen, in a function of 81,000 instructions."""
MOST_PUSHES = 10_000
"""Maxwell's SSY and its like; 3,080 is the most seen."""

Spills = tuple[int, ...] | None
"""Offsets of annotated instructions; ``None`` where the toolkit writes no annotations."""


def code_of(window: Window, table: Table, number: int) -> Code:
    """The instructions of a function's section."""
    return Wide(window, number, table.selectors) if table.wide else Narrow(window)


class Decoded:
    """One function's instructions, counted."""

    def __init__(self, code: Code, table: Table) -> None:
        self.code = code
        self.table = table
        self.ranks = table.ranks[code.codes]
        self.counts = np.bincount(self.ranks, minlength=table.unknown + 1)

    @property
    def instructions(self) -> int:
        """All, padding included."""
        return len(self.ranks)

    @property
    def code_bytes(self) -> int:
        """To the end of the last instruction."""
        if not len(self.ranks):
            return 0
        last = np.array([len(self.ranks) - 1])
        return int(self.code.addresses(last)[0]) + self.code.bytes_per_instruction

    @property
    def opcodes(self) -> tuple[tuple[str, int], ...]:
        """(mnemonic, instructions); codes that no table knows by their number."""
        names, unknown = self.table.names, self.table.unknown
        known = self.counts[:unknown]
        ranks = known.nonzero()[0]
        found = list(zip(map(names.__getitem__, ranks.tolist()), known[ranks].tolist(), strict=True))
        if self.counts[unknown]:
            codes, counts = np.unique(self.code.codes[self.ranks == unknown] & self.table.mask, return_counts=True)
            found += [(_HEX.format(code), count) for code, count in zip(codes.tolist(), counts.tolist(), strict=True)]
        return tuple(found)

    @property
    def unknown(self) -> int:
        """Instructions whose code is in no table."""
        return int(self.counts[self.table.unknown])

    @property
    def local(self) -> int:
        """STL and LDL."""
        table = self.table
        return int(sum(self.counts[rank] for rank in (table.store, table.load) if rank >= 0))

    def shared_among(self, offsets: Sequence[int]) -> int:
        """How many of the instructions at some offsets are STS or LDS."""
        if not offsets:
            return 0
        rows = self._rows_at(offsets)
        return int(np.isin(self.ranks[rows], self.table.shared).sum())

    def _rows_at(self, offsets: Sequence[int]) -> Words:
        """Instructions by their offsets; what lies outside of the function is left out."""
        rows = np.array(offsets, np.int64) // self.code.bytes_per_instruction
        if not self.table.wide:
            rows = rows - rows // 4 - 1
        return rows[(rows >= 0) & (rows < len(self.ranks))]

    def record(
        self, function: Function, member: Cubin, origin: Origin, *, parts: tuple[int, ...], spills: Spills
    ) -> SassFunction:
        """What the function is. ``parts``: where callees begin in its section."""
        shared = None if spills is None else self.shared_among(spills)
        if not self.local:
            stats = SassStats(
                instructions=self.instructions,
                code_bytes=self.code_bytes,
                opcodes=self.opcodes,
                shared_spills=shared,
                registers=function.registers,
                origin=origin,
            )
            return SassFunction(
                symbol=function.symbol,
                arch=member.arch,
                role=function.role,
                member=member.member,
                identifier=member.identifier,
                stats=stats,
            )
        self._check_flow()
        listing = Listing(function.symbol, member, origin)
        listing.role = function.role
        listing.opcodes = dict(self.opcodes)
        listing.last_address = self.code_bytes - self.code.bytes_per_instruction
        listing.local_count = self.local
        listing.registers = function.registers
        listing.parts = parts
        listing.annotations = spills is not None
        listing.shared_spills = shared or 0
        listing.stack_uses = self._stack_uses
        return listing.record(self._marked(frozenset(spills or ())))

    def _check_flow(self) -> None:
        """Refuse what would take loop analysis minutes: it grows with branches back times branches."""
        rows = self.table.control[self.ranks].nonzero()[0]
        rows = rows[(self.ranks[rows] != self.table.store) & (self.ranks[rows] != self.table.load)]
        back = int((self.code.targets(rows) <= self.code.addresses(rows)).sum())
        pushes = sum(int(self.counts[rank]) for rank in self.table.pushes)
        if back * len(rows) > MOST_LOOP_WORK or pushes > MOST_PUSHES:
            what = f"{len(rows)} branches, {back} of them back: more than a compiler writes"
            raise DamageError(what, self.code.start)

    def _marked(self, annotated: frozenset[int]) -> Marked:
        """Local and control instructions."""
        table = self.table
        rows = table.control[self.ranks].nonzero()[0]
        ranks = self.ranks[rows]
        is_local = (ranks == table.store) | (ranks == table.load)
        accesses = rows[is_local]
        addresses = self.code.addresses(accesses).tolist()
        found = list(self._accesses(accesses, addresses, annotated))
        return Marked(addresses, [None] * len(addresses), found, None, self._moves(rows[~is_local]))

    def _accesses(self, rows: Words, addresses: list[int], annotated: frozenset[int]) -> Iterator[Access]:
        code, table = self.code, self.table
        stores = (self.ranks[rows] == table.store).tolist()
        guarded = (code.guards(rows) != ALWAYS).tolist()
        for address, predicated, store, (base, uniform, offset, width, last_use) in zip(
            addresses, guarded, stores, code.local(rows), strict=True
        ):
            target = _target(base, uniform, offset, width, last_use and not store)
            yield Access(store, predicated, address in annotated, target)

    def _moves(self, rows: Words) -> Moves:
        """What moves control."""
        code, table = self.code, self.table
        kinds = table.kinds[self.ranks[rows]]
        if table.wide:
            near = code.codes[rows] & table.mask == _CALL_RELATIVE
            kinds = np.where((kinds == Kind.CALL) & ~near, Kind.FAR_CALL, kinds)
        direct = np.isin(kinds, _DIRECT)
        conditional = code.guards(rows) != ALWAYS
        jumps = kinds == Kind.JUMP
        conditional[jumps] |= code.conditions(rows[jumps])
        return Moves(code.addresses(rows), np.where(direct, code.targets(rows), -1), kinds, conditional)

    def _stack_uses(self) -> Iterator[tuple[int, bytes]]:
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
                yield address, b" R0, R1"
            elif self.table.names[int(self.ranks[row])] in _FRAMES and not table.fields["b"][codes[row]]:
                yield address, b" R1, R1, %s%#x" % (b"-" if amount < 0 else b"", abs(amount))


_CALL_RELATIVE = 0x944
_DIRECT = (Kind.JUMP, Kind.CALL, Kind.PUSH_SYNC, Kind.PUSH_BREAK, Kind.PUSH_CONTINUE)
"""What has its target in the instruction, relative to it."""


@lru_cache(maxsize=1 << 16)
def _target(base: int, uniform: int, offset: int, width: int, last_use: bool) -> Target:
    """What an access touches, by its fields."""
    slot = None
    form: AddressForm
    if uniform >= 0:
        form = "uniform" if base == ZERO_REGISTER else "register+uniform"
    elif base == STACK_POINTER:
        form, slot = "stack", offset
    else:
        form = "absolute" if base == ZERO_REGISTER else "register"
    return Target(int(WIDTHS[width]), form, slot, last_use)
