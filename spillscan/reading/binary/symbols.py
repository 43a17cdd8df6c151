"""Symbols of a cubin: what its functions are called, and where callees stand in the code of a kernel."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillscan.naming.identity import canonical
from spillscan.reading.binary.elf import FUNC, SYMTAB, Elf
from spillscan.reading.binary.window import DamageError

_ENTRY = 0x10
"""In a symbol's ``st_other``: a kernel."""


class Symbols:
    """Those of one cubin. Raises :class:`DamageError` where it has none."""

    def __init__(self, elf: Elf) -> None:
        tables = np.flatnonzero(elf.sections["type"] == SYMTAB)
        if not len(tables):
            raise DamageError("a cubin without symbols", elf.window.start)
        self._elf = elf
        self._section = int(tables[0])
        self._targets: dict[int, bytes] = {}
        self.rows: NDArray[Any] = elf.symbols(self._section)
        """:data:`~spillscan.reading.binary.elf.SYMBOL`."""
        self.homes: list[int] = self.rows["section"].tolist()
        """Number of the section that each is in."""
        self.are_kernels: list[bool] = (self.rows["other"] & _ENTRY != 0).tolist()
        """Of functions."""

    def title(self, number: int) -> bytes:
        """The name of one symbol, with NUL behind it; empty where there is no such symbol."""
        if number >= len(self.rows):
            return b""
        begin = self._places[number]
        return self._strings[begin : self._strings.find(b"\0", begin) + 1]

    def name(self, place: int) -> bytes:
        """What stands there among the names of symbols."""
        return self._strings[place : self._strings.find(b"\0", place)]

    def target(self, number: int) -> bytes:
        """The canonical name of what a relocation points at: of a symbol; of one without a name, its section's."""
        name = self._targets.get(number)
        if name is None:
            name = b""
            if number < len(self.rows):
                name, section = self.name(self._places[number]), self.homes[number]
                if not name and section < len(self._elf.names):
                    name = self._elf.names[section]
            name = canonical(name.decode("utf-8", "backslashreplace")).encode("utf-8", "backslashreplace")
            self._targets[number] = name
        return name

    @cached_property
    def functions(self) -> dict[str, NDArray[Any]]:
        """Those of functions, by field."""
        rows = (self.rows["info"] & 15 == FUNC).nonzero()[0]
        return {field: self.rows[field][rows] for field in ("section", "other", "value", "name")}

    @cached_property
    def kernels(self) -> list[int]:
        """Sections of the kernels."""
        homes = self.functions["section"]
        found: list[int] = homes[(homes > 0) & (self.functions["other"] & _ENTRY != 0)].tolist()
        return found

    @cached_property
    def inner(self) -> dict[int, list[tuple[int, int]]]:
        """Functions that do not begin where their section does: offset and place of the name, ascending, by section."""
        mine = (self.functions["value"] > 0).nonzero()[0]
        columns = (self.functions[each][mine].tolist() for each in ("section", "value", "name"))
        found: dict[int, list[tuple[int, int]]] = {}
        for section, begin, place in zip(*columns, strict=True):
            found.setdefault(section, []).append((begin, place))
        return {section: sorted(each) for section, each in found.items()}

    @cached_property
    def _places(self) -> list[int]:
        places: list[int] = self.rows["name"].tolist()
        return places

    @cached_property
    def _strings(self) -> bytes:
        """Names of symbols, each with NUL behind it."""
        link = int(self._elf.sections[self._section]["link"])
        if link >= len(self._elf.sections):
            raise DamageError("a symbol table without names", self._elf.window.start)
        return b"".join((self._elf.contents(link).whole, b"\0"))
