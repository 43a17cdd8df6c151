"""Source lines of accesses to local memory, where a cubin was compiled with ``-lineinfo`` or ``-G``."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillscan.binary.elf import Elf
from spillscan.binary.linetable import SET_ADDRESS, LineTable, Row
from spillscan.binary.window import DamageError
from spillscan.machine.accesses import Accesses
from spillscan.model.code import LocalTraffic, SourceLine

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

    def attach(self, local: LocalTraffic, section: int) -> LocalTraffic:
        """What the function in this code section does to local memory, its accesses with their source lines."""
        if self._section is None or not isinstance(local.accesses, Accesses):
            return local
        sources = self.of(section, local.accesses.addresses.tolist())
        return local if sources is None else replace(local, accesses=replace(local.accesses, sources=sources))

    def of(self, section: int, addresses: Sequence[int]) -> list[SourceLine | None] | None:
        """The source line of each address in a code section; ``None`` where the table does not tell of the section."""
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
        """The place of each row: innermost first, then where that was inlined."""
        chains: list[SourceLine | None] = []
        depths = [0]
        for _, file, line, called in rows:
            if called > len(chains) or not 0 < file <= len(files) or depths[called] >= DEEPEST:
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
        assert self._section is not None  # else nothing is attached
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
