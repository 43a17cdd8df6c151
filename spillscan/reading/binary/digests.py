"""Digests of functions, over code, compiler-generated constants, and names in the relocations of both.

Excluded: parameters (bank 0, which is empty in a file), and module-wide variables (banks 3 and 4).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np

from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.symbols import Symbols
from spillscan.reading.binary.window import Window

_RECORDS = {9: struct.Struct("<QQ"), 4: struct.Struct("<QQq")}
"""Relocation records by section type: offset, symbol and kind, and an addend if the code does not contain it."""


class Relocations:
    """The relocations of one cubin by the section that they apply to."""

    def __init__(self, elf: Elf) -> None:
        self._elf = elf
        self._tables: dict[int, list[tuple[int, struct.Struct]]] = {}
        kinds, owners = elf.sections["type"], elf.sections["info"]
        for kind, form in _RECORDS.items():
            indices = np.flatnonzero(kinds == kind)
            for index, owner in zip(indices.tolist(), owners[indices].tolist(), strict=True):
                self._tables.setdefault(owner, []).append((index, form))

    def of(self, section: int) -> Iterator[tuple[int, int, int, int]]:
        """(offset, kind, symbol, addend) of each relocation of a section, in file order."""
        for index, form in self._tables.get(section, ()):
            table = self._elf.contents(index)
            whole = table.copy(0, table.size // form.size * form.size, "relocations")
            for offset, info, *addend in form.iter_unpack(whole):
                yield offset, info & 0xFFFFFFFF, info >> 32, addend[0] if addend else 0


class Digests:
    """Digests of the functions of one cubin."""

    def __init__(self, elf: Elf, symbols: Symbols) -> None:
        self._elf, self._symbols, self._relocations = elf, symbols, Relocations(elf)

    def of(self, section: int, code: Window, constants: Sequence[int]) -> str:
        """Digest of a function in 32 hexadecimal digits, independent of its address and name. ``section``: its code;
        ``constants``: sections of its own constants."""
        hasher = sha256(code.whole)
        for each in (section, *constants):
            if each != section:
                hasher.update(self._elf.contents(each).whole)
            for offset, kind, symbol, addend in self._relocations.of(each):
                itself = symbol == self._elf.owners[section] & 0xFFFFFF
                name = b"" if itself else self._symbols.target(symbol)
                hasher.update(b"%x %d %d %b\n" % (offset, kind, addend, name))
        return hasher.hexdigest()[:32]
