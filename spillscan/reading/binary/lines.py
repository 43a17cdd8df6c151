"""Source lines of accesses to local memory, where a cubin was compiled with ``-lineinfo`` or ``-G``.

``.debug_line`` holds the line machine of DWARF 2 to 4, with NVIDIA's extended opcodes for inlined calls. pyelftools
passes over these opcodes and makes a record of each opcode that it knows; here a sequence (one function) is decoded
alone, when it is needed. Tests hold the rows equal to pyelftools', the chains to nvdisasm's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from spillscan.model.code import LocalTraffic, SourceLine
from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.window import DamageError, leb
from spillscan.reading.machine.accesses import Accesses

SET_ADDRESS = b"\0\x09\x02"
"""How a sequence begins: an extended opcode of nine bytes that sets the address, which is relocated."""

_VERSIONS = range(2, 5)
_END, _ADDRESS, _INLINED = 0x01, 0x02, 0x90
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9


class Row(NamedTuple):
    """From one address on, one place in the source."""

    address: int
    """Byte offset in the function's code."""
    file: int
    """1-based number in the unit's files."""
    line: int
    """1-based."""
    called: int
    """1-based row of the sequence where the function was called that the line is in; 0: it was not inlined."""


class Unit(NamedTuple):
    """What the header of one table says."""

    end: int
    """Offset behind the table."""
    step: int
    """Bytes of the shortest instruction."""
    line_base: int
    line_range: int
    opcode_base: int
    arguments: bytes
    """Numbers behind each standard opcode, by opcode less 1."""
    files: tuple[str, ...]
    """By number less 1, with their folders."""


class LineTable:
    """The contents of ``.debug_line``; ``start`` is where they stand in the file. All raises :class:`DamageError`."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.start = start
        self._left = len(data)
        """Bytes that may still be decoded: genuine sequences do not overlap."""
        self._begins = self._unit_offsets()
        self._headers: dict[int, Unit] = {}

    def unit_at(self, offset: int) -> Unit:
        """The unit that holds the sequence at ``offset``."""
        index = bisect_right(self._begins, offset) - 1
        if index < 0:
            raise self._damage("no line table", offset)
        begin = self._begins[index]
        if begin not in self._headers:
            self._headers[begin] = self._header(begin)
        return self._headers[begin]

    def rows(self, offset: int, base: int) -> list[Row]:
        """The rows of the sequence at ``offset``, whose addresses are relocated by ``base``."""
        if self.data[offset : offset + len(SET_ADDRESS)] != SET_ADDRESS:
            raise self._damage("a relocation of the line table where no address stands", offset)
        unit = self.unit_at(offset)
        data, end, opcode_base = self.data, unit.end, unit.opcode_base
        rows: list[Row] = []
        address, file, line, called = 0, 1, 1, 0
        at = offset
        try:
            while at < end:
                opcode = data[at]
                at += 1
                if opcode >= opcode_base:
                    opcode -= opcode_base
                    address += opcode // unit.line_range * unit.step
                    line += unit.line_base + opcode % unit.line_range
                    rows.append(Row(address, file, line, called))
                elif opcode == 0:
                    size, at = leb(self.data, at)
                    extended, following = data[at], at + size
                    if extended == _END:
                        break
                    if extended == _ADDRESS:
                        address = base + int.from_bytes(data[at + 1 : following], "little")
                    elif extended == _INLINED:
                        called, _ = leb(self.data, at + 1)
                    at = following
                elif opcode == _COPY:
                    rows.append(Row(address, file, line, called))
                elif opcode == _ADVANCE_PC:
                    amount, at = leb(self.data, at)
                    address += amount * unit.step
                elif opcode == _ADVANCE_LINE:
                    amount, at = self._signed(at)
                    line += amount
                elif opcode == _SET_FILE:
                    file, at = leb(self.data, at)
                elif opcode == _CONST_ADD_PC:
                    address += (255 - opcode_base) // unit.line_range * unit.step
                elif opcode == _FIXED_ADVANCE_PC:
                    address += int.from_bytes(data[at : at + 2], "little")
                    at += 2
                else:
                    for _ in range(unit.arguments[opcode - 1]):
                        _, at = leb(self.data, at)
        except IndexError as error:
            raise self._damage("a line table that is truncated", offset) from error
        self._left -= at - offset
        if self._left < 0:
            raise self._damage("sequences of the line table overlap", offset)
        return rows

    def _unit_offsets(self) -> list[int]:
        found, at = [], 0
        while at + 4 <= len(self.data):
            found.append(at)
            at += 4 + int.from_bytes(self.data[at : at + 4], "little")
        return found

    def _header(self, begin: int) -> Unit:
        data = self.data
        end = begin + 4 + int.from_bytes(data[begin : begin + 4], "little")
        version = int.from_bytes(data[begin + 4 : begin + 6], "little")
        if version not in _VERSIONS:
            raise self._damage(f"a line table of DWARF {version}", begin)
        at = begin + 11 + (version >= 4)  # behind the operations of an instruction, which only VLIW machines have
        fields = data[at : at + 4]  # whether lines are statements, line base, line range, opcode base
        if end > len(data) or at + 4 > end or not fields[2] or not fields[3]:
            raise self._damage("a line table with a senseless header", begin)
        at += 4
        arguments = data[at : at + fields[3] - 1]
        try:
            folders, at = self._names(at + len(arguments), end, numbers=0)
            names, _ = self._names(at, end, numbers=3)
            files = tuple(_joined(folders[numbers[0] - 1][0] if numbers[0] else "", name) for name, numbers in names)
        except IndexError as error:
            raise self._damage("a line table with damaged names of files", begin) from error
        return Unit(end, data[begin + 10], fields[1] - (fields[1] >> 7 << 8), fields[2], fields[3], arguments, files)

    def _names(self, at: int, end: int, *, numbers: int) -> tuple[list[tuple[str, list[int]]], int]:
        """Texts until an empty one, each with some numbers behind it; and the offset behind all."""
        found: list[tuple[str, list[int]]] = []
        while (stop := self.data.find(b"\0", at, end)) > at:
            name, values, at = self.data[at:stop].decode("utf-8", "backslashreplace"), [], stop + 1
            for _ in range(numbers):
                value, at = leb(self.data, at)
                values.append(value)
            found.append((name, values))
        return found, at + 1

    def _signed(self, at: int) -> tuple[int, int]:
        value, behind = leb(self.data, at)
        bits = 7 * (behind - at)
        return value - (value >> (bits - 1) << bits), behind

    def _damage(self, what: str, offset: int) -> DamageError:
        return DamageError(what, self.start + offset)


def _joined(folder: str, name: str) -> str:
    return name if not folder or name.startswith("/") else f"{folder}/{name}"


SECTION = b".debug_line"
DEEPEST = 256
"""Inlined calls inside each other."""

_KINDS = {
    b".rel": np.dtype([("offset", "<u8"), ("info", "<u8")]),
    b".rela": np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")]),
}
"""Relocations, by the beginning of their section's name."""


class Lines:
    """The source lines of one cubin, read function by function. Costs nothing where it has none."""

    def __init__(self, elf: Elf, symbols: NDArray[Any]) -> None:
        self._elf = elf
        self._symbols = symbols
        self._found: dict[int, tuple[list[int], list[SourceLine | None]]] = {}
        self.damage: DamageError | None = None
        """The first thing that could not be read."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return self._section is not None

    def attach(self, local: LocalTraffic, section: int) -> LocalTraffic:
        """What the function in this code section does to local memory, its accesses with their source lines."""
        if not isinstance(local.accesses, Accesses):
            return local
        sources = self.of(section, local.accesses.addresses.tolist())
        return local if sources is None else structs.replace(local, accesses=replace(local.accesses, sources=sources))

    def of(self, section: int, addresses: Sequence[int]) -> list[SourceLine | None] | None:
        """The source line of each address in a code section; ``None`` where the table says nothing of the section."""
        if self._section is None:  # whatever else speaks of it
            return None
        if section not in self._found:
            self._found[section] = [], []
            try:
                self._found[section] = self._places(section)
            except DamageError as error:
                self.damage = self.damage or error
        starts, places = self._found[section]
        if not starts:
            return None
        return [places[index - 1] if index else None for index in (bisect_right(starts, each) for each in addresses)]

    def _places(self, section: int) -> tuple[list[int], list[SourceLine | None]]:
        """Ascending addresses, and the place that holds from each on."""
        found: list[tuple[int, SourceLine | None]] = []
        for offset, base in self._sequences.get(section, ()):
            rows = self._table.rows(offset, base)
            chains = self._chains(rows, self._table.unit_at(offset).files, offset)
            found += [(row.address, chain) for row, chain in zip(rows, chains, strict=True)]
        found.sort(key=lambda place: place[0])
        return [address for address, _ in found], [chain for _, chain in found]

    def _chains(self, rows: Sequence[Row], files: Sequence[str], offset: int) -> list[SourceLine | None]:
        """The place of each row: innermost first, then where that was inlined. Once a row names itself or a later one
        as its caller, ptxas has left out rows that it counts (seen of CUDA 11.8): from there on no caller is known."""
        chains: list[SourceLine | None] = []
        depths = [0]
        counted = True
        for _, file, line, number in rows:
            counted = counted and number <= len(chains)
            called = number if counted else 0
            if not 0 < file <= len(files) or depths[called] >= DEEPEST:
                raise DamageError("a row of the line table that contradicts it", self._table.start + offset)
            depths.append(depths[called] + 1)
            caller = chains[called - 1] if called else None
            chains.append(SourceLine(file=files[file - 1], line=line, inlined_at=caller) if line > 0 else caller)
        return chains

    @cached_property
    def _section(self) -> int | None:
        return self._elf.index(SECTION)

    @cached_property
    def _table(self) -> LineTable:
        assert self._section is not None
        contents = self._elf.contents(self._section)
        return LineTable(contents.copy(0, contents.size, "line table"), contents.start)

    @cached_property
    def _sequences(self) -> dict[int, list[tuple[int, int]]]:
        """By code section: the offset of each sequence about it, and what its addresses are relative to."""
        found: dict[int, list[tuple[int, int]]] = {}
        elf = self._elf
        for beginning, kind in _KINDS.items():
            index = elf.index(beginning + SECTION)
            if index is None:
                continue
            table, symbols = elf.contents(index), self._symbols  # ptxas 12.0 names a wrong table of symbols
            relocations = table.array(kind, table.size // kind.itemsize, 0, "relocations")
            numbers = relocations["info"] >> 32
            if len(numbers) and int(numbers.max()) >= len(symbols):
                raise DamageError("a relocation of a symbol that is not there", table.start)
            addends = relocations["addend"] if "addend" in (kind.names or ()) else np.zeros(len(numbers), np.int64)
            for offset, home, value, addend in zip(
                relocations["offset"].tolist(),
                symbols["section"][numbers].tolist(),
                symbols["value"][numbers].tolist(),
                addends.tolist(),
                strict=True,
            ):
                found.setdefault(home, []).append((offset - len(SET_ADDRESS), value + addend))
        return found
