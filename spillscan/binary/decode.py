"""Machine code of one function as the record that a dump's reader makes: the instructions that matter for local memory
are given to :mod:`spillscan.sass` in its own terms, so that classes and loop depths have one home.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from spillscan.binary.cubin import Function
from spillscan.binary.table import Table
from spillscan.binary.window import DamageError, Window
from spillscan.binary.words import ALWAYS, STACK_POINTER, ZERO_REGISTER, Code, Flags, Narrow, Wide, Words
from spillscan.model import Origin
from spillscan.sass import flow
from spillscan.sass.code import ANNOTATION, Cubin, Instruction, Marked
from spillscan.sass.code import Code as Listing
from spillscan.sass.loops import Control
from spillscan.sass.model import SassFunction, SassStats

_MODIFIERS = (b".U8", b".S8", b".U16", b".S16", b"", b".64", b".128", b".256")
_FRAMES = frozenset({"IADD3", "VIADD", "IADD", "IADD32I", "UIADD3"})
"""What moves the stack pointer by a constant."""
_HEX = "unknown 0x{:03x}"

MOST_LOOP_WORK = 20_000_000
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
        found = [(names[rank], count) for rank, count in zip(ranks.tolist(), known[ranks].tolist(), strict=True)]
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
        listing.marked.append(lambda: self._marked(frozenset(spills or ())))
        listing.stack_uses = self._stack_uses
        return listing.record()

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
        code, table = self.code, self.table
        rows = table.control[self.ranks].nonzero()[0]
        ranks = self.ranks[rows]
        is_local = (ranks == table.store) | (ranks == table.load)
        is_jump = ranks == table.jump
        lines = [*self._accesses(rows[is_local], annotated), *self._others(rows[~is_local & ~is_jump])]
        jumps = rows[is_jump]
        conditional = code.conditions(jumps) | (code.guards(jumps) != ALWAYS)
        addresses, targets = code.addresses(jumps).tolist(), code.targets(jumps).tolist()
        controls = list(map(Control, addresses, targets, conditional.tolist()))
        return Marked(lines, controls)

    def _accesses(self, rows: Words, annotated: frozenset[int]) -> Iterator[Instruction]:
        code, table = self.code, self.table
        stores = (self.ranks[rows] == table.store).tolist()
        for address, guard, store, (base, uniform, offset, width, last_use) in zip(
            code.addresses(rows).tolist(), code.guards(rows).tolist(), stores, code.local(rows), strict=True
        ):
            modifiers = (b".LU" if last_use and not store else b"") + _MODIFIERS[width]
            note = ANNOTATION if address in annotated else b""
            opcode = b"STL" if store else b"LDL"
            yield b"%04x" % address, _guard(guard), opcode, modifiers, _place(base, uniform, offset), note, None, None

    def _others(self, rows: Words) -> Iterator[Instruction]:
        """What moves control, jumps apart."""
        code, names = self.code, self.table.names
        columns = rows, code.addresses(rows), code.guards(rows), code.targets(rows)
        for row, address, guard, target in zip(*(column.tolist() for column in columns), strict=True):
            opcode = names[int(self.ranks[row])].encode()
            operands = b" %#x" % target if self._is_direct(row, opcode) and target >= 0 else b""
            yield b"%04x" % address, _guard(guard), opcode, b"", operands, b"", None, None

    def _is_direct(self, row: int, opcode: bytes) -> bool:
        """Whether its target stands in the instruction, relative to it."""
        if opcode in flow.CALLS and self.table.wide:
            return int(self.code.codes[row]) & self.table.mask == _CALL_RELATIVE
        return opcode in _DIRECT

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
_DIRECT = frozenset({b"CAL", b"SSY", b"PBK", b"PCNT"})


def _guard(field: int) -> bytes:
    if field == ALWAYS:
        return b""
    name = b"PT" if field & 7 == ALWAYS else b"P%d" % (field & 7)
    return b"@" + (b"!" if field & 8 else b"") + name + b" "


def _place(base: int, uniform: int, offset: int) -> bytes:
    """``[R1+0x44]`` as printed."""
    parts = [b"R%d" % base] if base != ZERO_REGISTER else []
    if uniform >= 0:
        parts.append(b"UR%d" % uniform)
    if offset or not parts:
        parts.append(b"-%#x" % -offset if offset < 0 else b"%#x" % offset)
    return b" [" + b"+".join(parts) + b"]"
