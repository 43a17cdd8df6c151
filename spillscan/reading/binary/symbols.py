"""Symbols of a cubin: what its functions are called, and where callees stand in the code of a kernel;
the sections that belong to functions, and the references that they name."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.naming.identity import canonical
from spillscan.reading.binary.elf import FUNC, SYMTAB, Elf
from spillscan.reading.binary.window import DamageError, Window

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


# Sections of a cubin that belong to functions, each by the number of its function's code section.

CODE = b".text."
"""What stands before a function's name in that of its section."""
_ALLOCATED, _EXECUTABLE = 2, 4
_OWNER = 0xFFFFFF
_BANKS = frozenset({0, 1, 2, 4, 14, 16})
"""Those that belong to functions (CUDA 4 to 13; in public wheels 0 and 2 alone)."""
_TEXT, _INFO, _CONSTANT, _SHARED, _LOCAL = (
    int.from_bytes(head, "little") for head in (CODE, b".nv.info", b".nv.cons", b".nv.shar", b".nv.loca")
)
"""How the names of sections begin, as :attr:`Elf.heads` has it."""
_TEXT_MASK = (1 << 8 * len(CODE)) - 1


class Sections(NamedTuple):
    """Code sections, and what belongs to each, by its number."""

    text: list[int]
    infos: dict[int, Window]
    shared: dict[int, tuple[int, int]]
    """Bytes, and their alignment."""
    local: dict[int, int]
    banks: dict[int, list[tuple[int, int]]]
    """(bank, bytes)."""
    constants: dict[int, list[int]]
    """Sections of the constants that the compiler gave it; its parameters (bank 0) are empty in a file."""
    strange: int = 0
    """Sections of memory that belong to functions, and are called as none of these."""


def sections_of(elf: Elf) -> Sections:
    """Those of one cubin; of several of one kind for a function the last, but for constant banks."""
    heads, owners, sizes = elf.heads, elf.owners, elf.sizes

    def named(head: int) -> list[int]:
        found: list[int] = (heads == head).nonzero()[0].tolist()
        return found

    executable = elf.sections["flags"] & _EXECUTABLE != 0
    text = ((heads & _TEXT_MASK == _TEXT) & executable).nonzero()[0]
    memory = (elf.sections["flags"] & (_ALLOCATED | _EXECUTABLE)) == _ALLOCATED
    owned = int(np.isin(elf.sections["info"][memory] & _OWNER, text).sum())
    banks: dict[int, list[tuple[int, int]]] = {}
    constants: dict[int, list[int]] = {}
    of_banks: list[int] = []
    for index in named(_CONSTANT):
        bank = _bank(elf.letters(index, len(b".nv.constant"), len(b"16.")))
        if bank in _BANKS:
            of_banks.append(index)
        if bank is not None:
            banks.setdefault(owners[index], []).append((bank, sizes[index]))
        if bank != 0:
            constants.setdefault(owners[index], []).append(index)
    shared, local = named(_SHARED), named(_LOCAL)
    alignments = elf.sections["align"][shared].tolist()
    return Sections(
        text.tolist(),
        {
            owners[index]: elf.window.part(elf.offsets[index], sizes[index], ".nv.info")
            for index in named(_INFO)
            if elf.begins(index, b".nv.info.")
        },
        {owners[index]: (sizes[index], alignment) for index, alignment in zip(shared, alignments, strict=True)},
        {owners[index]: sizes[index] for index in local},
        banks,
        constants,
        owned - int(np.isin(elf.sections["info"][[*shared, *local, *of_banks]] & _OWNER, text).sum()),
    )


def _bank(letters: bytes) -> int | None:
    """The number in the name of a function's constant bank; ``None`` where it is none."""
    bank, dot, _ = letters.partition(b".")
    return int(bank) if dot and bank.isdigit() else None


_LAST_ARCH = 89
_TEXTURE, _SAMPLER, _SURFACE = 10, 11, 12
"""Kinds of symbols."""
_BANK_RELOCATIONS = b".rel.nv.constant0."
_REL = np.dtype([("offset", "<u8"), ("info", "<u8")])


class References(NamedTuple):
    """How many texture, surface and sampler references a function names: symbols of their own kinds, which relocations
    of constant bank 0 name.

    Equal to what ptxas prints up to sm_89. From sm_90 on it prints none, and the relocations name no symbols. Objects
    that a kernel is given (bindless) are no references: they stand in no cubin, and there is no figure.
    """

    textures: int
    surfaces: int
    samplers: int


def references_by_section(elf: Elf, symbols: NDArray[Any], number: int) -> dict[int, References]:
    """By code section; functions without references are left out. ``number``: of the architecture."""
    kinds = symbols["info"] & 15
    if number > _LAST_ARCH or not ((kinds >= _TEXTURE) & (kinds <= _SURFACE)).any():
        return {}
    owners = elf.owners
    found: dict[int, References] = {}
    for index, name in enumerate(elf.names):
        if not name.startswith(_BANK_RELOCATIONS) or owners[index] >= len(owners):
            continue
        table = elf.contents(index)
        relocations = table.array(_REL, table.size // _REL.itemsize, 0, "relocations")
        named = np.unique(relocations["info"] >> 32)
        counts = np.bincount(kinds[named[named < len(kinds)].astype(np.int64)], minlength=16).tolist()
        if any(counts[_TEXTURE : _SURFACE + 1]):
            found[owners[owners[index]]] = References(counts[_TEXTURE], counts[_SURFACE], counts[_SAMPLER])
    return found
