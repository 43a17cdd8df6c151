"""Rows that matter for local memory, kept as text until their function ends: accesses to it, and what moves control.

The text is read only where the function does use local memory. Lines that differ only in a number are few: each such
form is read once, by the grammar; the targets are taken from their columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.dumps import terminals
from spillscan.machine import local, moves
from spillscan.machine.local import Access
from spillscan.machine.moves import KINDS, NO_MOVES, AnyMoves, Moves
from spillscan.model.code import SourceLine

ANNOTATION = b"SpillRefill"
STORE = b"STL"

Instruction = tuple[bytes, bytes, bytes, bytes, bytes, bytes, int | None, SourceLine | None]
"""A line that matters for local memory, an access to it or what moves control: address, predicate, opcode, modifiers,
operands and remark as printed, the line of the dump, the source line."""

_U = np.uint64
_WORD = 8
_HEAD = b"        /*0000*/ "
"""What makes a kept text an instruction line again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
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

    kept: Kept
    begin: int
    end: int


class Marked(NamedTuple):
    """What matters for local memory in one function, by address."""

    addresses: NDArray[np.int64]
    """Of the accesses."""
    lines: NDArray[np.int64] | None
    """Of the dump, 1-based; ``None`` where it has none."""
    accesses: NDArray[np.int64]
    """What each says of itself, as :func:`spillscan.machine.local.number` has it."""
    sources: Sequence[SourceLine | None] | None
    """Source lines; ``None`` where the dump tells none."""
    moves: AnyMoves


def read(functions: Sequence[Sequence[Piece | Sequence[Instruction]]], labels: Mapping[bytes, int]) -> Iterator[Marked]:
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
            found.append(_lines(lines, labels))
        yield found[0] if len(found) == 1 else _joined(found)


def _joined(parts: Sequence[Marked]) -> Marked:
    if not parts:
        return _NOTHING
    addresses = np.concatenate([part.addresses for part in parts])
    order = addresses.argsort(kind="stable")
    lines = [part.lines for part in parts if part.lines is not None]
    sources = None
    if any(part.sources is not None for part in parts):
        unordered = [source for part in parts for source in part.sources or [None] * len(part.addresses)]
        sources = [unordered[index] for index in order.tolist()]
    return Marked(
        addresses[order],
        np.concatenate(lines)[order] if len(lines) == len(parts) else None,
        np.concatenate([part.accesses for part in parts])[order],
        sources,
        Moves.join([part.moves for part in parts]),
    )


_NOTHING = Marked(np.zeros(0, np.int64), None, np.zeros(0, np.int64), None, NO_MOVES)


def _lines(lines: Sequence[Instruction], labels: Mapping[bytes, int]) -> Marked:
    """Lines that the grammar has read already."""
    accesses = sorted(
        ((moves.offset(fields[0]), fields) for fields in lines if fields[2] not in KINDS), key=lambda item: item[0]
    )
    others = [fields for fields in lines if fields[2] in KINDS]
    numbers = [fields[6] for _, fields in accesses if fields[6] is not None]
    return Marked(
        np.array([address for address, _ in accesses], np.int64),
        np.array(numbers, np.int64) if len(numbers) == len(accesses) else None,
        np.array([_access(*fields[1:6]) for _, fields in accesses], np.int64),
        [fields[7] for _, fields in accesses] if any(fields[7] for _, fields in accesses) else None,
        Moves.join([Moves.of(moves.read(moves.offset(fields[0]), *fields[1:5], labels) for fields in others)]),
    )


@lru_cache(maxsize=1 << 15)
def _access(guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes, note: bytes) -> int:
    target = local.target(modifiers, operands)
    return local.number(Access(opcode == STORE, bool(guard), ANNOTATION in note, target))


@lru_cache(maxsize=1 << 15)
def _access_of(text: bytes) -> int:
    """The access that a kept text shows."""
    match = terminals.line("instruction").match(_HEAD + text)
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
    moved = _moves(texts[others], addresses[others])
    return [
        Marked(
            wheres[(part := slice(*access_cuts[index : index + 2]))],
            numbers[part],
            found[part],
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
    match = terminals.line("instruction").match(head)
    assert match
    found = moves.form(*match.groups(b"")[1:5])
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
    """Kept texts as moves: the last number of each is its target, unless the grammar says otherwise."""
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
        match = terminals.line("instruction").match(_HEAD + texts[index].tobytes())
        assert match
        guard, opcode, modifiers, operands = match.groups(b"")[1:5]
        targets[index] = moves.read(0, guard, opcode, modifiers, operands, {})[1]
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
