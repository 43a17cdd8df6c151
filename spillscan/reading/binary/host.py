"""Files of the host: ELF files, and Windows executables (PE) and objects (COFF), by their public formats. Which of
their sections hold fat binaries, which hold data that may hold GPU code anywhere, and of which source each fat binary
is.

Compilers put fat binaries into sections of their own. Whoever embeds a cubin himself (``ld -r -b binary``, ``bin2c``,
a compiler that writes objects) puts it among the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spillscan.reading.binary.elf import NOBITS, SYMTAB, Elf
from spillscan.reading.binary.window import DamageError, Window

DOS_MAGIC = b"MZ"
_PE_MAGIC = b"PE\0\0"
_X64, _ARM64 = 0x8664, 0xAA64
_HEADER_BYTES = 20
_SECTION_BYTES = 40
_COFF_CODE = 0x20
_COFF_SECTION = "8sIIII12xI"

_FAT = (b".nv_fatbin", b"__nv_relfatbin", b".nv_fatb", b"__nv_rel")
"""Where compilers put fat binaries: whole programs, relocatable ones; the others as COFF cuts their names."""
_WRAPPERS = b".nvFatBinSegment"
_NO_DATA = (b".eh_frame", b".gcc_except_table", b".debug_", b".got", b".plt", b".comment", b".pdata", b".reloc")
"""Sections that hold what compilers and linkers write for each other."""
_EXECUTABLE = 4
_TABLES = frozenset({SYMTAB, 3, 4, 5, 6, 7, 9, 11, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF})
"""Types of ELF sections that hold no data: symbols, strings, relocations, hashes, the dynamic section, notes."""
_LEAST_GAP_BYTES = 64
"""Between sections, less is padding."""


class Section(NamedTuple):
    """A part of a host file that may hold GPU code."""

    name: str
    """``.data``; empty for what no section holds."""
    window: Window
    """Its bytes."""
    is_fat: bool
    """Whether it holds fat binaries and nothing else; otherwise anything may stand in it."""


def of_elf(file: Elf) -> Iterator[Section]:
    """Those of an ELF file, and what stands between its sections: a damaged header may have lost one."""
    taken: list[tuple[int, int]] = [(0, 64)]
    kinds, flags = file.sections["type"].tolist(), file.sections["flags"].tolist()
    for index, name in enumerate(file.names):
        if kinds[index] == NOBITS or not (window := file.contents(index)).size:
            continue
        taken.append((window.start - file.window.start, window.size))
        if name.startswith(_FAT) and not name.startswith(b".nv_fatbinSegment"):
            yield Section(_shown(name), window, True)
        elif kinds[index] not in _TABLES and not flags[index] & _EXECUTABLE and not name.startswith(_NO_DATA):
            yield Section(_shown(name), window, False)
    taken.append(file.table)
    yield from _gaps(file.window, taken)


def _gaps(window: Window, taken: list[tuple[int, int]]) -> Iterator[Section]:
    """What none of the parts that are taken, each (offset, size), holds of a file."""
    end = 0
    for offset, size in (*sorted(taken), (window.size, 0)):
        if offset - end >= _LEAST_GAP_BYTES:
            yield Section("", window.part(end, offset - end, "gap"), False)
        end = max(end, offset + size)


def _shown(name: bytes) -> str:
    return name[:64].decode("utf-8", "backslashreplace")


def is_coff_object(window: Window) -> bool:
    """Whether it begins as a COFF object of a machine with CUDA does."""
    if window.size < _HEADER_BYTES + _SECTION_BYTES:
        return False
    machine, count, _, table, _, optional, _ = window.unpack("HHIIIHH", 0, "COFF header")
    return machine in (_X64, _ARM64) and 0 < count < 0xFF00 and optional == 0 and table <= window.size


def of_coff(window: Window) -> Iterator[Section]:
    """Sections of a Windows file, and the bytes between them. Executables cut names after 8 bytes."""
    header = 0
    if window.starts(DOS_MAGIC):
        (header,) = window.unpack("I", 60, "DOS header")
        if window.copy(header, 4, "PE header") != _PE_MAGIC:
            raise DamageError("a Windows file without a PE header", window.start + header)
        header += 4
    _, count, _, symbols, symbol_count, optional, _ = window.unpack("HHIIIHH", header, "COFF header")
    names = symbols + 18 * symbol_count
    first = header + _HEADER_BYTES + optional
    taken = [(0, first + count * _SECTION_BYTES)]
    for number in range(count):
        at = first + number * _SECTION_BYTES
        name, virtual, _, size, offset, flags = window.unpack(_COFF_SECTION, at, "section header")
        name = name.rstrip(b"\0")
        if name[:1] == b"/" and name[1:].isdigit():
            name = window.text(names + int(name[1:]), names + int(name[1:]) + 64)
        if not size or not offset:
            continue
        taken.append((offset, size))
        part = window.part(offset, min(size, virtual) if virtual and header else size, "section")
        if name.startswith(_FAT):
            yield Section(_shown(name), part, True)
        elif not flags & _COFF_CODE and not name.startswith(_NO_DATA):
            yield Section(_shown(name), part, False)
    yield from _gaps(window, taken)


_FILE, _OBJECT = 4, 1
"""Kinds of symbols."""
_RELOCATIONS = 4
RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_POINTER_AT = 8
"""In a wrapper: where the fat binary stands."""
_COMPILED = re.compile(r"^(?:tmpxft_[0-9a-f]+_[0-9a-f]+-\d+_)?(.+?)(?:\.compute_\w+)?\.cudafe\d*\.\w+$")
"""What nvcc calls the C++ that it makes of a source."""

_LINKED = b"link.stub"
"""What nvcc makes of all objects that the device linker has linked."""


def sources(file: Elf) -> dict[int, str]:
    """Of a linked file with symbols: offset of a fat binary -> stem of the source that it was compiled from.

    Each object has a wrapper, a local symbol, that points to its fat binary; the symbol of its file stands before it.
    Where the file is loaded anywhere, a relocation holds what the pointer will be.
    """
    wrappers = file.index(_WRAPPERS)
    tables = np.flatnonzero(file.sections["type"] == SYMTAB)
    if wrappers is None or not len(tables) or not file.wide:
        return {}
    symbols = file.symbols(int(tables[0]))
    kinds = symbols["info"]
    files = np.flatnonzero(kinds == _FILE)
    found = np.flatnonzero((symbols["section"] == wrappers) & (kinds == _OBJECT))
    before = files.searchsorted(found) - 1
    found, before = found[before >= 0], before[before >= 0]
    home = file.sections[wrappers]
    places = symbols["value"][found] + _POINTER_AT
    inside = places - home["address"] + 8 <= home["size"]
    found, before, places = found[inside], before[inside], places[inside]
    contents = file.contents(wrappers)
    pointers = {
        int(place): contents.unpack("Q", int(place - home["address"]), "pointer")[0] for place in places.tolist()
    }
    for index in np.flatnonzero(file.sections["type"] == _RELOCATIONS).tolist():
        table = file.contents(index)
        rows = table.array(RELA, table.size // RELA.itemsize, 0, "relocations")
        for row in rows[np.isin(rows["offset"], places)]:
            pointers[int(row["offset"])] = int(row["addend"])
    names = file.contents(int(file.sections[tables[0]]["link"]))
    stems = (names.text(int(symbols["name"][files[at]]), names.size) for at in before.tolist())
    return {
        offset: _stem(stem.decode("utf-8", "backslashreplace"))
        for place, stem in zip(places.tolist(), stems, strict=True)
        if stem != _LINKED and (offset := _offset(file, pointers[place])) is not None
    }


def _stem(name: str) -> str:
    match = _COMPILED.match(name)
    return match[1] if match else name


def _offset(file: Elf, address: int) -> int | None:
    """Where in the file an address stands."""
    sections = file.sections
    here = np.flatnonzero((sections["address"] <= address) & (address < sections["address"] + sections["size"]))
    here = here[(sections["address"][here] > 0) & (sections["type"][here] != NOBITS)]
    if not len(here):
        return None
    section = sections[here[0]]
    return file.window.start + int(section["offset"]) + address - int(section["address"])
