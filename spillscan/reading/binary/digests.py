"""What stands for a function's code: its bytes, the constants that the compiler gave it, and what relocations put into
both, by name and not by address.

Not in it: parameters (bank 0, which is empty in a file), and variables of the whole module (banks 3 and 4).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from xxhash import xxh3_64, xxh3_64_hexdigest

from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.symbols import Symbols
from spillscan.reading.binary.window import Window

_RECORDS = {9: struct.Struct("<QQ"), 4: struct.Struct("<QQq")}
"""Relocations, by the kind of their section: offset, symbol and kind, and the addend where it is not in the bytes."""


def digest_of_code(code: Window) -> str:
    """Of a function without constants and relocations: 16 hexadecimal digits."""
    return xxh3_64_hexdigest(code.whole)


class Digests:
    """Those of the functions of one cubin."""

    def __init__(self, elf: Elf, symbols: Symbols) -> None:
        self._elf = elf
        self._symbols = symbols
        self._relocations: dict[int, list[tuple[int, struct.Struct]]] = {}
        """Relocation sections, and the form of their records, by the section that they are about."""
        kinds, owners = elf.sections["type"], elf.sections["info"]
        for kind, form in _RECORDS.items():
            indices = np.flatnonzero(kinds == kind)
            for index, owner in zip(indices.tolist(), owners[indices].tolist(), strict=True):
                self._relocations.setdefault(owner, []).append((index, form))

    def of(self, section: int, code: Window, constants: Sequence[int]) -> str:
        """16 hexadecimal digits; empty where they are those of :func:`digest_of_code`. ``section``: the function's;
        ``constants``: those of its own constants."""
        relocations = self._relocations
        if not constants and section not in relocations:
            return ""
        hasher = xxh3_64(code.whole)
        self._relocated(section, section, hasher)
        for each in constants:
            hasher.update(self._elf.contents(each).whole)
            self._relocated(each, section, hasher)
        return hasher.hexdigest()

    def _relocated(self, section: int, code: int, hasher: xxh3_64) -> None:
        """Take the relocations of one section of a function into its digest; ``code``: its code section."""
        for offset, text in self.relocations(section, code):
            hasher.update(b"%x %b\n" % (offset, text))

    def relocations(self, section: int, code: int) -> Iterator[tuple[int, bytes]]:
        """(offset, kind, addend and name of what is put there) of one section of a function."""
        itself = self._elf.owners[code] & 0xFFFFFF
        for index, form in self._relocations.get(section, ()):
            table = self._elf.contents(index)
            whole = table.copy(0, table.size // form.size * form.size, "relocations")
            for offset, info, *addend in form.iter_unpack(whole):
                name = b"" if info >> 32 == itself else self._symbols.target(info >> 32)
                yield offset, b"%d %d %b" % (info & 0xFFFFFFFF, addend[0] if addend else 0, name)
