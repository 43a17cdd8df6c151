"""Live registers of the functions of cubins, and their source lines; on request, since it takes two seconds per million
instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import add
from typing import NamedTuple

from spillscan.model.code import MOST_REGISTERS, LivePeak
from spillscan.model.local import LocalAccess, LocalTraffic, SourceLine
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.decode import Decoded
from spillscan.reading.binary.tables import registers, table
from spillscan.reading.binary.words import Wide
from spillscan.reading.machine.instruction import REGISTER_BYTES
from spillscan.reading.machine.liveness import INSTRUCTION, Effects, Graph, Live, live, maker, numbers

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
        bits, waiting = self._waiting(local)
        return max(map(add, self.live.counts, map(int.bit_count, waiting))) if bits else None

    def makers(self, local: LocalTraffic) -> tuple[int, list[int]]:
        """Row of the instruction with the most live values, and rows of the instructions that make these values;
        without those in spill slots if slots are unknown."""
        bits, waiting = self._waiting(local)
        counts = [*map(add, self.live.counts, map(int.bit_count, waiting))]
        row = counts.index(max(counts))
        in_registers = [(register, row) for register in numbers(self.live.sets[row])]
        stored: dict[Word, tuple[int, int]] = {}
        for access in local.accesses if bits else ():
            at, words = access.address // INSTRUCTION, _words(access)
            for word, register in zip(words, numbers(self.effects.read[at])[-len(words) :], strict=False):
                if access.store and waiting[row] & bits.get(word, 0) and (at <= row or word not in stored):
                    stored[word] = register, at
        made = (maker(self.live, self.effects, *place, self._copies) for place in (*in_registers, *stored.values()))
        return row, [each for each in made if each is not None]

    def _copies(self, row: int) -> bool:
        return self.mnemonics[row] in _COPIES

    def _waiting(self, local: LocalTraffic) -> tuple[Mapping[Word, int], Sequence[int]]:
        """Bit of each word of a spill slot, and the words that hold a value at each instruction; none if slots are
        unknown."""
        spills, rows = [access for access in local.accesses if access.kind == "spill"], len(self.live.sets)
        if not spills or any(access.slot is None for access in spills):
            return {}, [0] * rows
        words = sorted({word for access in spills for word in _words(access)})
        bits = {word: 1 << number for number, word in enumerate(words, 2)}  # bit 1 is the stack pointer's
        effects = Effects([0] * rows, [0] * rows, [False] * rows, [False] * rows)
        for access in spills:
            row = access.address // INSTRUCTION
            (effects.written if access.store else effects.read)[row] |= sum(bits[word] for word in _words(access))
            effects.guarded[row] |= access.predicated and access.store
        columns = zip(live(effects, self.graph).sets, effects.read, effects.written, strict=True)
        return bits, [slots & ~(read | written | 3) for slots, read, written in columns]  # else it is in a register


Word = tuple[int, int]
"""Word of a spill slot: part of the function, and offset from the stack pointer."""


def _words(access: LocalAccess) -> list[Word]:
    first = access.slot or 0
    return [(access.part, first + offset) for offset in range(0, access.bytes, REGISTER_BYTES)]


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
