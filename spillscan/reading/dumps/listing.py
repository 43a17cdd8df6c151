"""One function of a dump while it is read, whichever reader reads it, and the record that it becomes at its end.

Lines that matter for local memory, accesses to it and what moves control, are kept as text until their function ends,
and read only where it does use local memory. Lines that differ only in a number are few: each such form is read once,
by the grammar; the targets are taken from their columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from spillscan.model import Issue, Origin, Role
from spillscan.model.code import (
    NO_TRAFFIC,
    SETS_REGISTERS,
    LivePeak,
    SassFunction,
    SassStats,
    SourceLine,
    WarpRole,
)
from spillscan.reading import grammar
from spillscan.reading.dumps.common import DumpAccount, decode
from spillscan.reading.machine import flow, local
from spillscan.reading.machine.flow import KINDS, NO_MOVES, Moves, offset
from spillscan.reading.machine.function import WORD, Analysis, Marked, instruction_bytes, role_by
from spillscan.reading.machine.local import Access, StackUse

if TYPE_CHECKING:
    from spillscan.reading.machine.operands import OperandReader, Wanted

LOCAL = frozenset({b"STL", b"LDL"})
MARKED = LOCAL | KINDS.keys()
"""Opcodes of the lines that matter for local memory."""
ANNOTATION = b"SpillRefill"
STORE = b"STL"

Instruction = tuple[bytes, bytes, bytes, bytes, bytes, bytes, int | None, SourceLine | None]
"""A line that matters for local memory: address, predicate, opcode, modifiers, operands and remark as printed, the line
of the dump, the source line."""

_U = np.uint64
_WORD = 8
_HEAD = b"        /*0000*/ "
"""What makes a kept text an instruction line again."""


class KeptRows(Struct, frozen=True, kw_only=True):
    """Some rows of a block."""

    texts: NDArray[np.void]
    """From the predicate's window up to the encoding."""
    addresses: NDArray[np.int64]
    """Byte offsets in the function."""
    lines: NDArray[np.int64]
    """Of the dump, 1-based."""
    local: NDArray[np.bool_]
    """Accesses to local memory; the others move control."""


class Piece(NamedTuple):
    """Those of one function."""

    kept: KeptRows
    begin: int
    end: int


class Member(NamedTuple):
    """The cubin of a dump that a function stands in."""

    number: int = 0
    """Of the cubins of the dump; -1 before the first."""
    arch: str | None = None
    identifier: str = ""
    object: str = ""
    """``libgemm.a:gemm.o`` of a static library."""

    @property
    def unit(self) -> str:
        """The object that holds it, without its archive."""
        return self.object.rpartition(":")[2]

    def after(self, rule: str, values: Sequence[bytes]) -> Member:
        """What is known behind a line of this rule of `cuobjdump`'s grammars."""
        if rule == "member":
            return self._replace(object=decode(values[0]))
        if rule == "image":
            return Member(self.number + (values[0] == b"elf"), object=self.object)
        if rule == "field" and values[0] == b"arch":
            return self._replace(arch=decode(values[1]))
        if rule == "field" and values[0] == b"identifier":
            return self._replace(identifier=decode(values[1]))
        if rule == "code_for":
            return self._replace(number=max(self.number, 0), arch=decode(values[0]))
        return self


BEFORE_ALL = Member(-1)
"""No cubin has begun."""


def _no_uses() -> Iterator[tuple[int, StackUse]]:
    return iter(())


class Listing:
    """What is known of a function so far."""

    role: Role = "unknown"
    tally: Any = None
    """Rows by opcode number, of the row scanner."""
    last_address = 0
    local_count = 0
    stack_uses: Callable[[], Iterator[tuple[int, StackUse]]] = staticmethod(_no_uses)
    """(address, operands) of the instructions other than STL and LDL that name R1; called only where it decides."""
    disordered = False
    """An instruction stands before one with a smaller address."""
    obscure = False
    """It accesses local memory at an address that is not understood."""
    annotations = False
    shared_spills = 0
    registers: int | None = None
    live_peak: LivePeak | None = None
    operands: OperandReader | None = None
    """Set where it was asked what the operands name."""
    labels: Mapping[bytes, int] = MappingProxyType({})
    parts: tuple[int, ...] = ()
    """Where callees begin in the same listing, if the dump says so; else the targets of its calls."""

    def __init__(self, symbol: str, member: Member, origin: Origin, asked: Wanted | None = None) -> None:
        """``asked``: whether the operands of the function of a symbol are to be read."""
        self.symbol = symbol
        self.member = member
        self.origin = origin
        self.opcodes: Counter[str] = Counter()
        self.pieces: list[Piece | Sequence[Instruction]] = []
        """What accesses local memory and what moves control, by the way it was read."""
        if asked and asked(symbol):
            from spillscan.reading.machine.operands import OperandReader

            self.operands = OperandReader(member.arch)

    def reach(self, addresses: Sequence[int]) -> None:
        """Instructions stand at these addresses, behind those before; called before they are counted."""
        ordered = pairwise([self.last_address, *addresses] if self.opcodes or self.tally is not None else addresses)
        self.disordered |= any(one >= other for one, other in ordered)
        self.last_address = addresses[-1]

    def record(self, marked: Marked | None) -> SassFunction:
        """What the function is. ``marked`` is what its pieces say; ``None`` where nothing needs it."""
        role, traffic, operands, arch = self._role(), NO_TRAFFIC, None, self.member.arch
        roles: tuple[WarpRole, ...] = ()
        if marked is not None:
            code = Analysis(
                marked=marked,
                role=role,
                last_address=self.last_address,
                parts=self.parts,
                stack_uses=self.stack_uses(),
                annotations=self.annotations,
            )
            self.obscure = bool((marked.accesses & local.NOT_UNDERSTOOD).any())
            if self.local_count:
                role, traffic = code.role, code.traffic()
            roles = code.roles()
            if self.operands:
                operands = self.operands.result(code.depths(self.operands.conflicts))
        end = self.last_address + instruction_bytes(arch, self.last_address) if self.opcodes else 0
        return SassFunction(
            symbol=self.symbol,
            arch=arch,
            role=role,
            member=self.member.number,
            identifier=self.member.identifier or self.member.unit,
            stats=SassStats(
                instructions=sum(self.opcodes.values()),
                code_bytes=end,
                opcodes=tuple(sorted(self.opcodes.items())),
                local=traffic,
                shared_spills=self.shared_spills if self.annotations else None,
                registers=self.registers,
                operands=operands,
                live_peak=self.live_peak,
                origin=self.origin,
                roles=roles,
            ),
        )

    def targets(self) -> Iterator[bytes]:
        """Labels that its branches name, where it accesses local memory."""
        for piece in self.pieces if self.local_count else ():
            if not isinstance(piece, Piece):
                for fields in piece:
                    if fields[2] in KINDS and (label := flow.form(*fields[1:5]).label):
                        yield label

    def damage(self, account: DumpAccount) -> Iterator[Issue]:
        """What its addresses say of instructions that were not read, or were read twice."""
        if self.obscure:
            message = f"{self.symbol} accesses local memory at an address that is not understood"
            yield account.issue("damaged-listing", message, self.origin.line, "error", symbol=self.symbol)
        found, words, arch = sum(self.opcodes.values()), self.last_address // WORD + 1, self.member.arch
        wide, narrow = self.last_address // (2 * WORD) + 1, words - -(-words // 4)  # every fourth word holds none
        right = {wide, narrow}
        if arch is not None and arch.isprintable():  # else it is not known here
            right = {narrow} if instruction_bytes(arch, 0) == WORD else {wide}
        if self.disordered or found not in right:
            message = f"the listing of {self.symbol} is damaged: {found} instructions up to {self.last_address:#x}"
            yield account.issue("damaged-listing", message, self.origin.line, "error", symbol=self.symbol)

    def _role(self) -> Role:
        return role_by(self.opcodes) if self.role == "unknown" else self.role


def records(listings: Sequence[Listing]) -> Iterator[SassFunction]:
    """The functions at their end; what was kept of all of them is read at once."""
    using = [
        listing for listing in listings if listing.local_count or listing.operands or SETS_REGISTERS in listing.opcodes
    ]
    marked = dict(
        zip(map(id, using), _read([listing.pieces for listing in using], [each.labels for each in using]), strict=True)
    )
    return (listing.record(marked.get(id(listing))) for listing in listings)


def _read(
    functions: Sequence[Sequence[Piece | Sequence[Instruction]]], labels: Sequence[Mapping[bytes, int]]
) -> Iterator[Marked]:
    """What was kept of each function, in their order; all are read at once."""
    pieces = [(index, piece) for index, parts in enumerate(functions) for piece in parts if isinstance(piece, Piece)]
    widths = {piece.kept.texts.itemsize for _, piece in pieces}
    rows = [
        _rows([item for item in pieces if item[1].kept.texts.itemsize == width], len(functions)) for width in widths
    ]
    for index, parts in enumerate(functions):
        lines = [line for piece in parts if not isinstance(piece, Piece) for line in piece]
        found = [part for group in rows if len((part := group[index]).addresses) or len(part.moves.addresses)]
        if lines:
            found.append(_lines(lines, labels[index]))
        yield found[0] if len(found) == 1 else _joined(found)


def _joined(parts: Sequence[Marked]) -> Marked:
    if not parts:
        return _NOTHING
    addresses = np.concatenate([part.addresses for part in parts])
    numbered = [part.lines for part in parts if part.lines is not None]
    registers = np.concatenate([part.registers() for part in parts])
    lines = np.concatenate(numbered) if len(numbered) == len(parts) else None
    order = addresses.argsort(kind="stable") if lines is None else np.lexsort((lines, addresses))
    sources = None
    if any(part.sources is not None for part in parts):
        unordered = [source for part in parts for source in part.sources or [None] * len(part.addresses)]
        sources = [unordered[index] for index in order.tolist()]
    return Marked(
        addresses[order],
        None if lines is None else lines[order],
        np.concatenate([part.accesses for part in parts])[order],
        lambda: registers[order],
        sources,
        Moves.join([part.moves for part in parts]),
    )


_NONE = np.zeros(0, np.int64)
_NOTHING = Marked(_NONE, None, _NONE, lambda: _NONE, None, NO_MOVES)


def _lines(lines: Sequence[Instruction], labels: Mapping[bytes, int]) -> Marked:
    """Lines that the grammar has read already."""
    accesses = sorted(
        ((offset(fields[0]), fields) for fields in lines if fields[2] not in KINDS), key=lambda item: item[0]
    )
    others = [fields for fields in lines if fields[2] in KINDS]
    numbers = [fields[6] for _, fields in accesses if fields[6] is not None]
    found = np.array([_access(*fields[1:6]) for _, fields in accesses], np.int64)
    return Marked(
        np.array([address for address, _ in accesses], np.int64),
        np.array(numbers, np.int64) if len(numbers) == len(accesses) else None,
        found >> _REGISTER_BITS,
        lambda: found & _REGISTER,
        [fields[7] for _, fields in accesses] if any(fields[7] for _, fields in accesses) else None,
        Moves.join([Moves.of(flow.read(offset(fields[0]), *fields[1:5], labels) for fields in others)]),
    )


@lru_cache(maxsize=1 << 15)
def _access(guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes, note: bytes) -> int:
    """An access as a number, and behind it the register that it stores, or loads into."""
    target = local.target(modifiers, operands)
    number = local.number(Access(opcode == STORE, bool(guard), ANNOTATION in note, target))
    moved = operands.rpartition(b",")[2] if opcode == STORE else operands.partition(b",")[0]
    register = moved.strip().partition(b".")[0][1:]
    return number << _REGISTER_BITS | (min(int(register), _REGISTER) if register.isdigit() else _REGISTER)


_REGISTER_BITS = 8
_REGISTER = 0xFF
"""Of a number and a register: the register; where that is none, it is RZ's."""


@lru_cache(maxsize=1 << 15)
def _access_of(text: bytes) -> int:
    """The access that a kept text shows, and its register."""
    match = grammar.line("instruction").match(_HEAD + text)
    assert match  # its head was read when it was counted
    return _access(*match.groups(b"")[1:])


def _rows(pieces: Sequence[tuple[int, Piece]], functions: int) -> list[Marked]:
    """Kept rows of one width, by function."""
    texts, addresses, lines, is_local = (
        np.concatenate([getattr(piece.kept, name)[piece.begin : piece.end] for _, piece in pieces])
        for name in ("texts", "addresses", "lines", "local")
    )
    owners = np.repeat([index for index, _ in pieces], [piece.end - piece.begin for _, piece in pieces])
    order = np.lexsort((addresses, owners))
    accesses, others = order[is_local[order]], order[~is_local[order]]
    bounds = np.arange(functions + 1)
    access_cuts = np.searchsorted(owners[accesses], bounds).tolist()
    other_cuts = np.searchsorted(owners[others], bounds).tolist()
    wheres, numbers = addresses[accesses], lines[accesses]
    found = np.fromiter(map(_access_of, texts[accesses].tolist()), np.int64, len(accesses))
    moved, owned = _moves(texts[others], addresses[others]), owners[others]
    if ((np.diff(moved.addresses) == 0) & (np.diff(owned) == 0)).any():  # in a damaged dump: see Moves.join
        again = np.lexsort((moved.conditional, moved.kinds, moved.targets, moved.addresses, owned))
        moved = moved.at(again)
    return [
        Marked(
            wheres[(part := slice(*access_cuts[index : index + 2]))],
            numbers[part],
            found[part] >> _REGISTER_BITS,
            partial(np.bitwise_and, found[part], _REGISTER),
            None,
            moved.part(*other_cuts[index : index + 2]),
        )
        for index in range(functions)
    ]


class _Form(NamedTuple):
    """A text in which the last number is zero."""

    kind: int
    conditional: bool
    target: bool
    """That number is where it goes."""
    single: bool
    """It goes to what is not that number: each such text is read by itself."""


@lru_cache(maxsize=1 << 14)
def _form(text: bytes, begin: int, end: int) -> _Form:
    """Read a text; its number stands in ``text[begin:end]``."""
    head = _HEAD + text
    match = grammar.line("instruction").match(head)
    assert match
    found = flow.form(*match.groups(b"")[1:5])
    if found.destination is None:
        return _Form(found.kind, found.conditional, False, False)
    start = match.start("operands") - len(_HEAD)
    same = (start + found.destination.start + len("0x"), start + found.destination.stop) == (begin, end)
    return _Form(found.kind, found.conditional, same, not same)


def _table(texts: Sequence[bytes], begins: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The forms of texts, a row each. Few texts are distinct, and where a text's number stands is in the text."""
    first = dict(zip(reversed(texts), range(len(texts) - 1, -1, -1), strict=True))
    order = dict(zip(first, range(len(first)), strict=True))
    at = list(first.values())
    forms = list(map(_form, first, begins[at].tolist(), ends[at].tolist()))
    rows = np.fromiter(map(order.__getitem__, texts), np.int64, len(texts))
    table: NDArray[np.int64] = np.array(forms, np.int64)[rows]
    return table


def _moves(texts: NDArray[np.void], addresses: NDArray[np.int64]) -> Moves:
    """KeptRows texts as moves: the last number of each is its target, unless the grammar says otherwise."""
    count, size = len(texts), texts.itemsize
    if not count:
        return NO_MOVES
    room = -(-(size + _WORD) // _WORD) * _WORD  # a word more, that windows may reach into
    padded = np.zeros((count, room), np.uint8)
    padded[:, :size] = texts.view(np.uint8).reshape(count, size)
    flat = padded.reshape(-1)
    places = np.flatnonzero(flat == ord("x"))
    begins = np.zeros(count, np.int64)
    begins[places // room] = places % room + 1  # the last of several
    starts = begins + np.arange(count) * room
    windows: NDArray[np.uint64] = np.ndarray((flat.size - _WORD + 1,), "<u8", padded, 0, (1,))
    words = windows[starts]
    sizes, values = _numbers(words)
    sizes[begins == 0] = 0
    masks = (_U(1) << (sizes * 8 % 64).astype(_U)) - _U(1)
    masks[sizes == _WORD] = ~_U(0)
    windows[starts] = words & ~masks | masks & _U(int.from_bytes(b"0" * _WORD, "little"))
    table = _table(padded.view(f"V{room}")[:, 0].tolist(), begins, begins + sizes)
    targets = np.where(table[:, 2] != 0, values, -1)
    for index in np.flatnonzero(table[:, 3]).tolist():
        match = grammar.line("instruction").match(_HEAD + texts[index].tobytes())
        assert match
        guard, opcode, modifiers, operands = match.groups(b"")[1:5]
        targets[index] = flow.read(0, guard, opcode, modifiers, operands, {})[1]
    return Moves(addresses, targets, table[:, 0], table[:, 1] != 0)


def _numbers(words: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many hexadecimal digits each word of eight characters begins with, and the number that they make."""
    high = _U(0x8080808080808080)
    raised = words | high

    def least(character: str) -> NDArray[np.uint64]:
        return raised - _U(int.from_bytes(character.encode() * _WORD, "little"))

    digit = least("0") & ~least(":") | least("a") & ~least("g")
    stops = (~digit | words) & high  # a byte outside ASCII is none
    low = stops & (~stops + _U(1))
    sizes = np.full(len(words), _WORD, np.int64)
    some = stops != 0
    sizes[some] = np.log2(low[some].astype(np.float64)).astype(np.int64) // 8
    nibbles = (words & _U(0x0F0F0F0F0F0F0F0F)) + _U(9) * (words >> _U(6) & _U(0x0101010101010101))
    shifted = np.where(sizes > 0, nibbles << ((_WORD - sizes) * 8 % 64).astype(_U), _U(0))
    pairs = (shifted & _U(0x000F000F000F000F)) << _U(4) | shifted >> _U(8) & _U(0x000F000F000F000F)
    fours = (pairs & _U(0x000000FF000000FF)) << _U(8) | pairs >> _U(16) & _U(0x000000FF000000FF)
    values = (fours & _U(0xFFFF)) << _U(16) | fours >> _U(32)
    return sizes, values.view(np.int64)
