"""Symbols of a cubin: names of its functions, and offsets of callees in a kernel's code; also the sections of each
function, and its texture, surface and sampler references."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.naming.identity import canonical
from spillscan.reading.binary.elf import FUNC, SYMTAB, Elf
from spillscan.reading.binary.window import DamageError, Window

_ENTRY = 0x10
"""Bit of a symbol's ``st_other`` that marks a kernel."""


class Symbols:
    """Symbols of one cubin. Raises :class:`DamageError` if it has none."""

    def __init__(self, elf: Elf) -> None:
        tables = np.flatnonzero(elf.sections["type"] == SYMTAB)
        if not len(tables):
            raise DamageError("a cubin without symbols", elf.window.start)
        self._elf = elf
        self._section = int(tables[0])
        self._targets: dict[int, bytes] = {}
        self.rows: NDArray[Any] = elf.symbols(self._section)
        """Records of type :data:`~spillscan.reading.binary.elf.SYMBOL`."""
        self.homes: list[int] = self.rows["section"].tolist()
        """Index of the section of each symbol."""
        self.are_kernels: list[bool] = (self.rows["other"] & _ENTRY != 0).tolist()
        """Whether each symbol of a function is a kernel."""

    def title(self, number: int) -> bytes:
        """Name of one symbol, followed by NUL; empty if there is no such symbol."""
        if number >= len(self.rows):
            return b""
        begin = self._places[number]
        return self._strings[begin : self._strings.find(b"\0", begin) + 1]

    def name(self, place: int) -> bytes:
        """Name of a symbol at offset ``place`` of the string table."""
        return self._strings[place : self._strings.find(b"\0", place)]

    def target(self, number: int) -> bytes:
        """Canonical name of a relocation's target: the symbol's, or its section's if it has none."""
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
        """Symbols of functions, by field."""
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
        """Functions that do not begin with their section: (offset, place of the name), ascending, by section."""
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
        """Names of symbols, each followed by NUL."""
        link = int(self._elf.sections[self._section]["link"])
        if link >= len(self._elf.sections):
            raise DamageError("a symbol table without names", self._elf.window.start)
        return b"".join((self._elf.contents(link).whole, b"\0"))


# Sections of a cubin that belong to functions, by index of the function's code section.

CODE = b".text."
"""Beginning of a code section's name, before the function's."""
_ALLOCATED, _EXECUTABLE = 2, 4
_OWNER = 0xFFFFFF
_BANKS = frozenset({0, 1, 2, 4, 14, 16})
"""Constant banks that belong to functions (CUDA 4 to 13; only 0 and 2 in public wheels)."""
_TEXT, _INFO, _CONSTANT, _SHARED, _LOCAL = (
    int.from_bytes(head, "little") for head in (CODE, b".nv.info", b".nv.cons", b".nv.shar", b".nv.loca")
)
"""Beginnings of section names, as in :attr:`Elf.heads`."""
_TEXT_MASK = (1 << 8 * len(CODE)) - 1


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
    """Number in the name of a function's constant bank; ``None`` if there is none."""
    bank, dot, _ = letters.partition(b".")
    return int(bank) if dot and bank.isdigit() else None


_LAST_ARCH = 89
_TEXTURE, _SAMPLER, _SURFACE = 10, 11, 12
"""Symbol types of references."""
_BANK_RELOCATIONS = b".rel.nv.constant0."
_REL = np.dtype([("offset", "<u8"), ("info", "<u8")])


class References(NamedTuple):
    """Numbers of texture, surface and sampler references of a function: symbols of these types in relocations of
    constant bank 0.

    Equal to ptxas's output up to sm_89. From sm_90 on ptxas prints none, and the relocations name no symbols. Bindless
    objects, which are passed to a kernel, do not count, since no cubin contains them.
    """

    textures: int
    surfaces: int
    samplers: int


def references_by_section(elf: Elf, symbols: NDArray[Any], number: int) -> dict[int, References]:
    """References by code section; functions without any are left out. ``number``: of the architecture."""
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
