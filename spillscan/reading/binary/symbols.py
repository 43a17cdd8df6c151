"""Symbols of a cubin: names of its functions, and offsets of callees in a kernel's code; also the sections of each
function."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from spillscan.naming.symbol import canonical
from spillscan.reading.binary.elf import FUNC, LARGEST_TABLE, SYMTAB, Elf, Symbol
from spillscan.reading.binary.window import DamageError, Window

_ENTRY = 0x10
"""Bit of a symbol's ``st_other`` that marks a kernel."""


class Symbols:
    """Symbols of one cubin. Raises :class:`DamageError` if it has none."""

    def __init__(self, elf: Elf) -> None:
        section = next((index for index, each in enumerate(elf.sections) if each.type == SYMTAB), None)
        if section is None:
            raise DamageError("the cubin has no symbols", elf.window.start)
        if elf.sections[section].size > LARGEST_TABLE * 24:
            raise DamageError("the cubin has too many symbols", elf.window.start)
        self._elf = elf
        self._targets: dict[int, bytes] = {}
        self._names = elf.sections[section].link
        self.rows: list[Symbol] = [*elf.symbols(section)]

    def name(self, place: int) -> bytes:
        """Name of a symbol at offset ``place`` of the string table."""
        return self._strings[place : self._strings.find(b"\0", place)]

    def of_function(self, section: int) -> Symbol | None:
        """Symbol that a code section names as its function's; ``None`` if there is no such symbol."""
        number = self._elf.sections[section].info & OWNER
        return self.rows[number] if number < len(self.rows) else None

    def target(self, number: int) -> bytes:
        """Canonical name of a relocation's target: the symbol's, or its section's if it has none."""
        name = self._targets.get(number)
        if name is None:
            name = b""
            if number < len(self.rows):
                symbol = self.rows[number]
                name = self.name(symbol.name)
                if not name and symbol.section < len(self._elf.names):
                    name = self._elf.names[symbol.section]
            name = canonical(name.decode("utf-8", "backslashreplace")).encode("utf-8", "backslashreplace")
            self._targets[number] = name
        return name

    @cached_property
    def functions(self) -> list[Symbol]:
        """Symbols of functions."""
        return [symbol for symbol in self.rows if symbol.info & 15 == FUNC]

    @cached_property
    def kernels(self) -> set[int]:
        """Sections of the kernels."""
        return {symbol.section for symbol in self.functions if symbol.section > 0 and is_kernel(symbol)}

    @cached_property
    def inner(self) -> dict[int, list[tuple[int, int]]]:
        """Functions that do not begin with their section: (offset, place of the name), ascending, by section."""
        inner: dict[int, list[tuple[int, int]]] = {}
        for symbol in self.functions:
            if symbol.value > 0:
                inner.setdefault(symbol.section, []).append((symbol.value, symbol.name))
        return {section: sorted(functions) for section, functions in inner.items()}

    @cached_property
    def _strings(self) -> bytes:
        """Names of symbols, each followed by NUL."""
        if self._names >= len(self._elf.sections):
            raise DamageError("the symbol table has no string table", self._elf.window.start)
        return b"".join((self._elf.contents(self._names).whole, b"\0"))


def is_kernel(symbol: Symbol) -> bool:
    """Whether the symbol of a function is a kernel's."""
    return bool(symbol.other & _ENTRY)


# Sections of a cubin that belong to functions, by index of the function's code section.

CODE = b".text."
"""Beginning of a code section's name, before the function's."""
OWNER = 0xFFFFFF
"""Bits of ``sh_info`` that are the number of a symbol or section."""
_ALLOCATED, _EXECUTABLE = 2, 4
_BANKS = frozenset({0, 1, 2, 4, 14, 16})
"""Constant banks that belong to functions (CUDA 4 to 13; only 0 and 2 in public wheels)."""


_SHARED, _LOCAL, _CONSTANT = b".nv.shar", b".nv.loca", b".nv.cons"
"""Beginnings of the names of their memory sections."""


class Sections(NamedTuple):
    """Code sections, and the sections that belong to each, by its index."""

    text: list[int]
    infos: dict[int, Window]
    shared: dict[int, tuple[int, int]]
    """(bytes, alignment)."""
    local: dict[int, int]
    banks: dict[int, list[tuple[int, int]]]
    """(bank, bytes)."""
    constants: dict[int, list[int]]
    """Sections of compiler-generated constants; parameters (bank 0) are empty in a file."""
    strange: int = 0
    """Number of memory sections of functions with none of these names."""


def sections_of(elf: Elf) -> Sections:
    """Function sections of one cubin. If a function has several of one kind, the last one counts, except for constant
    banks."""
    names = elf.names
    text = [at for at, each in enumerate(elf.sections) if each.flags & _EXECUTABLE and names[at].startswith(CODE)]
    found, strange, functions = Sections(text, {}, {}, {}, {}, {}), 0, {*text}
    for index, (name, section) in enumerate(zip(names, elf.sections, strict=True)):
        owner, head, is_known = section.info, name[:8], False
        if head == b".nv.info" and name[8:9] == b".":
            found.infos[owner] = elf.window.part(section.offset, section.size, ".nv.info")
        elif head == _SHARED:
            found.shared[owner], is_known = (section.size, section.align), True
        elif head == _LOCAL:
            found.local[owner], is_known = section.size, True
        elif head == _CONSTANT:
            bank = _bank(name)
            is_known = bank in _BANKS
            if bank is not None:
                found.banks.setdefault(owner, []).append((bank, section.size))
            if bank != 0:
                found.constants.setdefault(owner, []).append(index)
        is_memory = section.flags & (_ALLOCATED | _EXECUTABLE) == _ALLOCATED
        strange += is_memory != is_known and owner & OWNER in functions
    return found._replace(strange=strange)


def _bank(name: bytes) -> int | None:
    """Number in the name of a function's constant bank; ``None`` if there is none."""
    bank, dot, _ = name[len(b".nv.constant") :][:3].partition(b".")
    return int(bank) if dot and bank.isdigit() else None
