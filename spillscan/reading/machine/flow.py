"""Control flow of one function, for the loop finder, from its control instructions: branches, calls, exits, returns,
and Maxwell's stack of targets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.reading import grammar


class Kind(IntEnum):
    """Effect of an instruction on control flow; ``SET_REGISTERS`` sets the register count of its warp instead."""

    JUMP = 0
    INDIRECT = 1
    EXIT = 2
    RETURN = 3
    CALL = 4
    FAR_CALL = 5
    SYNC = 6
    BREAK = 7
    CONTINUE = 8
    SET_REGISTERS = 9
    PUSH_SYNC = 10
    PUSH_BREAK = 11
    PUSH_CONTINUE = 12


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
    b"USETMAXREG": Kind.SET_REGISTERS,
    b"SSY": Kind.PUSH_SYNC,
    b"PBK": Kind.PUSH_BREAK,
    b"PCNT": Kind.PUSH_CONTINUE,
}
"""Kinds by opcode."""

_FAR_MODIFIER = b"ABS"
_ALWAYS = b"@PT "
_NOWHERE = -1
FARTHEST = 1 << 48
"""Upper bound of addresses, in bytes; no code is that long."""


class Moves(NamedTuple):
    """Control instructions, as columns."""

    addresses: NDArray[np.int64]
    """Byte offsets."""
    targets: NDArray[np.int64]
    """Branch target, or register count of ``SET_REGISTERS``; -1 if unknown."""
    kinds: NDArray[Any]
    """:class:`Kind`."""
    conditional: NDArray[np.bool_]
    """Whether each has a guard or condition."""

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int, bool]]) -> Moves:
        """Moves from rows of these columns."""
        table = np.array(list(rows), np.int64).reshape(-1, 4)
        return cls(table[:, 0], table[:, 1], table[:, 2], table[:, 3] != 0)

    def at(self, which: NDArray[np.int64]) -> Moves:
        """Instructions at the given indices."""
        return Moves(self.addresses[which], self.targets[which], self.kinds[which], self.conditional[which])


class Form(NamedTuple):
    """Control instruction of a line, without address and numeric target."""

    kind: Kind
    conditional: bool
    destination: slice | None
    """Place of a numeric target in the operands."""
    label: bytes
    """Target if it is a label, else empty."""


@lru_cache(maxsize=1 << 14)
def form(guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes) -> Form:
    """Parse the fields of a control instruction."""
    kind = KINDS[opcode]
    guarded = guard not in (b"", _ALWAYS)
    if kind == Kind.CALL and _FAR_MODIFIER in modifiers:
        kind = Kind.FAR_CALL
    match = grammar.line("branch").match(operands)
    if match is None:
        return Form(kind, guarded, None, b"")
    condition = kind == Kind.JUMP and match["condition"] is not None
    where = match["destination"]
    number = where.startswith(b"0x")
    return Form(
        kind, guarded or condition, slice(*match.span("destination")) if number else None, b"" if number else where
    )


def offset(digits: bytes) -> int:
    """Parse a hexadecimal address, limited to :data:`FARTHEST`."""
    return min(int(digits, 16), FARTHEST)


def read(
    address: int, guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes, labels: Mapping[bytes, int]
) -> tuple[int, int, int, bool]:
    """Parse a line of the disassembly into a row of :class:`Moves`."""
    found = form(guard, opcode, modifiers, operands)
    if found.destination is not None:
        return address, offset(operands[found.destination]), found.kind, found.conditional
    return address, labels.get(found.label, _NOWHERE), found.kind, found.conditional


_JUMP, _INDIRECT, _EXIT, _RETURN, _CALL, _FAR_CALL = map(
    int, (Kind.JUMP, Kind.INDIRECT, Kind.EXIT, Kind.RETURN, Kind.CALL, Kind.FAR_CALL)
)
"""Plain integers, since NumPy compares a column of bytes with a member of an enumeration far more slowly."""

_SET_REGISTERS = int(Kind.SET_REGISTERS)

_PUSHES = {
    int(Kind.SYNC): int(Kind.PUSH_SYNC),
    int(Kind.BREAK): int(Kind.PUSH_BREAK),
    int(Kind.CONTINUE): int(Kind.PUSH_CONTINUE),
}
"""Maxwell: SYNC jumps to the target of the innermost open SSY, BRK to that of PBK, CONT to that of PCNT."""

_FIRST_PUSH = min(_PUSHES.values())

_STAYS = -1
_FAR = 1 << 62
"""Address after all code."""

WORD = 8
"""Bytes of code per line of the disassembly."""


class Controls(NamedTuple):
    """Branches, exits and returns as columns, by address. Calls are left out, since control returns from them."""

    addresses: NDArray[np.int64]
    """Byte offsets."""
    targets: NDArray[np.int64]
    """Branch target; -1: leaves the function."""
    conditional: NDArray[np.bool_]
    """Whether control may also continue after it."""
    indirect: NDArray[np.bool_]
    """Whether its targets are not in the text."""


class Flow:
    """Control flow of one function, computed on demand: most functions need little of it."""

    def __init__(self, moves: Moves, *, last: int, parts: Iterable[int] = (), kernel: bool) -> None:
        """``last``: address of the last instruction; ``parts``: addresses of callees, as far as the listing gives them.

        ``kernel``: callees that no call names may follow the function.
        """
        self._moves = moves
        self._last = last
        self._parts = sorted({*parts})
        self._kernel = kernel
        present = np.bincount(moves.kinds, minlength=len(Kind)).tolist()
        self._returns = bool(present[_RETURN])
        self._calls = bool(present[_CALL])
        self.guessed = bool(present[_INDIRECT]) or any(present[push] for push in _PUSHES.values())
        """Whether some targets are inferred: those of indirect branches, or of Maxwell's stack of targets."""

    @cached_property
    def entries(self) -> Sequence[int]:
        """Addresses of callees after the function in the listing."""
        if not self._returns:
            return self._parts
        called = self._called() if self._calls else set()
        known = {*self._parts, *_returning(called, self._sure_ways_out)}
        return sorted(known.union(self._unnamed(called, sorted(known)) if self._kernel else ()))

    def entries_before(self, address: int) -> Sequence[int]:
        """:attr:`entries`, of which some after ``address`` may be missing.

        A callee that the listing does not name ends in a return, and begins after the exit or return before that.
        """
        if self._returns and address > self._first_callee():
            return self.entries
        return self._parts

    def _first_callee(self) -> int:
        """Address before all callees that the listing does not name."""
        before = -1
        for address, returns in self._sure_ways_out:
            if returns:
                return before
            before = address
        return _FAR

    def _called(self) -> set[int]:
        """Targets of calls within the listing. ptxas also uses calls as jumps, which are left out: to targets of
        forward jumps, and over a backward branch, with a guard (``@P0 CALL.REL.NOINC`` after a loop; sm_80)."""
        near = self._near
        over = near.conditional & (near.targets > near.addresses) & (near.targets - near.addresses <= 4 * WORD)
        called = {target for target in distinct(near.targets[~over]).tolist() if 0 < target <= self._last}
        if called:
            jumps = self._moves.at((self._moves.kinds == _JUMP).nonzero()[0])
            called.difference_update(jumps.targets[jumps.targets > jumps.addresses].tolist())
        return called

    @cached_property
    def _near(self) -> Moves:
        """Calls that name their target."""
        return self._moves.at((self._moves.kinds == _CALL).nonzero()[0])

    @cached_property
    def _sure_ways_out(self) -> list[tuple[int, bool]]:
        """Unconditional exits and returns: (address, whether it is a return)."""
        kinds = self._moves.kinds
        found = self._moves.at(((kinds == _EXIT) | (kinds == _RETURN)).nonzero()[0])
        rows = zip(found.addresses.tolist(), found.kinds.tolist(), found.conditional.tolist(), strict=True)
        return [(address, kind == _RETURN) for address, kind, conditional in rows if not conditional]

    def _unnamed(self, called: set[int], known: Sequence[int]) -> list[int]:
        """Addresses of functions after a kernel that are called by address only: right after an unconditional exit or
        return, not a branch target, and the next unconditional exit or return is a return."""
        found = [address for (address, _), (_, returns) in pairwise(self._sure_ways_out) if returns]
        found = [address for address in found if not called & _behind(address)]
        if found:
            targets = self._moves.at((self._moves.kinds == _JUMP).nonzero()[0]).targets
            found = _led_nowhere(found, targets[targets <= self._last])
        if found and self.guessed:
            found = _led_nowhere(found, controls(self._moves, self._last, known).targets)
        return [address + WORD for address in found]

    def only_returns(self, end: int | None) -> bool:
        """Whether the code before address ``end`` (``None``: all of it) leaves by returns only."""
        kinds = self._moves.kinds
        if end is not None:
            kinds = kinds[self._moves.addresses < end]
        return bool((kinds == _RETURN).any()) and not (kinds == _EXIT).any()

    def calls(self) -> NDArray[np.int64]:
        """Addresses of calls to code outside of the listing."""
        near = self._near
        outside = (near.targets <= 0) | (near.targets > self._last)
        far = self._moves.at((self._moves.kinds == _FAR_CALL).nonzero()[0])
        return np.concatenate((far.addresses, near.addresses[outside]))

    def inner_calls(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Addresses and targets of the calls to callees in the listing, and whether each has a guard."""
        near = self._near
        inner = _among(near.targets, self.entries)
        return near.addresses[inner], near.targets[inner], near.conditional[inner]

    def returns(self) -> NDArray[np.int64]:
        """Addresses of returns, those of callees in the listing included."""
        return self._moves.at((self._moves.kinds == _RETURN).nonzero()[0]).addresses

    def settings(self) -> list[tuple[int, int | None]]:
        """(address, register count) of each instruction that sets the warp's registers; ``None``: the text has no
        count."""
        found = self._moves.at((self._moves.kinds == _SET_REGISTERS).nonzero()[0])
        counts = zip(found.addresses.tolist(), found.targets.tolist(), strict=True)
        return [(address, None if count == _NOWHERE else count) for address, count in counts]

    def controls(self) -> Controls:
        """Branches, exits and returns."""
        return controls(self._moves, self._last, self.entries)


def controls(moves: Moves, last: int, entries: Sequence[int]) -> Controls:
    """Branches, exits and returns of a function whose last instruction is at ``last``; callees begin at ``entries``."""
    addresses, targets, kinds, conditional = moves.addresses, moves.targets, moves.kinds, moves.conditional
    ends = np.where((kinds == _JUMP) & (targets <= last), targets, _STAYS)
    wanted = (kinds == _JUMP) | (kinds == _INDIRECT) | (kinds == _EXIT) | (kinds == _RETURN)
    met = ((kinds == _CALL) & (targets > 0) & (targets <= last) & ~_among(targets, entries)).nonzero()[0]
    if len(met):  # ptxas also uses a call as a jump to the point of reconvergence
        ends[met] = targets[met]
        wanted[met] = True
        conditional = conditional.copy()
        conditional[met] = True
    _pop(moves, ends, wanted)
    return Controls(addresses[wanted], ends[wanted], conditional[wanted], (kinds == _INDIRECT)[wanted])


def _behind(address: int) -> set[int]:
    """Possible addresses of the next instruction: on Maxwell a control word may come first."""
    return {address + WORD, address + 2 * WORD}


def _returning(begins: Iterable[int], ways_out: Sequence[tuple[int, bool]]) -> list[int]:
    """Addresses after which the first unconditional exit or return is a return."""
    places = [(begin, bisect_left(ways_out, (begin, False))) for begin in begins]
    return [begin for begin, place in places if place < len(ways_out) and ways_out[place][1]]


def _among(values: NDArray[np.int64], known: Sequence[int]) -> NDArray[np.bool_]:
    """Whether each value is one of the ascending ``known`` ones."""
    ordered = np.array((*known, _FAR), np.int64)
    found: NDArray[np.bool_] = ordered[ordered.searchsorted(values)] == values
    return found


def _led_nowhere(ends: Sequence[int], targets: NDArray[np.int64]) -> list[int]:
    """Addresses that no branch target directly follows."""
    near = np.array([sorted(_behind(end)) for end in ends])
    ordered = np.append(np.sort(targets), _FAR)
    led = (ordered[ordered.searchsorted(near)] == near).any(axis=1)
    return [end for end, is_led in zip(ends, led.tolist(), strict=True) if not is_led]


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct values, ascending: faster than ``np.unique`` for small arrays."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    found: NDArray[np.int64] = ordered[new]
    return found


def _pop(moves: Moves, ends: NDArray[np.int64], wanted: NDArray[np.bool_]) -> None:
    """Send each SYNC, BRK and CONT to the target of the last push before it whose region is still open there."""
    if not (moves.kinds >= _FIRST_PUSH).any():
        return
    for kind, push in _PUSHES.items():
        opened: list[int] = []
        of_kind = np.flatnonzero((moves.kinds == kind) | (moves.kinds == push))
        columns = (column[of_kind].tolist() for column in (moves.addresses, moves.targets, moves.kinds))
        for index, address, target, which in zip(of_kind.tolist(), *columns, strict=True):
            if which == push:
                opened.append(target)
                continue
            while opened and opened[-1] <= address:
                opened.pop()  # closed here, and at all later addresses
            if opened:
                ends[index], wanted[index] = opened[-1], True
