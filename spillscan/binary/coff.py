"""Sections of Windows executables (PE) and objects (COFF), by the public format."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.binary.window import DamageError, Window

DOS_MAGIC = b"MZ"
_PE_MAGIC = b"PE\0\0"
_X64, _ARM64 = 0x8664, 0xAA64
_HEADER_BYTES = 20
_SECTION_BYTES = 40


def is_object(window: Window) -> bool:
    """Whether it begins as a COFF object of a machine with CUDA does."""
    if window.size < _HEADER_BYTES + _SECTION_BYTES:
        return False
    machine, count, _, table, _, optional, _ = window.unpack("HHIIIHH", 0, "COFF header")
    return machine in (_X64, _ARM64) and 0 < count < 0xFF00 and optional == 0 and table <= window.size


def sections(window: Window) -> Iterator[tuple[bytes, Window]]:
    """(name, bytes) of each section. Names longer than 8 bytes are cut in executables."""
    header = 0
    if window.starts(DOS_MAGIC):
        (header,) = window.unpack("I", 60, "DOS header")
        if window.copy(header, 4, "PE header") != _PE_MAGIC:
            raise DamageError("a Windows file without a PE header", window.start + header)
        header += 4
    _, count, _, symbols, symbol_count, optional, _ = window.unpack("HHIIIHH", header, "COFF header")
    names = symbols + 18 * symbol_count
    for number in range(count):
        at = header + _HEADER_BYTES + optional + number * _SECTION_BYTES
        name, virtual, _, size, offset = window.unpack("8sIIII", at, "section header")
        name = name.rstrip(b"\0")
        if name[:1] == b"/" and name[1:].isdigit():
            name = window.text(names + int(name[1:]), names + int(name[1:]) + 64)
        if size and offset:
            used = min(size, virtual) if virtual and header else size
            yield name, window.part(offset, used, "section")
