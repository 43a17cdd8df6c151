"""Live registers of the functions of cubins, and from which source lines; on request, since it takes two seconds for a
million instructions.

Which general registers an instruction reads and writes stands in tables, data of ``registers/*.json``, by columns. They
are derived by ``fixtures/registers.py`` from what nvdisasm marks. An opcode and the bits that decide make a class; one
that was not met is no class, and what such an instruction does is not known.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.model.code import MOST_REGISTERS, LivePeak, LocalTraffic, SourceLine
from spillscan.reading.binary import decode
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.decode import Decoded
from spillscan.reading.binary.opcode_tables import table
from spillscan.reading.binary.words import ALWAYS, Wide, Words
from spillscan.reading.machine.accesses import REGISTER_BYTES
from spillscan.reading.machine.held import SlotAccess, Value, in_registers, in_slots
from spillscan.reading.machine.liveness import INSTRUCTION, WORDS, Effects, Graph, Live, live

_PLACES = [place for place in range(64 * WORDS) if place != 1]
"""Where slots stand in a set of registers: not for the stack pointer, which is live at the end."""
_COPIES = frozenset({"MOV", "CS2R", "MOV32I"})
"""They put a constant into a register, or copy."""


class Range(NamedTuple):
    """Code around the peak through which some registers are live without a gap."""

    registers: tuple[int, ...]
    begin: int
    """Number of the first instruction."""
    end: int
    """Behind the last."""
    source: SourceLine | None
    """Of the first: where they are written."""

    def __str__(self) -> str:
        """``R24 to R31, R40``."""
        runs: list[list[int]] = []
        for register in self.registers:
            if runs and runs[-1][1] == register - 1:
                runs[-1][1] = register
            else:
                runs.append([register, register])
        return ", ".join(f"R{first}" if first == last else f"R{first} to R{last}" for first, last in runs)


class Pressure(NamedTuple):
    """What is live at each instruction of one function."""

    live: Live
    sources: list[SourceLine | None]
    """Where each instruction comes from."""
    accesses: Counter[tuple[str, int]]
    """Loads and stores of memory by mnemonic and bytes per thread."""
    graph: Graph | None
    """What may follow what."""
    calls: int
    """Of functions; ptxas uses calls as jumps, too, which are none."""
    opcodes: tuple[Sequence[str], NDArray[np.int64]]
    """Mnemonics, and of each instruction the number of its own; one that is unknown has the number behind the last."""
    effects: Effects
    """What each instruction does to registers."""

    def opcode(self, row: int) -> str:
        """The mnemonic of an instruction; empty: unknown."""
        names, numbers = self.opcodes
        return names[numbers[row]] if numbers[row] < len(names) else ""

    @property
    def lines(self) -> list[tuple[SourceLine, int]]:
        """Source lines, with the most registers that are live at an instruction of each; the highest first."""
        found: dict[SourceLine, int] = {}
        for source, count in zip(self.sources, self.live.counts.tolist(), strict=True):
            if source is not None:
                found[source] = max(found.get(source, 0), count)
        return sorted(found.items(), key=lambda line: -line[1])

    @property
    def ranges(self) -> list[Range]:
        """What is live at the peak, the longest ranges first; registers with one range together."""
        row = self.peak.address // INSTRUCTION
        found: dict[tuple[int, int], list[int]] = {}
        for register in (0, *range(2, MOST_REGISTERS)):  # R1 is the stack pointer
            held = self.live.of(register)
            if held[row]:
                gaps = (~held).nonzero()[0]
                at = int(gaps.searchsorted(row))
                begin = int(gaps[at - 1]) + 1 if at else 0
                end = int(gaps[at]) if at < len(gaps) else len(held)
                found.setdefault((begin, end), []).append(register)
        ranges = [Range(tuple(names), *place, self.sources[place[0]]) for place, names in found.items()]
        return sorted(ranges, key=lambda each: -len(each.registers) * (each.end - each.begin))

    @property
    def peak(self) -> LivePeak:
        """The first instruction at which most registers are live."""
        counted = self.live.counts
        row = int(counted.argmax())
        return LivePeak(
            registers=int(counted[row]),
            address=row * INSTRUCTION,
            line=None,
            source=self.sources[row],
            at_least=self.live.at_least,
        )

    def demand(self, local: LocalTraffic) -> int | None:
        """The most values that are live at once, in registers and in spill slots, which are live from a store to the
        last load: as many registers as this order of instructions would take; ``None`` where slots are not known."""
        slots = self._slots(local)
        return None if slots is None else int((self.live.counts + slots.counts).max())

    def values(self, local: LocalTraffic) -> tuple[int, list[Value]]:
        """The instruction at which most values are live at once, and these values; those in spill slots are left out
        where slots are not known."""
        slots, counts = self._slots(local), self.live.counts
        row = int((counts if slots is None else counts + slots.counts).argmax())
        found = [*in_registers(self.live, self.effects, row, self._copies)]
        if slots is not None:
            found += in_slots(slots.at(row), slots.accesses, self.live, self.effects, row, self._copies)
        return row, found

    def _copies(self, row: int) -> bool:
        return self.opcode(row) in _COPIES

    def _slots(self, local: LocalTraffic) -> _Slots | None:
        spills = [access for access in local.accesses if access.kind == "spill"]
        if self.graph is None or not spills or any(access.slot is None for access in spills):
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
        guarded = np.zeros(len(self.live.sets), bool)
        guarded[[access.row for access, each in zip(accesses, spills, strict=True) if each.predicated]] = True
        names = sorted({slot for access in accesses for slot in access.slots})
        held = []
        for first in range(0, len(names), len(_PLACES)):
            places = zip(names[first:], _PLACES, strict=False)
            bits = {slot: (place // 64, np.uint64(1 << place % 64)) for slot, place in places}
            read, written = (np.zeros_like(self.live.sets) for _ in "rw")
            for access in accesses:
                for column, bit in (bits[slot] for slot in access.slots if slot in bits):
                    (written if access.store else read)[access.row, column] |= bit
            unknown = np.zeros(len(guarded), bool)
            (found,) = live([(Effects(read, written, guarded & written.any(axis=1), unknown), self.graph)])
            held.append(Live(found.sets & ~(read | written), False))  # what is stored or loaded is in a register here
        return _Slots(accesses, names, held)


class _Slots(NamedTuple):
    """The spill slots of a function."""

    accesses: Sequence[SlotAccess]
    names: Sequence[tuple[int, int]]
    held: Sequence[Live]
    """Where each is live; as many together as a set has places."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many are live, by instruction."""
        found: NDArray[np.int64] = sum((each.counts - each.of(1) for each in self.held), np.int64(0))  # type: ignore[arg-type]
        return found

    def at(self, row: int) -> Iterator[tuple[int, int]]:
        """Those that are live at an instruction."""
        for first, each in enumerate(self.held):
            places = zip(self.names[first * len(_PLACES) :], _PLACES, strict=False)
            yield from (name for name, place in places if int(each.sets[row, place // 64]) >> place % 64 & 1)


def pressures(cubin: Cubin, wanted: Callable[[Function], bool] = lambda _: True) -> Iterator[tuple[Function, Pressure]]:
    """Functions of a cubin whose instructions have a table. Raises :class:`DamageError`."""
    opcodes, known = table(cubin.number), registers(cubin.number)
    if opcodes is None or known is None:
        return
    functions = (function for function in cubin.functions() if function.code.size and wanted(function))
    for neighbours in decode.stretches(functions, opcodes):
        stretch = decode.code_of_stretch([function.code for function in neighbours], opcodes, cubin.number)
        if not isinstance(stretch, Wide):
            return
        effects = known.effects(*stretch.words())
        held: list[tuple[Function, Counter[tuple[str, int]], tuple[Sequence[str], NDArray[np.int64]]]] = []
        graphs: list[tuple[Effects, Graph]] = []
        for function in neighbours:
            decoded = Decoded(function.code, stretch, opcodes)
            parts = tuple(cubin.parts_of(function))
            if (graph := decoded.graph(parts, function=function.role == "function")) is not None:
                held.append((function, decoded.accesses(), decoded.opcodes()))
                first = (function.code.start - stretch.start) // INSTRUCTION
                graphs.append((effects.part(first, first + graph.rows), graph))
        for (function, accesses, names), (own, ways), found in zip(held, graphs, live(graphs), strict=True):
            addresses = range(0, len(found.sets) * INSTRUCTION, INSTRUCTION)
            sources = cubin.lines.of(function.section, addresses) or [None] * len(addresses)
            yield function, Pressure(found, sources, accesses, ways, ways.calls, names, own)


_OPCODE_BITS = 0xFFF
_SPREAD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
"""Odd numbers by which the parts of a class are made one number."""


class Registers:
    """The table of one architecture."""

    def __init__(self, opcodes: dict[str, Any]) -> None:
        self._masks = np.zeros((2, _OPCODE_BITS + 1), np.uint64)
        """Bits of the low and of the high word that decide, by opcode."""
        classes: list[tuple[int, int, int, str]] = []
        for code, (bits, values) in opcodes.items():
            opcode = int(code, 16)
            for bit in bits:
                self._masks[bit // 64, opcode] |= np.uint64(1 << bit % 64)
            for value, fields in values.items():
                placed = sum((int(value, 16) >> at & 1) << bit for at, bit in enumerate(bits))
                classes.append((opcode, placed & (1 << 64) - 1, placed >> 64, fields))
        parts = np.array([each[:3] for each in classes], np.uint64)
        keys = _key(parts[:, 0], parts[:, 1], parts[:, 2])
        order = keys.argsort()
        self._keys = keys[order]
        if (self._keys[1:] == self._keys[:-1]).any():
            raise ValueError("two classes of instructions have one number")
        shapes: dict[int, int] = {}
        self.fields = fields_of = [[*_fields(classes[place][3], shapes)] for place in order.tolist()]
        """Of each class: (lowest bit of the number, number of the shape, whether it is written)."""
        self.shapes = {
            number: [bit for bit in range(shape.bit_length()) if shape >> bit & 1] for shape, number in shapes.items()
        }
        """Registers from the named one on, by the number of the shape."""
        most = max(map(len, fields_of))
        self._fields = np.zeros((most, len(classes), 3), np.int64)
        """Bit, shape and whether it is written, of the n-th field of each class; shape 0: there is none."""
        for number, fields in enumerate(fields_of):
            for place, field in enumerate(fields):
                self._fields[place, number] = field
        self._sets = np.zeros((len(shapes) + 1, MOST_REGISTERS + 1, WORDS), np.uint64)
        for shape, number in shapes.items():
            moved = b"".join(
                (shape << first & (1 << MOST_REGISTERS) - 1).to_bytes(8 * WORDS, "little")
                for first in range(MOST_REGISTERS)
            )
            self._sets[number, :MOST_REGISTERS] = np.frombuffer(moved, np.uint64).reshape(-1, WORDS)

    def classes(self, lows: Words, highs: Words) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The class of each instruction, an index of :attr:`fields`, and where it is not known."""
        low, high = lows.view(np.uint64), highs.view(np.uint64)
        codes = lows & _OPCODE_BITS
        keys = _key(codes.view(np.uint64), low & self._masks[0, codes], high & self._masks[1, codes])
        at = np.minimum(self._keys.searchsorted(keys), len(self._keys) - 1)
        return at, self._keys[at] != keys

    def effects(self, lows: Words, highs: Words) -> Effects:
        """What instructions do, given as two columns of words."""
        low, high = lows.view(np.uint64), highs.view(np.uint64)
        at, unknown = self.classes(lows, highs)
        read, written = (np.zeros((len(low), WORDS), np.uint64) for _ in range(2))
        for column in self._fields:
            bits, shapes, roles = column[at].T
            for role, sets in ((0, read), (1, written)):
                rows = ((shapes != 0) & (roles == role) & ~unknown).nonzero()[0]
                bit = bits[rows]
                word = np.where(bit < 64, low[rows], high[rows]) >> (bit & 63).astype(np.uint64) & np.uint64(0xFF)
                sets[rows] |= self._sets[shapes[rows], word.astype(np.int64)]
        return Effects(read, written, lows >> 12 & 15 != ALWAYS, unknown)


def _key(codes: NDArray[np.uint64], low: NDArray[np.uint64], high: NDArray[np.uint64]) -> NDArray[np.uint64]:
    mixed = low * _SPREAD[0]
    mixed ^= mixed >> np.uint64(29)
    found: NDArray[np.uint64] = (mixed + high) * _SPREAD[1] + codes * _SPREAD[2]
    return found


def _fields(text: str, shapes: dict[int, int]) -> Iterator[tuple[int, int, bool]]:
    for field in text.split():
        at, _, more = field[1:].partition(".")
        yield int(at), shapes.setdefault(int(more or "1", 16), len(shapes) + 1), field[0] == "w"


_TABLES = Path(__file__).parent / "registers"


@cache
def registers(number: int, file: str = "R") -> Registers | None:
    """The table of an architecture by its number; ``None`` where none was derived. ``file``: of general registers, of
    predicates (P), uniform registers (U), uniform predicates (Q)."""
    entries = _known(number, file)
    return None if entries is None else Registers(entries)


def _known(number: int, file: str) -> dict[str, Any] | None:
    """Its own entries; of other than general registers, where it has none, those of its kin."""
    own = _entries(number, file)
    return _entries(_KIN.get(number, number), file) if own is None and file != "R" else own


_KIN = {86: 80, 87: 80, 88: 80, 89: 80, 101: 100, 103: 100, 107: 100, 110: 100, 121: 120}
"""Architectures whose predicates and uniform registers stand in the same places as another's, of which a table was
derived (held against each other: sm_86 and sm_89 against sm_80, sm_103 against sm_100, sm_121 against sm_120: 600, 603,
534 and 575 entries, no class is another)."""


def _entries(number: int, file: str) -> dict[str, Any] | None:
    source = _TABLES / f"sm_{number}.json"
    if not source.is_file():
        return None
    document: dict[str, Any] = json.loads(source.read_text())
    if file == "R":
        found: dict[str, Any] | None = document["opcodes"]
    else:
        found = document.get("others", {}).get(file, {}).get("opcodes")
    return found


class Elsewhere(NamedTuple):
    """Fields that an opcode has on another architecture, and was not seen to have on this one."""

    bits: tuple[int, ...]
    """That decide it there."""
    fields: Mapping[int, frozenset[int]]
    """By their values: lowest bits of the fields."""

    def of(self, word: int) -> frozenset[int]:
        """What one word would have there."""
        return self.fields.get(sum((word >> bit & 1) << at for at, bit in enumerate(self.bits)), frozenset())


@cache
def elsewhere(number: int, file: str) -> Mapping[int, tuple[Elsewhere, ...]]:
    """By opcode: what it has on other architectures under modifiers that nobody met on this one: words with them may
    have it here, too. What it has there without any, words of this architecture were asked about."""
    own = _of(number, file)
    known = {code: frozenset().union(*each.fields.values()) for code, each in own.items()}
    found: dict[int, tuple[Elsewhere, ...]] = {}
    for source in sorted(_TABLES.glob("sm_*.json")):
        other = int(source.stem.removeprefix("sm_"))
        for code, each in _of(other, file).items() if other != number else ():
            fields = {value: new for value, places in each.fields.items() if (new := places - known.get(code, places))}
            if fields and each.bits and _mnemonic(number, code) == _mnemonic(other, code):
                found[code] = (*found.get(code, ()), Elsewhere(each.bits, fields))
    return found


@cache
def _of(number: int, file: str) -> Mapping[int, Elsewhere]:
    """Where the fields of a table's opcodes are, by the bits that decide."""
    entries = (_known(number, file) or {}).items()
    return {int(code, 16): Elsewhere(tuple(bits), _places(values)) for code, (bits, values) in entries}


def _mnemonic(number: int, opcode: int) -> str:
    known = table(number)
    return "" if known is None else [*known.names, ""][int(known.ranks[opcode])]


def _places(values: Mapping[str, str]) -> dict[int, frozenset[int]]:
    return {
        int(value, 16): frozenset(int(field[1:].partition(".")[0]) for field in text.split())
        for value, text in values.items()
    }
