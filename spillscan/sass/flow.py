"""The control flow of one function, as the loop finder wants it, from the instructions that move control."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.sass.moves import Kind, Moves

_PUSHES = {
    Kind.SYNC: Kind.PUSH_SYNC,
    Kind.BREAK: Kind.PUSH_BREAK,
    Kind.CONTINUE: Kind.PUSH_CONTINUE,
}
"""Maxwell: SYNC goes where the innermost open SSY said, BRK where PBK, CONT where PCNT did."""

_STAYS = -1

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


class Flow(NamedTuple):
    """Control of one function."""

    controls: Controls
    """By address."""
    entries: list[int]
    """Where callees begin that the listing holds behind the function."""
    calls: list[int]
    """Where something outside is called."""
    inner_calls: list[tuple[int, int]]
    """(address, target) of the calls of callees in the listing."""
    leaves: list[tuple[int, bool]]
    """(address, it is a return) of the ways out."""
    guessed: bool
    """Some targets are inferred: an indirect branch, or a stack of targets as Maxwell has it."""


def read(moves: Moves, *, last: int, parts: Iterable[int] = ()) -> Flow:
    """The control flow of a function whose last instruction is at ``last``."""
    addresses, targets, kinds, conditional = moves
    present = np.bincount(kinds, minlength=len(Kind))
    indirect = kinds == Kind.INDIRECT
    leaving = (kinds == Kind.EXIT) | (kinds == Kind.RETURN)
    entries = set(parts)
    calls: list[int] = []
    inner: list[tuple[int, int]] = []
    ends = np.where((kinds == Kind.JUMP) & (targets <= last), targets, _STAYS)
    wanted = (kinds == Kind.JUMP) | indirect | leaving
    if present[Kind.CALL] or present[Kind.FAR_CALL]:
        outside = (kinds == Kind.FAR_CALL) | (kinds == Kind.CALL) & ((targets <= 0) | (targets > last))
        calls = addresses[outside].tolist()
        called = np.flatnonzero((kinds == Kind.CALL) & ~outside)
        begins = distinct(targets[called])
        entries.update(begins[_returns(moves, leaving, begins)].tolist())
        among = np.array([target in entries for target in targets[called].tolist()], bool)
        inner = list(zip(addresses[called[among]].tolist(), targets[called[among]].tolist(), strict=True))
        jumps = called[~among]  # ptxas also uses a call as a jump to where warps meet again
        ends[jumps] = targets[jumps]
        wanted[jumps] = True
        conditional = conditional.copy()
        conditional[jumps] = True
    pops = any(present[kind] for kind in _PUSHES)
    if pops:
        _pop(moves, ends, wanted)
    return Flow(
        controls=Controls(addresses[wanted], ends[wanted], conditional[wanted], indirect[wanted]),
        entries=sorted(entries),
        calls=calls,
        inner_calls=inner,
        leaves=list(zip(addresses[leaving].tolist(), (kinds[leaving] == Kind.RETURN).tolist(), strict=True)),
        guessed=bool(present[Kind.INDIRECT] or pops),
    )


def distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values, ascending, each once: ``np.unique`` is made for arrays that are larger than these."""
    ordered = np.sort(values)
    found: NDArray[np.int64] = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return found


def _returns(moves: Moves, leaving: NDArray[np.bool_], begins: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether the first sure way out behind each address is a return."""
    sure = leaving & ~moves.conditional
    at = np.searchsorted(moves.addresses[sure], begins)
    returns = np.append(moves.kinds[sure] == Kind.RETURN, False)
    found: NDArray[np.bool_] = returns[at]
    return found


def _pop(moves: Moves, ends: NDArray[np.int64], wanted: NDArray[np.bool_]) -> None:
    """Send each SYNC, BRK and CONT to the target of the last push before it whose region is still open there."""
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


def unnamed(flow: Flow) -> Iterator[int]:
    """Where functions begin behind a kernel that are called by address only: right behind a sure way out, no branch
    leads there, and the next sure way out is a return."""
    if not any(returns for _, returns in flow.leaves):
        return
    controls = flow.controls
    sure = set(controls.addresses[(controls.targets < 0) & ~controls.conditional & ~controls.indirect].tolist())
    leaves = [(address, returns) for address, returns in flow.leaves if address in sure]
    if not any(returns for _, returns in leaves):
        return
    targets = {*controls.targets.tolist(), *(target for _, target in flow.inner_calls)}
    for (address, _), (_, returns) in pairwise(leaves):
        near = {address + WORD, address + 2 * WORD}  # on Maxwell a control word may stand between
        if returns and not near & targets:
            yield address + WORD
