"""Branches, calls and ways out, as the loop finder wants them, from instruction lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from spillscan.sass import terminals
from spillscan.sass.loops import Control

CALLS = frozenset({b"CALL", b"CAL", b"JCAL"})
RETURNS = frozenset({b"RET"})
LEAVES = RETURNS | {b"EXIT"}
INDIRECT = frozenset({b"BRX", b"BRXU", b"JMX", b"JMXU"})
PUSHES = {b"SYNC": b"SSY", b"BRK": b"PBK", b"CONT": b"PCNT"}
"""Maxwell: SYNC goes where the innermost open SSY said, BRK where PBK, CONT where PCNT did."""
ALWAYS = b"@PT "


class Line(Protocol):
    """What is read of an instruction."""

    @property
    def address(self) -> int:
        """Byte offset."""

    @property
    def guard(self) -> bytes:
        """Predicate, or empty."""

    @property
    def opcode(self) -> bytes:
        """Mnemonic without modifiers."""

    @property
    def modifiers(self) -> bytes:
        """``.REL.NOINC``, or empty."""

    @property
    def operands(self) -> bytes:
        """Text behind the mnemonic."""

    @property
    def note(self) -> bytes:
        """nvdisasm's remark, or empty."""


class Flow(NamedTuple):
    """Control of one function."""

    controls: list[Control]
    """By address."""
    entries: list[int]
    """Where callees begin that the listing holds behind the function."""
    calls: list[int]
    """Where something is called."""
    guessed: bool
    """Some targets are inferred: an indirect branch, or a stack of targets as Maxwell has it."""


def read(lines: Sequence[Line], labels: Mapping[bytes, int], parts: Iterable[int] = ()) -> Flow:
    """The control flow of a function's lines, ascending by address."""
    last = lines[-1].address if lines else 0
    controls: list[Control] = []
    entries = set(parts)
    calls: list[int] = []
    pushed: dict[bytes, list[tuple[int, int]]] = {}
    guessed = False
    for line in lines:
        opcode = line.opcode
        if opcode in PUSHES.values():
            target, _ = _target(line.operands, labels)
            if target is not None:
                pushed.setdefault(opcode, []).append((line.address, target))
            continue
        conditional = line.guard not in (b"", ALWAYS)
        if opcode in CALLS:
            calls.append(line.address)
            target, _ = _target(line.operands, labels)
            if target and b"ABS" not in line.modifiers and opcode != b"JCAL" and target <= last:
                entries.add(target)
        elif opcode in LEAVES:
            controls.append(Control(line.address, None, conditional))
        elif opcode in INDIRECT:
            controls.append(Control(line.address, None, conditional, indirect=True))
            guessed = True
        elif opcode in PUSHES:
            guessed = True
            target = _open(pushed.get(PUSHES[opcode], ()), line.address)
            if target is not None:
                controls.append(Control(line.address, target, conditional))
        elif opcode in (b"BRA", b"JMP"):
            target, condition = _target(line.operands, labels)
            conditional = conditional or condition
            controls.append(Control(line.address, target if target is None or target <= last + 16 else None, conditional))
    return Flow(controls, sorted(entries), calls, guessed)


def _target(operands: bytes, labels: Mapping[bytes, int]) -> tuple[int | None, bool]:
    match = terminals.line("branch").match(operands)
    if match is None:
        return None, False
    where = match["destination"]
    target = int(where, 16) if where.startswith(b"0x") else labels.get(where)
    return target, match["condition"] is not None


def _open(pushed: Iterable[tuple[int, int]], address: int) -> int | None:
    """Target of the last push before ``address`` whose region is still open there."""
    return next((target for at, target in reversed(list(pushed)) if at < address < target), None)
