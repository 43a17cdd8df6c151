"""Live registers of the functions of cubins, and their source lines; on request, since it takes two seconds per million
instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import add
from typing import NamedTuple

from spillscan.model.code import MOST_REGISTERS, LivePeak
from spillscan.model.local import LocalTraffic, SourceLine
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.decode import Decoded
from spillscan.reading.binary.opcode_tables import table
from spillscan.reading.binary.register_tables import registers
from spillscan.reading.binary.words import Wide
from spillscan.reading.machine.instruction import REGISTER_BYTES
from spillscan.reading.machine.liveness import (
    INSTRUCTION,
    Effects,
    Graph,
    Live,
    SlotAccess,
    Value,
    in_registers,
    in_slots,
    live,
)

_COPIES = frozenset({"MOV", "CS2R", "MOV32I"})
"""Mnemonics that copy, or put a constant into a register."""


class Range(NamedTuple):
    """Code around the peak throughout which some registers are live."""

    registers: tuple[int, ...]
    begin: int
    """Row of the first instruction."""
    end: int
    """Row after the last."""
    source: SourceLine | None
    """Source line of the first, which writes them."""

    def __str__(self) -> str:
        """Names of the registers: ``R24 to R31, R40``."""
        runs: list[list[int]] = []
        for register in self.registers:
            if runs and runs[-1][1] == register - 1:
                runs[-1][1] = register
            else:
                runs.append([register, register])
        return ", ".join(f"R{first}" if first == last else f"R{first} to R{last}" for first, last in runs)


class Pressure(NamedTuple):
    """Live registers of one function, by instruction."""

    live: Live
    sources: list[SourceLine | None]
    """Source line of each instruction."""
    graph: Graph
    """Control-flow graph."""
    calls: int
    """Number of function calls, without those that ptxas uses as jumps."""
    mnemonics: list[str]
    """Mnemonic of each instruction; empty if unknown."""
    effects: Effects
    """Registers read and written by each instruction."""

    @property
    def lines(self) -> list[tuple[SourceLine, int]]:
        """Source lines with their maximum of live registers, highest first."""
        found: dict[SourceLine, int] = {}
        for source, count in zip(self.sources, self.live.counts, strict=True):
            if source is not None:
                found[source] = max(found.get(source, 0), count)
        return sorted(found.items(), key=lambda line: -line[1])

    @property
    def ranges(self) -> list[Range]:
        """Live ranges at the peak, largest (registers × instructions) first; registers with equal ranges together."""
        row = self.peak.address // INSTRUCTION
        found: dict[tuple[int, int], list[int]] = {}
        for register in (0, *range(2, MOST_REGISTERS)):  # R1 is the stack pointer
            if self.live.sets[row] >> register & 1:
                found.setdefault(self.live.range(register, row), []).append(register)
        ranges = [Range(tuple(names), *place, self.sources[place[0]]) for place, names in found.items()]
        return sorted(ranges, key=lambda each: -len(each.registers) * (each.end - each.begin))

    @property
    def peak(self) -> LivePeak:
        """First instruction with the maximum of live registers."""
        counts = self.live.counts
        row = counts.index(max(counts))
        return LivePeak(
            registers=counts[row],
            address=row * INSTRUCTION,
            line=None,
            source=self.sources[row],
            at_least=self.live.at_least,
        )

    def demand(self, local: LocalTraffic) -> int | None:
        """Maximum number of values live at once, in registers and in spill slots, which are live from a store to the
        last load: the registers that this order of instructions needs without spills. ``None`` if slots are unknown."""
        slots = self._slots(local)
        return None if slots is None else max(map(add, self.live.counts, slots.counts))

    def values(self, local: LocalTraffic) -> tuple[int, list[Value]]:
        """Row of the instruction with the most live values, and these values; without those in spill slots if slots are
        unknown."""
        slots, counts = self._slots(local), self.live.counts
        counts = counts if slots is None else [*map(add, counts, slots.counts)]
        row = counts.index(max(counts))
        found = [*in_registers(self.live, self.effects, row, self._copies)]
        if slots is not None:
            found += in_slots(slots.at(row), slots.accesses, self.live, self.effects, row, self._copies)
        return row, found

    def _copies(self, row: int) -> bool:
        return self.mnemonics[row] in _COPIES

    def _slots(self, local: LocalTraffic) -> _Slots | None:
        spills = [access for access in local.accesses if access.kind == "spill"]
        if not spills or any(access.slot is None for access in spills):
            return None
        accesses = [
            SlotAccess(
                access.address // INSTRUCTION,
                access.store,
                tuple((access.part, access.slot + offset) for offset in range(0, access.bytes, REGISTER_BYTES)),
            )
            for access in spills
            if access.slot is not None
        ]
        slots = sorted({slot for access in accesses for slot in access.slots})
        bits = {slot: 1 << number for number, slot in enumerate(slots, 2)}
        rows = len(self.live.sets)
        effects = Effects([0] * rows, [0] * rows, [False] * rows, [False] * rows)
        for access, spill in zip(accesses, spills, strict=True):
            for slot in access.slots:
                (effects.written if access.store else effects.read)[access.row] |= bits[slot]
            effects.guarded[access.row] |= spill.predicated and access.store
        columns = zip(live(effects, self.graph).sets, effects.read, effects.written, strict=True)
        return _Slots(accesses, bits, [sets & ~(read | written) for sets, read, written in columns])


class _Slots(NamedTuple):
    """Spill slots of a function."""

    accesses: Sequence[SlotAccess]
    bits: Mapping[tuple[int, int], int]
    """Bit of each slot; none is that of the stack pointer, which is live at the end."""
    sets: list[int]
    """Live slots, by instruction, without those that it stores or loads: their values are in registers."""

    @property
    def counts(self) -> list[int]:
        """Number of live slots, by instruction."""
        return [(each >> 2).bit_count() for each in self.sets]

    def at(self, row: int) -> Iterator[tuple[int, int]]:
        """Slots that are live at an instruction."""
        return (slot for slot, bit in self.bits.items() if self.sets[row] & bit)


def pressures(cubin: Cubin, wanted: Callable[[Function], bool] = lambda _: True) -> Iterator[tuple[Function, Pressure]]:
    """Live registers of a cubin's functions; none if its architecture has no table. Raises :class:`DamageError`."""
    opcodes, known = table(cubin.number), registers(cubin.number)
    if opcodes is None or known is None:
        return
    for function in cubin.functions():
        if function.code.size and wanted(function):
            decoded = Decoded(function.code, opcodes, cubin.number)
            graph = decoded.graph(tuple(cubin.parts_of(function)), function=function.role == "function")
            if graph is not None and isinstance(decoded.code, Wide):
                effects = known.effects(decoded.code.integers())
                addresses = range(0, graph.rows * INSTRUCTION, INSTRUCTION)
                sources = cubin.lines.of(function.section, addresses) or [None] * len(addresses)
                found = live(effects, graph)
                yield function, Pressure(found, sources, graph, graph.calls, decoded.mnemonics, effects)
