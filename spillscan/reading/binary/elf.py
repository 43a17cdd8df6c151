"""ELF reader: headers, sections and symbols as NumPy records. Host files may be 32 or 64 bits; cubins are always 64."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillscan.reading.binary.window import DamageError, Window

MAGIC = b"\x7fELF"
MACHINE_CUDA = 190
NOBITS = 8
SYMTAB = 2
FUNC = 2
_WORD = 8
HEADER_BYTES = SECTION_BYTES = 64
"""Bytes of the file header and of a section header in a 64-bit file."""
LARGEST_TABLE = 1 << 24
"""Maximum number of sections or symbols; the largest cubin seen has 60,000."""

_SECTION = np.dtype(
    [
        ("name", "<u4"),
        ("type", "<u4"),
        ("flags", "<u8"),
        ("address", "<u8"),
        ("offset", "<u8"),
        ("size", "<u8"),
        ("link", "<u4"),
        ("info", "<u4"),
        ("align", "<u8"),
        ("entry", "<u8"),
    ]
)
_SECTION_32 = np.dtype(
    [(name, "<u4") for name in ("name", "type", "flags", "address", "offset", "size", "link", "info", "align", "entry")]
)
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


def _column(name: str) -> cached_property[list[int]]:
    def column(elf: Elf) -> list[int]:
        found: list[int] = elf.sections[name].tolist()
        return found

    return cached_property(column)


class Elf:
    """One ELF file. Raises :class:`DamageError` if its headers contradict its size."""

    def __init__(self, window: Window) -> None:
        self.window = window
        ident = window.copy(0, 16, "ELF header")
        if ident[5] != 1:
            raise DamageError("a big-endian ELF file; CUDA hosts are little-endian", window.start)
        self.abi, self.abi_version = ident[7], ident[8]
        self.wide = wide = ident[4] == 2
        self.type, self.machine, self.version = window.unpack("HHI", 16, "ELF header")
        if wide:
            table, self.flags, _, _, _, entry, count, names = window.unpack("QIHHHHHH", 40, "ELF header")
        else:
            table, self.flags, _, _, _, entry, count, names = window.unpack("IIHHHHHH", 32, "ELF header")
        kind = _SECTION if wide else _SECTION_32
        self.table = (table, 0)
        """Offset and size of the section headers."""
        if not table:
            self.sections: NDArray[Any] = np.empty(0, _SECTION)
            return
        if entry != kind.itemsize:
            raise DamageError(f"ELF section headers of {entry} bytes, not {kind.itemsize}", window.start)
        first = window.array(kind, 1, table, "ELF section headers")[0]
        count = count or int(first["size"])  # from 65,280 sections on, the first header has the count
        if names == 0xFFFF:
            names = int(first["link"])
        if count > LARGEST_TABLE:
            raise DamageError(f"{count} ELF sections", window.start)
        sections = window.array(kind, count, table, "ELF section headers")
        self.table = (table, count * kind.itemsize)
        self.sections = sections if wide else sections.astype(_SECTION)
        if names >= count:
            raise DamageError(f"ELF section {names} of {count} should contain their names", window.start)
        self._names = self.contents(names)

    def contents(self, index: int) -> Window:
        """Bytes of one section; empty if it takes no space in the file."""
        if index >= len(self.sections):
            raise DamageError(f"ELF section {index} of {len(self.sections)}", self.window.start)
        if self.kinds[index] == NOBITS:
            return Window(self.window.buffer, self.window.start, 0)
        return self.window.part(self.offsets[index], self.sizes[index], f"ELF section {index}")

    kinds = _column("type")
    """The type of each section."""
    offsets = _column("offset")
    """Offset of each section in the file."""
    sizes = _column("size")
    """Bytes of each section."""
    owners = _column("info")
    """``sh_info`` of each section, which refers to a related section or symbol."""
    traits = _column("flags")
    """The flags of each section."""

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
        ends = self.sections["offset"] + self.sections["size"]
        last = int(ends[self.sections["type"] != NOBITS].max(initial=0))
        return max(last, *(offset + size for offset, size in self.headers.values()))

    @cached_property
    def pool(self) -> bytes:
        """Section names, each followed by NUL, and a word of NULs at the end."""
        return b"".join((self._names.whole if len(self.sections) else b"", bytes(_WORD)))

    _places = _column("name")
    """Offset of each section's name in the pool; may be beyond its end."""

    @cached_property
    def names(self) -> list[bytes]:
        """Names of all sections."""
        pool = self.pool
        return [pool[at : pool.find(b"\0", at)] if at < len(pool) else b"" for at in self._places]

    @cached_property
    def heads(self) -> NDArray[np.uint64]:
        """First eight bytes of each section's name, as numbers; bytes after a NUL belong to another name."""
        pool = self.pool
        last = len(pool) - _WORD
        words: NDArray[np.uint64] = np.ndarray((last + 1,), "<u8", pool, 0, (1,))
        found: NDArray[np.uint64] = words[np.minimum(self.sections["name"], last)]
        return found

    def begins(self, index: int, name: bytes) -> bool:
        """Whether the name of one section begins with ``name``, which may end in NUL."""
        return self.pool.startswith(name, self._places[index])

    def letters(self, index: int, offset: int, size: int) -> bytes:
        """Part of the name of one section; bytes after a NUL belong to another name."""
        begin = self._places[index] + offset
        return self.pool[begin : begin + size]

    def index(self, name: bytes) -> int | None:
        """Index of the first section called ``name``, of at least eight bytes; ``None`` if there is none."""
        wanted, whole = int.from_bytes(name[:_WORD], "little"), name + b"\0"
        return next((at for at in np.flatnonzero(self.heads == wanted).tolist() if self.begins(at, whole)), None)

    def symbols(self, index: int) -> NDArray[Any]:
        """Symbols of a symbol table section of a 64-bit file."""
        contents = self.contents(index)
        return contents.array(SYMBOL, min(contents.size // SYMBOL.itemsize, LARGEST_TABLE), 0, "ELF symbols")
