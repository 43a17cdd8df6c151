"""Values live at one instruction of a function, in registers and in spill slots, and the instruction that makes each.

A register is traced back, by address, through its uninterrupted live range to the last instruction that wrote it. If
that only copies, or puts a constant in, and another one writes it later in the range, the value is carried by a loop
and made by the other one. Code need not run in the order of its addresses: the result is a heuristic, not a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.model.code import MOST_REGISTERS
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
    held: Iterable[tuple[int, int]],
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
    for slot in held:
        if slot in stores:
            stored, register = stores[slot]
            made = _maker(live, effects, register, stored, copies)
            yield Value(stored if made is None else made, True)


def _maker(live: Live, effects: Effects, register: int, row: int, copies: Callable[[int], bool]) -> int | None:
    """Row of the instruction that makes a register's value; ``None`` if unknown."""
    gaps = (~live.of(register)).nonzero()[0]
    at = int(gaps.searchsorted(row))
    begin = int(gaps[at - 1]) + 1 if at else 0
    end = int(gaps[at]) if at < len(gaps) else len(live.sets)
    writing = begin + _of(effects.written[begin:end], register).nonzero()[0]
    if not len(writing):
        return None
    behind = int(writing.searchsorted(row, side="right"))
    last = int(writing[max(behind - 1, 0)])
    further = (each for each in writing[behind:].tolist() if not copies(each))
    return next(further, last) if copies(last) else last


def _of(sets: NDArray[np.uint64], register: int) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = sets[:, register // 64] >> np.uint64(register % 64) & np.uint64(1) != 0
    return found


def _numbers(registers: NDArray[np.uint64]) -> list[int]:
    number = int.from_bytes(registers.tobytes(), "little")
    return [register for register in range(MOST_REGISTERS) if number >> register & 1]
