"""What moves control, line by line: branches, calls, ways out, and Maxwell's stack of targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spillscan.dumps import terminals


class Kind(IntEnum):
    """What an instruction does to control."""

    JUMP = 0
    INDIRECT = 1
    EXIT = 2
    RETURN = 3
    CALL = 4
    FAR_CALL = 5
    SYNC = 6
    BREAK = 7
    CONTINUE = 8
    PUSH_SYNC = 9
    PUSH_BREAK = 10
    PUSH_CONTINUE = 11


KINDS = {
    b"BRA": Kind.JUMP,
    b"JMP": Kind.JUMP,
    b"BRX": Kind.INDIRECT,
    b"BRXU": Kind.INDIRECT,
    b"JMX": Kind.INDIRECT,
    b"JMXU": Kind.INDIRECT,
    b"EXIT": Kind.EXIT,
    b"RET": Kind.RETURN,
    b"CALL": Kind.CALL,
    b"CAL": Kind.CALL,
    b"JCAL": Kind.FAR_CALL,
    b"SYNC": Kind.SYNC,
    b"BRK": Kind.BREAK,
    b"CONT": Kind.CONTINUE,
    b"SSY": Kind.PUSH_SYNC,
    b"PBK": Kind.PUSH_BREAK,
    b"PCNT": Kind.PUSH_CONTINUE,
}
"""By opcode."""

_FAR = b"ABS"
_ALWAYS = b"@PT "
_NOWHERE = -1
_FARTHEST = 1 << 48
"""Bytes; no code is so long."""


class Kept(Protocol):
    """Instructions that move control, as long as nobody looks at them."""

    def moves(self) -> Moves:
        """What they are."""


class AnyMoves(Protocol):
    """Instructions that move control, whose columns may be found when they are asked for: see :class:`Moves`."""

    @property
    def addresses(self) -> NDArray[np.int64]:
        """Byte offsets."""

    @property
    def targets(self) -> NDArray[np.int64]:
        """Where each goes."""

    @property
    def kinds(self) -> NDArray[Any]:
        """What each does."""

    @property
    def conditional(self) -> NDArray[np.bool_]:
        """Whether a predicate decides."""

    def at(self, which: NDArray[np.int64]) -> AnyMoves:
        """Those of some numbers."""

    def keep(self) -> Kept:
        """All, to be looked at later."""


class Moves(NamedTuple):
    """Instructions that move control, as columns."""

    addresses: NDArray[np.int64]
    """Byte offsets."""
    targets: NDArray[np.int64]
    """Where each goes; -1: the text does not say."""
    kinds: NDArray[Any]
    """:class:`Kind`."""
    conditional: NDArray[np.bool_]
    """A predicate decides."""

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, bool]]) -> Moves:
        """From rows of these columns."""
        table = np.array(list(rows), np.int64).reshape(-1, 4)
        return cls(table[:, 0], table[:, 1], table[:, 2], table[:, 3] != 0)

    def at(self, which: NDArray[np.int64]) -> Moves:
        """Those of some numbers."""
        return Moves(self.addresses[which], self.targets[which], self.kinds[which], self.conditional[which])

    def keep(self) -> Moves:
        """All, to be looked at later."""
        return self

    def moves(self) -> Moves:
        """Themselves."""
        return self

    def part(self, begin: int, end: int) -> Moves:
        """Some of them."""
        part = slice(begin, end)
        return Moves(self.addresses[part], self.targets[part], self.kinds[part], self.conditional[part])

    @classmethod
    def join(cls, parts: Iterable[AnyMoves]) -> Moves:
        """All of them, by address."""
        rows = [(part.addresses, part.targets, part.kinds, part.conditional) for part in parts]
        columns = [np.concatenate(column) for column in zip(*rows, strict=True)]
        order = columns[0].argsort(kind="stable")
        return cls(*(column[order] for column in columns))


NO_MOVES = Moves.of(())


class Form(NamedTuple):
    """A line, its address and target apart."""

    kind: Kind
    conditional: bool
    destination: slice | None
    """Where in the operands the target stands as a number."""
    label: bytes
    """The target, where it is a label."""


@lru_cache(maxsize=1 << 14)
def form(guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes) -> Form:
    """What the fields of an instruction say."""
    kind = KINDS[opcode]
    guarded = guard not in (b"", _ALWAYS)
    if kind == Kind.CALL and _FAR in modifiers:
        kind = Kind.FAR_CALL
    match = terminals.line("branch").match(operands)
    if match is None:
        return Form(kind, guarded, None, b"")
    condition = kind == Kind.JUMP and match["condition"] is not None
    where = match["destination"]
    number = where.startswith(b"0x")
    return Form(
        kind, guarded or condition, slice(*match.span("destination")) if number else None, b"" if number else where
    )


def offset(digits: bytes) -> int:
    """An address as printed, in hexadecimal."""
    return min(int(digits, 16), _FARTHEST)


def read(
    address: int, guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes, labels: Mapping[bytes, int]
) -> tuple[int, int, int, bool]:
    """A line as a row of :class:`Moves`."""
    found = form(guard, opcode, modifiers, operands)
    if found.destination is not None:
        return address, offset(operands[found.destination]), found.kind, found.conditional
    return address, labels.get(found.label, _NOWHERE), found.kind, found.conditional
