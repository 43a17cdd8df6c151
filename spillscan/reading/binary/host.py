"""Host files: ELF, Windows executables (PE) and objects (COFF), by their public formats. Finds the sections of fat
binaries, those whose data may contain GPU code, and the source of each fat binary.

Compilers put fat binaries into sections of their own. Cubins embedded by other means (``ld -r -b binary``, ``bin2c``, a
compiler that writes objects) are among the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

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
"""Sections of fat binaries: of whole programs, of relocatable ones; then both names as COFF truncates them."""
_WRAPPERS = b".nvFatBinSegment"
_NO_DATA = (b".eh_frame", b".gcc_except_table", b".debug_", b".got", b".plt", b".comment", b".pdata", b".reloc")
"""Sections of metadata that compilers and linkers write for each other."""
_EXECUTABLE = 4
_TABLES = frozenset({SYMTAB, 3, 4, 5, 6, 7, 9, 11, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF})
"""Types of ELF sections without data: symbols, strings, relocations, hashes, the dynamic section, notes."""
_LEAST_GAP_BYTES = 64
"""Minimum bytes of a gap between sections; less is padding."""


class Section(NamedTuple):
    """Part of a host file that may contain GPU code."""

    name: str
    """``.data``; empty for bytes outside of sections."""
    window: Window
    """Its bytes."""
    is_fat: bool
    """Whether it contains only fat binaries; otherwise it may contain anything."""


def of_elf(file: Elf) -> Iterator[Section]:
    """Sections of an ELF file, and gaps between them: a damaged header may have lost a section."""
    taken: list[tuple[int, int]] = [(0, 64)]
    for index, (name, section) in enumerate(zip(file.names, file.sections, strict=True)):
        if section.type == NOBITS or not (window := file.contents(index)).size:
            continue
        taken.append((window.start - file.window.start, window.size))
        if name.startswith(_FAT) and not name.startswith(b".nv_fatbinSegment"):
            yield Section(_shown(name), window, True)
        elif section.type not in _TABLES and not section.flags & _EXECUTABLE and not name.startswith(_NO_DATA):
            yield Section(_shown(name), window, False)
    taken.append(file.table)
    yield from _gaps(file.window, taken)


def _gaps(window: Window, taken: list[tuple[int, int]]) -> Iterator[Section]:
    """Parts of a file outside of the ``taken`` ones, which are (offset, size)."""
    end = 0
    for offset, size in (*sorted(taken), (window.size, 0)):
        if offset - end >= _LEAST_GAP_BYTES:
            yield Section("", window.part(end, offset - end, "gap"), False)
        end = max(end, offset + size)


def _shown(name: bytes) -> str:
    return name[:64].decode("utf-8", "backslashreplace")


def is_coff_object(window: Window) -> bool:
    """Whether a window begins like a COFF object of a machine that CUDA supports."""
    if window.size < _HEADER_BYTES + _SECTION_BYTES:
        return False
    machine, count, _, table, _, optional, _ = window.unpack("HHIIIHH", 0, "COFF header")
    return machine in (_X64, _ARM64) and 0 < count < 0xFF00 and optional == 0 and table <= window.size


def of_coff(window: Window) -> Iterator[Section]:
    """Sections of a Windows file, and gaps between them. Executables truncate names to 8 bytes."""
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
"""Symbol types: file and object."""
_POINTER_AT = 8
"""Offset in a wrapper of the pointer to its fat binary."""
_COMPILED = re.compile(r"^(?:tmpxft_[0-9a-f]+_[0-9a-f]+-\d+_)?(.+?)(?:\.compute_\w+)?\.cudafe\d*\.\w+$")
"""Name of the C++ file that nvcc generates from a source."""

_LINKED = b"link.stub"
"""Name of the stub that nvcc generates for all device-linked objects."""


def sources(file: Elf) -> dict[int, str]:
    """Stem of the source of each fat binary, by its offset, in a linked file with symbols.

    Each object has a wrapper, a local symbol that points to its fat binary and follows the symbol of its source file.
    In position-independent files a relocation contains the pointer.
    """
    wrappers = file.index(_WRAPPERS)
    table = next((index for index, each in enumerate(file.sections) if each.type == SYMTAB), None)
    if wrappers is None or table is None or not file.wide:
        return {}
    home, contents = file.sections[wrappers], file.contents(wrappers)
    names = file.contents(file.sections[table].link)
    stems: dict[int, bytes] = {}  # names of the source files, by the address of the pointer
    source: int | None = None
    for symbol in file.symbols(table):
        if symbol.info == _FILE:
            source = symbol.name
        elif symbol.info == _OBJECT and symbol.section == wrappers and source is not None:
            place = symbol.value + _POINTER_AT
            if home.address <= place <= home.address + home.size - 8:
                stems[place] = names.text(source, names.size)
    pointers = {place: contents.unpack("Q", place - home.address, "pointer")[0] for place in stems}
    pointers.update((offset, addend) for offset, addend in file.addends() if offset in stems)
    return {
        offset: _stem(stem.decode("utf-8", "backslashreplace"))
        for place, stem in stems.items()
        if stem != _LINKED and (offset := _offset(file, pointers[place])) is not None
    }


def _stem(name: str) -> str:
    match = _COMPILED.match(name)
    return match[1] if match else name


def _offset(file: Elf, address: int) -> int | None:
    """File offset of an address; ``None`` if no section contains it."""
    for section in file.sections:
        if 0 < section.address <= address < section.address + section.size and section.type != NOBITS:
            return file.window.start + section.offset + address - section.address
    return None
