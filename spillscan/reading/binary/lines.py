"""Source lines of instructions, from cubins compiled with ``-lineinfo`` or ``-G``.

``.debug_line`` contains line programs of DWARF 2 to 4, with NVIDIA's extended opcodes for inlined calls. pyelftools
ignores these opcodes and makes a record of every other one; here each sequence (one function) is decoded separately, on
demand. Tests compare the rows with pyelftools', and the inline chains with nvdisasm's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.model.local import LocalTraffic, SourceLine
from spillscan.reading.binary.elf import Elf, Symbol
from spillscan.reading.binary.window import DamageError, leb

SET_ADDRESS = b"\0\x09\x02"
"""Beginning of a sequence: an extended opcode of nine bytes that sets the address, which is relocated."""

_VERSIONS = range(2, 5)
_END, _ADDRESS, _INLINED = 0x01, 0x02, 0x90
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE, _CONST_ADD_PC, _FIXED_ADVANCE_PC = 1, 2, 3, 4, 8, 9


class Row(NamedTuple):
    """Source position from one address on."""

    address: int
    """Byte offset in the function's code."""
    file: int
    """1-based index of the unit's files."""
    line: int
    """1-based."""
    called: int
    """1-based row of the sequence with the call that the line was inlined at; 0: not inlined."""


class Unit(NamedTuple):
    """Header of one line table."""

    end: int
    """Offset after the table."""
    step: int
    """Bytes of the shortest instruction."""
    line_base: int
    line_range: int
    opcode_base: int
    arguments: bytes
    """Number of operands of each standard opcode, by opcode - 1."""
    files: tuple[str, ...]
    """Paths of the files, by number - 1."""


class LineTable:
    """Contents of ``.debug_line``; ``start`` is their offset in the file. Methods raise :class:`DamageError`."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.start = start
        self._left = len(data)
        """Bytes left to decode: valid sequences do not overlap."""
        self._begins = self._unit_offsets()
        self._headers: dict[int, Unit] = {}

    def unit_at(self, offset: int) -> Unit:
        """Unit that contains the sequence at ``offset``."""
        index = bisect_right(self._begins, offset) - 1
        if index < 0:
            raise self._damage("no line table", offset)
        begin = self._begins[index]
        if begin not in self._headers:
            self._headers[begin] = self._header(begin)
        return self._headers[begin]

    def rows(self, offset: int, base: int) -> list[Row]:
        """Rows of the sequence at ``offset``, with addresses relocated by ``base``."""
        if self.data[offset : offset + len(SET_ADDRESS)] != SET_ADDRESS:
            raise self._damage("a line-table relocation at an offset without an address", offset)
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
        at = begin + 11 + (version >= 4)  # after the maximum operations per instruction, which only VLIW machines need
        fields = data[at : at + 4]  # default_is_stmt, line_base, line_range, opcode_base
        if end > len(data) or at + 4 > end or not fields[2] or not fields[3]:
            raise self._damage("a line table with an invalid header", begin)
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
        """Strings up to an empty one, each followed by ``numbers`` integers; and the offset after all."""
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
"""Maximum nesting of inlined calls."""


class Lines:
    """Source lines of one cubin, read per function and on demand. Costs nothing if it has none."""

    def __init__(self, elf: Elf, symbols: Sequence[Symbol]) -> None:
        self._elf = elf
        self._symbols = symbols
        self._found: dict[int, tuple[list[int], list[SourceLine | None]]] = {}
        self.damage: DamageError | None = None
        """First damage found."""

    def __bool__(self) -> bool:
        """Whether the cubin has source lines."""
        return self._section is not None

    def attach(self, local: LocalTraffic, section: int) -> LocalTraffic:
        """``local`` of the function in a code section, with source lines for its accesses."""
        sources = self.of(section, [access.address for access in local.accesses])
        if sources is None:
            return local
        placed = zip(local.accesses, sources, strict=True)
        return replace(local, accesses=tuple(replace(access, source=source) for access, source in placed))

    def of(self, section: int, addresses: Sequence[int]) -> list[SourceLine | None] | None:
        """Source line of each address in a code section; ``None`` if the table does not cover the section."""
        if self._section is None:  # even if there are relocations of it
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
        """Ascending addresses, and the source line from each on."""
        found: list[tuple[int, SourceLine | None]] = []
        for offset, base in self._sequences.get(section, ()):
            rows = self._table.rows(offset, base)
            chains = self._chains(rows, self._table.unit_at(offset).files, offset)
            found += [(row.address, chain) for row, chain in zip(rows, chains, strict=True)]
        found.sort(key=lambda place: place[0])
        return [address for address, _ in found], [chain for _, chain in found]

    def _chains(self, rows: Sequence[Row], files: Sequence[str], offset: int) -> list[SourceLine | None]:
        """Source line of each row, innermost first, then the calls that it was inlined at. If a row names itself or a
        later one as its caller, ptxas left out rows that it counts (seen with CUDA 11.8): from there on callers are
        unknown."""
        chains: list[SourceLine | None] = []
        depths = [0]
        counted = True
        for _, file, line, number in rows:
            counted = counted and number <= len(chains)
            called = number if counted else 0
            if not 0 < file <= len(files) or depths[called] >= DEEPEST:
                raise DamageError("an inconsistent row in the line table", self._table.start + offset)
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
        """Per code section: offsets of its line sequences and their base addresses."""
        found: dict[int, list[tuple[int, int]]] = {}
        symbols = self._symbols  # ptxas 12.0 links a wrong symbol table
        for relocation in self._elf.relocations(self._section or 0):
            if relocation.symbol >= len(symbols):
                raise DamageError("a relocation refers to a missing symbol", self._table.start)
            symbol = symbols[relocation.symbol]
            begin = relocation.offset - len(SET_ADDRESS)
            found.setdefault(symbol.section, []).append((begin, symbol.value + relocation.addend))
        return found
