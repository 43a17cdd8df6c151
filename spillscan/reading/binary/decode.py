"""Machine code of one function: instruction counts by opcode, and details if it uses local memory.

For a function that uses local memory, or spills elsewhere, the relevant instructions are passed to :mod:`machine`,
which also serves the reader of disassembly. Control instructions are read column by column, and only as needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from spillscan.model import Role
from spillscan.reading.binary.tables import ALWAYS, Table
from spillscan.reading.binary.window import Window
from spillscan.reading.binary.words import STACK_POINTER, Code, Flags, Narrow, Wide, Words
from spillscan.reading.machine.flow import Branch, Flow, Kind, Move
from spillscan.reading.machine.function import Analysis, Marked, role_by
from spillscan.reading.machine.instruction import of_word
from spillscan.reading.machine.liveness import INSTRUCTION, Graph
from spillscan.reading.machine.local import StackUse

_HEX = "unknown 0x{:03x}"


class Counts(Struct, frozen=True, gc=False):
    """Instruction counts of one function."""

    instructions: int
    """All instructions, padding included."""
    code_bytes: int
    """Bytes to the end of the last instruction."""
    opcodes: tuple[tuple[str, int], ...]
    """(mnemonic, instructions), by mnemonic; then codes in no table, by hexadecimal number."""
    local: int
    """STL and LDL instructions."""
    unknown: int
    """Instructions whose code is in no table."""
    settings: int
    """USETMAXREG instructions."""
    may_share: bool
    """Whether an instruction may access shared memory, or call code that does."""


Kinds = NDArray[np.uint8]

LOAD, STORE, OTHER = len(Kind), len(Kind) + 1, 255
"""Instruction kinds besides :class:`Kind`: LDL, STL, and those without effect on local memory and control flow."""
PUSHES = (Kind.PUSH_SYNC, Kind.PUSH_BREAK, Kind.PUSH_CONTINUE)
IS_DIRECT = np.isin(np.arange(len(Kind)), (Kind.JUMP, Kind.CALL, *PUSHES))
"""By kind: whether the instruction contains its target, as a relative offset."""
_JUMP = int(Kind.JUMP)
_CALL_RELATIVE = 0x944
"""CALL.REL of Volta and later."""
_SET_REGISTERS = int(Kind.SET_REGISTERS)
_SYNC_SET, _SYNC = 0x945, 0x941
"""Opcodes of BSSY and BSYNC."""
_OPCODE_BITS, _SET_TO_CONSTANT = 0xFFF, 0x9C8
"""Opcode of USETMAXREG with a constant as second source."""


@lru_cache(maxsize=64)
def kinds_of(table: Table) -> Kinds:
    """Instruction kind of each code."""
    kinds = table.kinds.take(table.ranks)
    if table.wide:
        far = np.arange(len(kinds)) & table.mask != _CALL_RELATIVE
        kinds[(kinds == Kind.CALL) & far] = Kind.FAR_CALL
    kinds[kinds < 0] = OTHER
    kinds[table.ranks == table.load] = LOAD
    kinds[table.ranks == table.store] = STORE
    return kinds.astype(np.uint8)


def moves_of(code: Code, rows: Words, kinds: Kinds) -> list[Move]:
    """Control instructions of one function, by row, with their kinds."""
    targets: Words = np.where(IS_DIRECT[kinds], code.targets(rows), -1)
    setting = (kinds == _SET_REGISTERS).nonzero()[0]
    if len(setting):
        plain = code.codes[rows[setting]] & _OPCODE_BITS == _SET_TO_CONSTANT
        targets[setting] = np.where(plain, code.immediates(rows[setting]), -1)
    conditional: Flags = code.guards(rows) != ALWAYS
    jumps = (kinds == _JUMP).nonzero()[0]
    conditional[jumps] |= code.conditions(rows[jumps])
    columns = (code.addresses(rows), targets, kinds, conditional)
    return [*map(Move, *(column.tolist() for column in columns))]


_FRAMES = frozenset({"IADD3", "VIADD", "IADD", "IADD32I", "UIADD3"})
"""Mnemonics that may move the stack pointer by a constant."""

Spills = tuple[int, ...] | None
"""Offsets of annotated instructions; ``None`` if the toolkit writes no annotations."""


class Decoded:
    """Instructions of one function."""

    def __init__(self, window: Window, table: Table, number: int) -> None:
        """``window``: begins with an instruction (Maxwell and Pascal: with a control word); ``number``: of the
        architecture."""
        self.table = table
        self.code: Code = Wide(window, number, table.selectors) if table.wide else Narrow(window, table.selectors)
        self.ranks = table.ranks.take(self.code.codes)

    def part(self, begin: int, end: int) -> Decoded:
        """One function of several that were decoded together: its instructions from offset ``begin`` to ``end``."""
        part = copy(self)
        part.code = self.code.part(begin, end)
        part.ranks = self.ranks[self.code.rows_before(begin) : self.code.rows_before(end)]
        return part

    def counts(self, begin: int, end: int) -> Counts:
        """Counts of the instructions from offset ``begin`` to ``end``."""
        code, table = self.code, self.table
        rows = slice(code.rows_before(begin), code.rows_before(end))
        numbers = np.bincount(self.ranks[rows], minlength=table.unknown + 2)
        by_rank, present = numbers.tolist(), numbers.nonzero()[0].tolist()
        may_share = not table.private.issuperset(present)
        unknown: list[tuple[str, int]] = []
        if by_rank[table.unknown]:
            codes = code.codes[rows][self.ranks[rows] == table.unknown] & table.mask
            unknown = [(_HEX.format(number), count) for number, count in sorted(Counter(codes.tolist()).items())]
            present.pop()
        pairs = [(table.names[rank], by_rank[rank]) for rank in present] + unknown
        return Counts(
            rows.stop - rows.start,
            code.bytes_to(rows.stop - rows.start),
            tuple(map(table.pairs.setdefault, pairs, pairs)),
            local=by_rank[table.store] + by_rank[table.load],
            unknown=by_rank[table.unknown],
            settings=by_rank[table.setting],
            may_share=may_share,
        )

    def shared_among(self, offsets: Sequence[int]) -> int:
        """Number of STS and LDS among the instructions at ``offsets``."""
        if not offsets:
            return 0
        return int(np.count_nonzero(self.table.is_shared[self.ranks[self._rows_at(offsets)]]))

    def _rows_at(self, offsets: Sequence[int]) -> Words:
        """Rows of the instructions at ``offsets``; offsets outside of the function are left out."""
        rows = np.array(offsets, np.int64) // self.code.bytes_per_instruction
        if not self.table.wide:
            rows = rows - rows // 4 - 1
        return rows[(rows >= 0) & (rows < len(self.code.codes))]

    def analysis(self, role: Role, counts: Counts, *, parts: Sequence[tuple[int, str]], spills: Spills) -> Analysis:
        """Analysis of the function's role and its local memory accesses. ``role``: from its symbol; ``parts``: offsets
        of callees in its section, and their names (empty for ptxas's own helpers)."""
        marked = self._marked(spills or ())
        known = role != "unknown"
        return Analysis(
            marked=marked,
            role=role if known else role_by([opcode for opcode, _ in counts.opcodes]),
            last_address=counts.code_bytes - self.code.bytes_per_instruction,
            parts=tuple(begin for begin, _ in parts),
            helpers={begin for begin, symbol in parts if not symbol} if parts else None,
            stack_uses=self._stack_uses(),
            annotations=spills is not None,
        )

    def graph(self, parts: tuple[int, ...], *, function: bool) -> Graph | None:
        """Control-flow graph; ``None`` without instructions, or for 64-bit encodings."""
        code = self.code
        if not isinstance(code, Wide) or not len(code.codes):
            return None
        kinds = kinds_of(self.table).take(self.code.codes)
        moves = moves_of(self.code, (rows := (kinds < LOAD).nonzero()[0]), kinds[rows])
        flow = Flow(moves, last=self.code.bytes_to(len(kinds)) - INSTRUCTION, parts=parts, kernel=not function)
        return Graph(flow, _reconverging(code), len(kinds), function=function)

    @property
    def mnemonics(self) -> list[str]:
        """Mnemonic of each instruction; empty if unknown."""
        names = [*self.table.names, ""]
        return [names[rank] for rank in self.ranks.tolist()]

    def _marked(self, annotated: Sequence[int]) -> Marked:
        """Local memory accesses and control instructions."""
        kinds = kinds_of(self.table).take(self.code.codes)
        rows = (kinds != OTHER).nonzero()[0]
        kinds = kinds[rows]
        is_local = kinds >= LOAD
        touching = rows[is_local]
        addresses = self.code.addresses(touching)
        stores = kinds[is_local] == STORE
        stored, loaded = (self.code.registers(letter, touching) for letter in (self.code.stored, "d"))
        registers = np.where(stores, stored, loaded)
        predicated = self.code.guards(touching) != ALWAYS
        columns = (self.code.local(touching), registers, stores, predicated, np.isin(addresses, annotated))
        local = [*map(of_word, *(column.tolist() for column in columns))]
        return Marked(addresses.tolist(), local, moves_of(self.code, rows[~is_local], kinds[~is_local]))

    def _stack_uses(self) -> Iterator[tuple[int, StackUse]]:
        """Uses of the stack pointer other than by STL and LDL: changes by a constant, and reads."""
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
                yield address, StackUse(taken=True)
            elif table.names[rank] in _FRAMES and not is_variable:
                yield address, StackUse(taken=False, change=amount)


def _reconverging(code: Wide) -> list[Branch]:
    """Edges from each BSYNC to the target of the last BSSY of its barrier before it, if that is further on."""
    opened: dict[int, int] = {}
    found: list[Branch] = []
    codes = code.codes & _OPCODE_BITS
    rows = ((codes == _SYNC_SET) | (codes == _SYNC)).nonzero()[0]
    columns = (codes[rows], code.addresses(rows), code.meetings(rows), code.registers("d", rows))
    for opcode, address, target, barrier in zip(*(column.tolist() for column in columns), strict=True):
        if opcode == _SYNC_SET:
            opened[barrier & 15] = target
        elif opened.get(barrier & 15, 0) > address + INSTRUCTION:
            found.append(Branch(address, opened[barrier & 15], True))
    return found
