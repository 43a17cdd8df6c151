"""Control flow of one function, for the loop finder, from its control instructions: branches, calls, exits, returns,
and Maxwell's stack of targets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

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


class Move(NamedTuple):
    """Control instruction."""

    address: int
    """Byte offset."""
    target: int
    """Branch target, or register count of ``SET_REGISTERS``; -1 if unknown."""
    kind: int
    """:class:`Kind`."""
    conditional: bool
    """Whether it has a guard or condition."""


class Branch(NamedTuple):
    """Branch, exit or return. Calls are none, since control returns from them."""

    address: int
    target: int
    """-1: leaves the function."""
    conditional: bool
    """Whether control may also continue after it."""
    indirect: bool = False
    """Whether its targets are not in the text."""


class Form(NamedTuple):
    """Control instruction of a line, without its address."""

    kind: Kind
    conditional: bool
    destination: bytes
    """Target as printed: a label or an address; empty if there is none."""


@lru_cache(maxsize=1 << 14)
def form(guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes) -> Form:
    """Parse the fields of a control instruction."""
    kind = KINDS[opcode]
    guarded = guard not in (b"", _ALWAYS)
    if kind == Kind.CALL and _FAR_MODIFIER in modifiers:
        kind = Kind.FAR_CALL
    match = grammar.line("branch").match(operands)
    if match is None:
        return Form(kind, guarded, b"")
    condition = kind == Kind.JUMP and match["condition"] is not None
    return Form(kind, guarded or condition, match["destination"])


def offset(digits: bytes) -> int:
    """Parse a hexadecimal address, limited to :data:`FARTHEST`."""
    return min(int(digits, 16), FARTHEST)


def read(
    address: int, guard: bytes, opcode: bytes, modifiers: bytes, operands: bytes, labels: Mapping[bytes, int]
) -> Move:
    """Parse a line of the disassembly."""
    kind, conditional, where = form(guard, opcode, modifiers, operands)
    target = offset(where) if where.startswith(b"0x") else labels.get(where, _NOWHERE)
    return Move(address, target, kind, conditional)


_PUSHES = {Kind.SYNC: Kind.PUSH_SYNC, Kind.BREAK: Kind.PUSH_BREAK, Kind.CONTINUE: Kind.PUSH_CONTINUE}
"""Maxwell: SYNC jumps to the target of the innermost open SSY, BRK to that of PBK, CONT to that of PCNT."""
WORD = 8
"""Bytes of code per line of the disassembly."""


class Flow:
    """Control flow of one function, computed on demand: most functions need little of it."""

    def __init__(self, moves: Sequence[Move], *, last: int, parts: Iterable[int] = (), kernel: bool) -> None:
        """``moves``: by address; ``last``: address of the last instruction; ``parts``: addresses of callees, as far as
        the listing gives them; ``kernel``: callees that no call names may follow the function."""
        self._moves = moves
        self._last = last
        self._parts = sorted({*parts})
        self._kernel = kernel
        self._of: dict[int, list[Move]] = {kind: [] for kind in Kind}
        for move in moves:
            self._of[move.kind].append(move)
        self.guessed = any(self._of[kind] for kind in (Kind.INDIRECT, *_PUSHES.values()))
        """Whether some targets are inferred: those of indirect branches, or of Maxwell's stack of targets."""

    @cached_property
    def entries(self) -> Sequence[int]:
        """Addresses of callees after the function in the listing."""
        if not self._of[Kind.RETURN]:
            return self._parts
        called = self._called()
        known = {*self._parts, *_returning(called, self._exits)}
        return sorted(known | self._unnamed(called, known) if self._kernel else known)

    def _called(self) -> set[int]:
        """Targets of calls within the listing. ptxas also uses calls as jumps, which are left out: to targets of
        forward jumps, and over a backward branch, with a guard (``@P0 CALL.REL.NOINC`` after a loop; sm_80)."""
        called = {
            call.target
            for call in self._of[Kind.CALL]
            if 0 < call.target <= self._last
            and not (call.conditional and call.address < call.target <= call.address + 4 * WORD)
        }
        return called - {jump.target for jump in self._of[Kind.JUMP] if jump.target > jump.address}

    @cached_property
    def _exits(self) -> list[tuple[int, bool]]:
        """Unconditional exits and returns: (address, whether it is a return)."""
        kinds = (Kind.EXIT, Kind.RETURN)
        return [
            (move.address, move.kind == Kind.RETURN)
            for move in self._moves
            if move.kind in kinds and not move.conditional
        ]

    def _unnamed(self, called: set[int], known: set[int]) -> set[int]:
        """Addresses of functions after a kernel that are called by address only: right after an unconditional exit or
        return, not a branch target, and the next unconditional exit or return is a return. On Maxwell a control word
        may come first."""
        targets = called | {jump.target for jump in self._of[Kind.JUMP] if jump.target <= self._last}
        if self.guessed:
            targets.update(branch.target for branch in branches(self._moves, self._last, known))
        ends = (address for (address, _), (_, returns) in pairwise(self._exits) if returns)
        return {end + WORD for end in ends if targets.isdisjoint((end + WORD, end + 2 * WORD))}

    def only_returns(self, end: int | None) -> bool:
        """Whether the code before address ``end`` (``None``: all of it) leaves by returns only."""
        kinds = {move.kind for move in self._moves if end is None or move.address < end}
        return Kind.RETURN in kinds and Kind.EXIT not in kinds

    def calls(self) -> list[int]:
        """Addresses of calls to code outside of the listing."""
        near = (call for call in self._of[Kind.CALL] if not 0 < call.target <= self._last)
        return [call.address for call in (*self._of[Kind.FAR_CALL], *near)]

    def inner_calls(self) -> list[Move]:
        """Calls to callees in the listing."""
        entries = {*self.entries}
        return [call for call in self._of[Kind.CALL] if call.target in entries]

    def returns(self) -> list[int]:
        """Addresses of returns, those of callees in the listing included."""
        return [move.address for move in self._of[Kind.RETURN]]

    def settings(self) -> list[tuple[int, int | None]]:
        """(address, register count) of each instruction that sets the warp's registers; ``None``: the text has no
        count."""
        settings = self._of[Kind.SET_REGISTERS]
        return [(move.address, None if move.target == _NOWHERE else move.target) for move in settings]

    def branches(self) -> list[Branch]:
        """Branches, exits and returns."""
        return branches(self._moves, self._last, {*self.entries})


def branches(moves: Iterable[Move], last: int, entries: Container[int]) -> list[Branch]:
    """Branches, exits and returns of a function whose last instruction is at ``last``; callees begin at ``entries``."""
    flow: list[Branch] = []
    pushed: dict[int, list[int]] = {push: [] for push in _PUSHES.values()}
    for address, target, kind, conditional in moves:
        if kind == Kind.JUMP:
            flow.append(Branch(address, target if target <= last else _NOWHERE, conditional))
        elif kind in (Kind.EXIT, Kind.RETURN, Kind.INDIRECT):
            flow.append(Branch(address, _NOWHERE, conditional, kind == Kind.INDIRECT))
        elif kind == Kind.CALL and 0 < target <= last and target not in entries:
            flow.append(Branch(address, target, True))  # ptxas uses calls as jumps to points of reconvergence, too
        elif kind in pushed:
            pushed[kind].append(target)
        elif kind in _PUSHES:
            open_ = pushed[_PUSHES[Kind(kind)]]
            while open_ and open_[-1] <= address:
                open_.pop()  # closed here, and at all later addresses
            if open_:
                flow.append(Branch(address, open_[-1], conditional))
    return flow


def _returning(begins: Iterable[int], exits: Sequence[tuple[int, bool]]) -> list[int]:
    """Addresses after which the first unconditional exit or return is a return."""
    places = [(begin, bisect_left(exits, (begin, False))) for begin in begins]
    return [begin for begin, place in places if place < len(exits) and exits[place][1]]
