"""The values that are held at one instruction of a function, in registers and in spill slots, and what makes each.

A register is followed back, by address, through the instructions at which it is live without a gap, to the one that
wrote it last; where that only puts a constant in or copies, and another writes it further on, it is what a loop
carries, and that other makes it. Code need not run in the order of its addresses: it is the nearest, not a proof.
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
    """What one register, or one word of a spill slot, holds."""

    row: int
    """Number of the instruction that makes it."""
    spilled: bool
    """It waits in a slot."""


class SlotAccess(NamedTuple):
    """One store or load of a spill slot."""

    row: int
    """Number of its instruction."""
    store: bool
    slots: tuple[tuple[int, int], ...]
    """What it touches, a word each: part of the function and bytes from the stack pointer."""


def in_registers(live: Live, effects: Effects, row: int, copies: Callable[[int], bool]) -> Iterator[Value]:
    """The values that registers hold at an instruction; ``copies``: whether one only copies, or puts a constant in.
    Of a register that nothing is seen to write there is none."""
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
    """The values that slots hold at an instruction: those of the registers that were stored there last, by address."""
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
    """The instruction that makes what a register holds."""
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
