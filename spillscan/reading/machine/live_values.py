"""Values live at one instruction of a function, in registers and in spill slots, and the instruction that makes each.

A register is traced back, by address, through its uninterrupted live range to the last instruction that wrote it. If
that only copies, or puts a constant in, and another one writes it later in the range, the value is carried by a loop
and made by the other one. Code need not run in the order of its addresses: the result is a heuristic, not a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from spillscan.reading.machine.liveness import Effects, Live

STACK_POINTER = 1


class Value(NamedTuple):
    """Value in one register, or in one word of a spill slot."""

    row: int
    """Row of the instruction that makes it."""
    spilled: bool
    """Whether it is in a spill slot."""


class SlotAccess(NamedTuple):
    """Store or load of a spill slot."""

    row: int
    """Row of its instruction."""
    store: bool
    slots: tuple[tuple[int, int], ...]
    """Words accessed: part of the function, and offset from the stack pointer."""


def in_registers(live: Live, effects: Effects, row: int, copies: Callable[[int], bool]) -> Iterator[Value]:
    """Values in registers at an instruction. ``copies``: whether an instruction only copies, or puts a constant in.
    Registers that no known instruction writes are left out."""
    for register in _numbers(live.sets[row]):
        if register != STACK_POINTER and (made := _maker(live, effects, register, row, copies)) is not None:
            yield Value(made, False)


def in_slots(
    live_slots: Iterable[tuple[int, int]],
    accesses: Sequence[SlotAccess],
    live: Live,
    effects: Effects,
    row: int,
    copies: Callable[[int], bool],
) -> Iterator[Value]:
    """Values in slots at an instruction: those of the registers that were stored there last, by address."""
    stores: dict[tuple[int, int], tuple[int, int]] = {}
    for access in accesses:
        if access.store:
            data = [register for register in _numbers(effects.read[access.row]) if register != STACK_POINTER]
            for slot, register in zip(access.slots, data[-len(access.slots) :], strict=False):
                if access.row <= row or slot not in stores:
                    stores[slot] = access.row, register
    for slot in live_slots:
        if slot in stores:
            stored, register = stores[slot]
            made = _maker(live, effects, register, stored, copies)
            yield Value(stored if made is None else made, True)


def _maker(live: Live, effects: Effects, register: int, row: int, copies: Callable[[int], bool]) -> int | None:
    """Row of the instruction that makes a register's value; ``None`` if unknown."""
    begin, end = live.range(register, row)
    writing = [at for at in range(begin, end) if effects.written[at] >> register & 1]
    if not writing:
        return None
    last = max((at for at in writing if at <= row), default=writing[0])
    further = (at for at in writing if at > row and not copies(at))
    return next(further, last) if copies(last) else last


def _numbers(registers: int) -> list[int]:
    return [register for register in range(registers.bit_length()) if registers >> register & 1]
