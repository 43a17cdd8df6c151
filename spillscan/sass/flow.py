"""The control flow of one function, as the loop finder wants it, from the instructions that move control."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.sass.moves import AnyMoves, Kept, Kind

_PUSHES = {
    Kind.SYNC: Kind.PUSH_SYNC,
    Kind.BREAK: Kind.PUSH_BREAK,
    Kind.CONTINUE: Kind.PUSH_CONTINUE,
}
"""Maxwell: SYNC goes where the innermost open SSY said, BRK where PBK, CONT where PCNT did."""

_STAYS = -1

_LEAVES = (Kind.EXIT, Kind.RETURN)
_IS_CONTROL = np.isin(np.arange(len(Kind)), (Kind.JUMP, Kind.INDIRECT, *_LEAVES))
_IS_CALL = np.isin(np.arange(len(Kind)), (Kind.CALL, Kind.FAR_CALL))
_IS_WAY_OUT = np.isin(np.arange(len(Kind)), _LEAVES)
_IS_PUSH = np.isin(np.arange(len(Kind)), list(_PUSHES.values()))
"""By kind."""

_NONE = np.zeros(0, np.int64)
_FAR = 1 << 62
"""Behind all code."""

WORD = 8
"""Bytes of code that one line of a dump shows."""


class Controls(NamedTuple):
    """Branches and ways out as columns, by address. A call is none: control comes back."""

    addresses: NDArray[np.int64]
    """Byte offsets."""
    targets: NDArray[np.int64]
    """Where each goes; -1: it leaves the function."""
    conditional: NDArray[np.bool_]
    """Control may also go on behind it."""
    indirect: NDArray[np.bool_]
    """It goes to addresses that the text does not give."""


class Paths(NamedTuple):
    """Where control goes in one function, to be followed when somebody looks at its loops."""

    kept: Kept
    last: int
    met: bytes
    """Which moves are calls that ptxas uses as jumps, to where warps meet again; 8 bytes each."""
    entries: tuple[int, ...]
    """Where callees begin that the listing holds behind the function."""

    def controls(self) -> Controls:
        """Branches and ways out."""
        return _controls(self.kept.moves(), self.last, np.frombuffer(self.met, np.int64))


class Flow:
    """Control of one function. Where its callees begin and what it calls is looked for at once, the rest when somebody
    asks: most functions have no spills in doubt, and nobody looks at their loops.
    """

    def __init__(self, moves: AnyMoves, *, last: int, parts: Iterable[int] = ()) -> None:
        """``last``: address of the last instruction; ``parts``: where callees begin, as far as the listing says it."""
        self._moves = moves
        self._last = last
        self._present: list[int] = np.bincount(moves.kinds, minlength=len(Kind)).tolist()
        self.entries: list[int] = sorted(set(parts))
        """Where callees begin that the listing holds behind the function."""
        self.calls = _NONE
        """Where something outside is called."""
        self.inner_calls = _NONE, _NONE
        """Addresses and targets of the calls of callees in the listing."""
        self._met = _NONE
        """See :class:`Paths`."""
        if self._present[Kind.CALL] or self._present[Kind.FAR_CALL]:
            self._find_calls()

    def _find_calls(self) -> None:
        calls = np.flatnonzero(_IS_CALL[self._moves.kinds])
        called = self._moves.at(calls)
        addresses, targets = called.addresses, called.targets
        near = (called.kinds == Kind.CALL) & (targets > 0) & (targets <= self._last)
        self.calls = addresses[~near]
        calls, addresses, targets = calls[near], addresses[near], targets[near]
        if self._present[Kind.RETURN] and len(targets):
            ways_out, returns = self._sure_ways_out
            begins = distinct(targets)
            begins = begins[np.append(returns, False)[ways_out.searchsorted(begins)]]
            self.entries = sorted({*self.entries, *begins.tolist()})
        inner = _among(targets, self.entries)
        self.inner_calls = addresses[inner], targets[inner]
        self._met = calls[~inner]

    @cached_property
    def _sure_ways_out(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where control leaves in any case, and whether that is a return."""
        ways_out = self._moves.at(np.flatnonzero(_IS_WAY_OUT[self._moves.kinds]))
        sure = ~ways_out.conditional
        return ways_out.addresses[sure], ways_out.kinds[sure] == Kind.RETURN

    def only_returns(self, end: int | None) -> bool:
        """Whether it leaves by returns, and by nothing else, before the address ``end`` (``None``: anywhere)."""
        kinds = self._moves.kinds
        before = slice(None) if end is None else self._moves.addresses < end
        leaves = kinds[before][_IS_WAY_OUT[kinds[before]]]
        return bool(len(leaves) and (leaves == Kind.RETURN).all())

    @property
    def guessed(self) -> bool:
        """Some targets are inferred: an indirect branch, or a stack of targets as Maxwell has it."""
        return bool(self._present[Kind.INDIRECT]) or self._stacked

    @property
    def _stacked(self) -> bool:
        return any(self._present[kind] for kind in _PUSHES.values())

    def controls(self) -> Controls:
        """Branches and ways out."""
        return _controls(self._moves, self._last, self._met)

    def paths(self) -> Paths:
        """What is needed to look for loops later."""
        return Paths(self._moves.keep(), self._last, self._met.tobytes(), tuple(self.entries))

    def add_unnamed(self) -> None:
        """Find the callees behind a kernel that are called by address only: right behind a sure way out, no branch
        leads there, and the next sure way out is a return."""
        if not self._present[Kind.RETURN]:
            return
        ways_out, returns = self._sure_ways_out
        found = _led_nowhere(ways_out[:-1][returns[1:]], self.inner_calls[1])
        if len(found):
            jumps = np.flatnonzero(self._moves.kinds == Kind.JUMP)
            targets = self._moves.at(np.append(jumps, self._met)).targets
            found = _led_nowhere(found, targets[targets <= self._last])
        if len(found) and self._stacked:
            found = _led_nowhere(found, self.controls().targets)
        self.entries = sorted({*self.entries, *(found + WORD).tolist()})


def _controls(moves: AnyMoves, last: int, met: NDArray[np.int64]) -> Controls:
    """Branches and ways out; see :class:`Paths`."""
    addresses, targets, kinds, conditional = moves.addresses, moves.targets, moves.kinds, moves.conditional
    ends = np.where((kinds == Kind.JUMP) & (targets <= last), targets, _STAYS)
    wanted = _IS_CONTROL[kinds]
    if len(met):
        ends[met] = targets[met]
        wanted[met] = True
        conditional = conditional.copy()
        conditional[met] = True
    _pop(moves, ends, wanted)
    return Controls(addresses[wanted], ends[wanted], conditional[wanted], (kinds == Kind.INDIRECT)[wanted])


def _among(values: NDArray[np.int64], known: Sequence[int]) -> NDArray[np.bool_]:
    """Which of the values are among some ascending ones."""
    ordered = np.array((*known, _FAR), np.int64)
    found: NDArray[np.bool_] = ordered[ordered.searchsorted(values)] == values
    return found


def _led_nowhere(ends: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.int64]:
    """The addresses behind which no target is; on Maxwell a control word may stand between."""
    ordered = np.append(np.sort(targets), _FAR)
    nearest = ordered[ordered.searchsorted(ends + WORD)]
    return ends[nearest > ends + 2 * WORD]


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values, ascending, each once: ``np.unique`` is made for arrays that are larger than these."""
    ordered = np.sort(values)
    found: NDArray[np.int64] = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return found


def _pop(moves: AnyMoves, ends: NDArray[np.int64], wanted: NDArray[np.bool_]) -> None:
    """Send each SYNC, BRK and CONT to the target of the last push before it whose region is still open there."""
    if not _IS_PUSH[moves.kinds].any():
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
                opened.pop()  # closed here, and everywhere behind
            if opened:
                ends[index], wanted[index] = opened[-1], True
