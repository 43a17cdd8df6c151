"""Branches, calls and ways out, as the loop finder wants them, from instruction lines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spillscan.sass import terminals
from spillscan.sass.loops import Control

CALLS = frozenset({b"CALL", b"CAL", b"JCAL"})
RETURNS = frozenset({b"RET"})
LEAVES = RETURNS | {b"EXIT"}
INDIRECT = frozenset({b"BRX", b"BRXU", b"JMX", b"JMXU"})
PUSHES = {b"SYNC": b"SSY", b"BRK": b"PBK", b"CONT": b"PCNT"}
"""Maxwell: SYNC goes where the innermost open SSY said, BRK where PBK, CONT where PCNT did."""
JUMPS = frozenset({b"BRA", b"JMP"})
ALWAYS = b"@PT "


Line = Sequence[bytes]
"""Address, predicate, opcode, modifiers and operands of an instruction, as printed."""


class Flow(NamedTuple):
    """Control of one function."""

    controls: list[Control]
    """By address."""
    entries: list[int]
    """Where callees begin that the listing holds behind the function."""
    calls: list[int]
    """Where something outside is called."""
    inner_calls: list[tuple[int, int]]
    """(address, target) of the calls of callees in the listing."""
    leaves: list[tuple[int, bytes]]
    """(address, opcode) of the ways out."""
    guessed: bool
    """Some targets are inferred: an indirect branch, or a stack of targets as Maxwell has it."""


def read(
    lines: Sequence[Line],
    jumps: Iterable[Control],
    called: Sequence[tuple[int, int]],
    *,
    last: int,
    labels: Mapping[bytes, int],
    parts: Iterable[int] = (),
) -> Flow:
    """The control flow of a function: its lines, and the jumps and calls that are known already."""
    found = sorted((int(line[0], 16), line[1], line[2], line[3], line[4]) for line in lines)
    flow = Flow(
        controls=[
            jump if jump.target is not None and jump.target <= last else jump._replace(target=None) for jump in jumps
        ],
        entries=[],
        calls=[],
        inner_calls=[],
        leaves=[],
        guessed=any(line[2] in INDIRECT or line[2] in PUSHES for line in found),
    )
    entries = set(parts)
    pushed: dict[bytes, list[tuple[int, int]]] = {}
    calls = [(address, target) for address, target in called if 0 < target <= last]
    flow.calls.extend(address for address, target in called if not 0 < target <= last)
    for address, guard, opcode, modifiers, operands in found:
        conditional = guard not in (b"", ALWAYS)
        if opcode in JUMPS:
            target, condition = _target(operands, labels)
            inside = target is not None and target <= last
            flow.controls.append(Control(address, target if inside else None, conditional or condition))
        elif opcode in LEAVES:
            flow.leaves.append((address, opcode))
            flow.controls.append(Control(address, None, conditional))
        elif opcode in CALLS:
            target, _ = _target(operands, labels)
            if not target or opcode == b"JCAL" or b"ABS" in modifiers or target > last:
                flow.calls.append(address)
            else:
                calls.append((address, target))
        elif opcode in INDIRECT:
            flow.controls.append(Control(address, None, conditional, indirect=True))
        elif opcode in PUSHES:
            target = _open(pushed.get(PUSHES[opcode], ()), address)
            if target is not None:
                flow.controls.append(Control(address, target, conditional))
        else:
            target, _ = _target(operands, labels)
            if target is not None:
                pushed.setdefault(opcode, []).append((address, target))
    for target in {target for _, target in calls}:
        if _returns(found, target):
            entries.add(target)
    for address, target in calls:
        if target in entries:
            flow.inner_calls.append((address, target))
        else:  # ptxas also uses a call as a jump to where warps meet again
            flow.controls.append(Control(address, target, conditional=True))
    flow.controls.sort()
    return flow._replace(entries=sorted(entries))


def _target(operands: bytes, labels: Mapping[bytes, int]) -> tuple[int | None, bool]:
    """Where a branch goes, and whether it does so on a condition among its operands."""
    try:
        return int(operands, 16), False
    except ValueError:
        match = terminals.line("branch").match(operands)
    if match is None:
        return None, False
    where = match["destination"]
    return int(where, 16) if where.startswith(b"0x") else labels.get(where), match["condition"] is not None


def _returns(lines: Sequence[tuple[int, bytes, bytes, bytes, bytes]], address: int) -> bool:
    """Whether the first sure way out behind ``address`` is a return."""
    begin = bisect_left(lines, address, key=lambda line: line[0])
    ways_out = (line[2] for line in lines[begin:] if line[2] in LEAVES and line[1] in (b"", ALWAYS))
    return next(ways_out, b"") in RETURNS


def _open(pushed: Iterable[tuple[int, int]], address: int) -> int | None:
    """Target of the last push before ``address`` whose region is still open there."""
    return next((target for at, target in reversed(list(pushed)) if at < address < target), None)
