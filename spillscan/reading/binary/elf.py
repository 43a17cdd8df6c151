"""ELF reader: headers, sections, symbols and relocations. Host files may be 32 or 64 bits; cubins are always 64."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from itertools import starmap
from typing import NamedTuple

from spillscan.reading.binary.window import DamageError, Window

MAGIC = b"\x7fELF"
MACHINE_CUDA = 190
NOBITS = 8
SYMTAB = 2
FUNC = 2
HEADER_BYTES = SECTION_BYTES = 64
"""Bytes of the file header and of a section header in a 64-bit file."""
LARGEST_TABLE = 1 << 20
"""Maximum number of sections or symbols of a cubin; the largest cubin seen has 60,000."""
_SECTION, _SECTION_32, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<10I"), struct.Struct("<IBBHQQ")
_RELA = 4
_RELOCATIONS = {9: struct.Struct("<QQ"), _RELA: struct.Struct("<QQq")}
"""Relocation records by section type: offset, symbol and kind, and an addend if the section does not contain it."""


class Section(NamedTuple):
    """Section header."""

    name: int
    """Place of the name."""
    type: int
    flags: int
    address: int
    offset: int
    """In the file."""
    size: int
    link: int
    info: int
    """Related section or symbol."""
    align: int
    entry: int


class Symbol(NamedTuple):
    """Entry of a symbol table."""

    name: int
    """Place of the name."""
    info: int
    other: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """Place in a section, and the symbol that is inserted there."""

    offset: int
    kind: int
    symbol: int
    addend: int


class Elf:
    """One ELF file. Raises :class:`DamageError` if its headers contradict its size."""

    def __init__(self, window: Window) -> None:
        self.window = window
        ident = window.copy(0, 16, "ELF header")
        if ident[5] != 1:
            raise DamageError("big-endian ELF files are not supported", window.start)
        self.abi, self.abi_version = ident[7], ident[8]
        self.wide = wide = ident[4] == 2
        self.type, self.machine, self.version = window.unpack("HHI", 16, "ELF header")
        header = ("QIHHHHHH", 40) if wide else ("IIHHHHHH", 32)
        table, self.flags, _, _, _, entry, count, names = window.unpack(*header, "ELF header")
        form = _SECTION if wide else _SECTION_32
        self.table = (table, 0)
        """Offset and size of the section headers."""
        self.sections: list[Section] = []
        self._pool: Window | None = None
        if not table:
            return
        if entry != form.size:
            raise DamageError(f"ELF section header size {entry}, expected {form.size}", window.start)
        first = Section(*form.unpack(window.copy(table, form.size, "ELF section headers")))
        count = count or first.size  # from 65,280 sections on, the first header has the count
        names = first.link if names == 0xFFFF else names
        if count > LARGEST_TABLE:
            raise DamageError(f"{count:,} ELF sections, at most {LARGEST_TABLE:,} allowed", window.start)
        self.table = (table, count * form.size)
        rows = window.copy(table, count * form.size, "ELF section headers")
        self.sections = [*starmap(Section, form.iter_unpack(rows))]
        if names >= count:
            raise DamageError(f"section names in section {names}, but the last one is {count - 1}", window.start)
        self._pool = self.contents(names)

    def contents(self, index: int) -> Window:
        """Bytes of one section; empty if it takes no space in the file."""
        if index > (last := len(self.sections) - 1):
            raise DamageError(f"a reference to ELF section {index}; the last section is {last}", self.window.start)
        section = self.sections[index]
        if section.type == NOBITS:
            return Window(self.window.buffer, self.window.start, 0)
        return self.window.part(section.offset, section.size, f"ELF section {index}")

    @property
    def headers(self) -> dict[str, tuple[int, int]]:
        """(offset, size) of each header table, by name."""
        wide = self.wide
        (segments,) = self.window.unpack("Q" if wide else "I", 32 if wide else 28, "ELF header")
        size, count = self.window.unpack("HH", 54 if wide else 42, "ELF header")
        room = size * count
        if segments + room == self.window.size + 1:
            room -= 1  # CuPy (14.2) drops a cubin's last byte, a zero that only loaders read
        return {
            "ELF header": (0, HEADER_BYTES if wide else 52),
            "program headers": (int(segments), room) if count else (0, 0),
            "section headers": self.table,
        }

    @property
    def extent(self) -> int:
        """End of its headers, sections and segments; in a container the next file may begin there."""
        ends = [section.offset + section.size for section in self.sections if section.type != NOBITS]
        return max([*ends, *(offset + size for offset, size in self.headers.values())])

    @cached_property
    def pool(self) -> bytes:
        """Section names, each followed by NUL."""
        return b"".join((b"" if self._pool is None else self._pool.whole, b"\0"))

    @cached_property
    def names(self) -> list[bytes]:
        """Names of all sections; empty beyond the end of the pool."""
        pool = self.pool
        return [pool[section.name : pool.find(b"\0", section.name)] for section in self.sections]

    def index(self, name: bytes) -> int | None:
        """Index of the first section called ``name``; ``None`` if there is none."""
        return self.names.index(name) if name in self.names else None

    def symbols(self, index: int) -> Iterator[Symbol]:
        """Symbols of a symbol table section of a 64-bit file."""
        contents = self.contents(index)
        rows = contents.view(0, contents.size // _SYMBOL.size * _SYMBOL.size, "ELF symbols")
        return starmap(Symbol, _SYMBOL.iter_unpack(rows))

    def addends(self) -> Iterator[tuple[int, int]]:
        """(offset, addend) of all relocations."""
        for section in self._tables:
            yield from ((each.offset, each.addend) for each in self.relocations(section))

    @cached_property
    def _tables(self) -> dict[int, list[int]]:
        """Relocation sections by the section that they apply to."""
        tables: dict[int, list[int]] = {}
        for kind in _RELOCATIONS:
            for index, section in enumerate(self.sections):
                if section.type == kind:
                    tables.setdefault(section.info, []).append(index)
        return tables

    def relocations(self, section: int) -> Iterator[Relocation]:
        """Relocations of a section, in file order."""
        for index in self._tables.get(section, ()):
            form, table = _RELOCATIONS[self.sections[index].type], self.contents(index)
            rows = table.copy(0, table.size // form.size * form.size, "relocations")
            for offset, info, *addend in form.iter_unpack(rows):
                yield Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend[0] if addend else 0)
