"""Finds every cubin in a file, whatever it is packed in: one dispatch by magic, one generator a container.

Static libraries (the ``ar`` format of Unix and of Windows import libraries) and sections of Windows executables (PE)
and objects (COFF) are read here, by their public formats. Nothing is unpacked to disk; names of members are shown,
never opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from spillscan.binary import archive, elf, fatbin
from spillscan.binary.window import Budget, DamageError, Window

_LIBRARY_MAGIC = b"!<arch>\n"
_MEMBER_HEADER_BYTES = 60
_LONGEST_NAME = 4096


def _library_members(window: Window) -> Iterator[tuple[str, Window]]:
    """(name, bytes) of each member; symbol tables and the table of long names are none.

    Raises :class:`DamageError` where a header is none.
    """
    at, names, farthest = len(_LIBRARY_MAGIC), Window(window.buffer, window.start, 0), 0
    while at + _MEMBER_HEADER_BYTES <= window.size:
        header = window.copy(at, _MEMBER_HEADER_BYTES, "library member")
        size = header[48:58].strip()
        if header[58:] != b"`\n" or not size.isdigit():
            raise DamageError("a library member without a header", window.start + at)
        at += _MEMBER_HEADER_BYTES
        body = window.part(at, int(size), "library member")
        at += int(size) + int(size) % 2
        name = header[:16].rstrip()
        if name == b"/" and not farthest and body.size >= 4:
            count = int.from_bytes(body.copy(0, 4, "library symbols"), "big")
            if 4 + 4 * count <= body.size:  # the first symbol table; the second of Windows counts otherwise
                farthest = int(body.array(np.dtype(">u4"), count, 4, "library symbols").max(initial=0))
        if name in (b"/", b"/SYM64/", b"__.SYMDEF"):
            continue
        if name == b"//":
            names = body
            continue
        if name.startswith(b"#1/") and name[3:].isdigit():  # BSD: the name stands before the bytes
            length = min(int(name[3:]), body.size)
            name = body.text(0, min(length, _LONGEST_NAME))
            body = body.part(length, body.size - length, "library member")
        elif name[:1] == b"/" and name[1:].isdigit():
            name = names.text(int(name[1:]), int(name[1:]) + _LONGEST_NAME).split(b"\n")[0]
        yield name.rstrip(b"/").decode("utf-8", "backslashreplace"), body
    if farthest >= window.size or window.copy(min(at, window.size), max(0, window.size - at), "library").strip(b"\n\0"):
        raise DamageError("a library that breaks off", window.start + min(at, window.size))


_DOS_MAGIC = b"MZ"
_PE_MAGIC = b"PE\0\0"
_X64, _ARM64 = 0x8664, 0xAA64
_HEADER_BYTES = 20
_SECTION_BYTES = 40


def _is_coff_object(window: Window) -> bool:
    """Whether it begins as a COFF object of a machine with CUDA does."""
    if window.size < _HEADER_BYTES + _SECTION_BYTES:
        return False
    machine, count, _, table, _, optional, _ = window.unpack("HHIIIHH", 0, "COFF header")
    return machine in (_X64, _ARM64) and 0 < count < 0xFF00 and optional == 0 and table <= window.size


def _coff_sections(window: Window) -> Iterator[tuple[bytes, Window]]:
    """(name, bytes) of each section. Names longer than 8 bytes are cut in executables."""
    header = 0
    if window.starts(_DOS_MAGIC):
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


_HOST_SECTIONS = (b".nv_fatbin", b"__nv_relfatbin", b".nv_fatb", b".nvFatBi", b"__nv_rel")
"""Where compilers put fat binaries: whole programs, relocatable ones; the others as COFF cuts their names."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands, for the reader's eye."""

    members: tuple[str, ...] = ()
    """Names of the archive members around it, outermost first."""
    identifier: str = ""
    """Source that the fat binary names."""
    depth: int = 0
    """Containers around it."""

    def inside(self, name: str) -> Place:
        """A member of this place."""
        return replace(self, members=(*self.members, name), depth=self.depth + 1)

    def __str__(self) -> str:
        return " > ".join(self.members)


@dataclass(frozen=True, slots=True)
class Image:
    """One cubin."""

    stored: fatbin.Entry | Window
    """Its bytes, where they may still be compressed."""
    place: Place
    """Where it stands."""
    offset: int
    """Of its stored bytes, in the innermost file."""
    arch: str = ""
    """``sm_90a``, as its fat binary says; empty outside of one."""

    @property
    def window(self) -> Window:
        """Its bytes; decompressed at each call, so that they are not kept. Raises :class:`DamageError`."""
        return self.stored if isinstance(self.stored, Window) else fatbin.image(self.stored)

    @property
    def raw(self) -> Window:
        """Its bytes as they are stored."""
        return self.stored if isinstance(self.stored, Window) else self.stored.stored

    @property
    def plain_bytes(self) -> int:
        """Size of its bytes, as its container claims."""
        return self.stored.size if isinstance(self.stored, Window) else self.stored.plain_bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that could not be read."""

    error: DamageError
    """What and where."""
    place: Place
    """In which member."""


Found = Image | Damage


def images(window: Window, budget: Budget, place: Place | None = None) -> Iterator[Found]:
    """Every cubin of a file, in the order of the file; damage on the way. Not what is only PTX."""
    place = place or Place()
    try:
        budget.enter(place.depth, window.start)
        yield from _dispatch(window, budget, place)
    except DamageError as error:
        yield Damage(error, place)


def holds_code(head: bytes) -> bool:
    """Whether a file that begins with ``head`` may hold cubins."""
    window = Window(head)
    return _reader(window) is not None


def _dispatch(window: Window, budget: Budget, place: Place) -> Iterator[Found]:
    reader = _reader(window)
    if reader is not None:
        yield from reader(window, budget, place)


def _reader(window: Window) -> Callable[[Window, Budget, Place], Iterator[Found]] | None:
    if window.starts(elf.MAGIC):
        return _elf
    if window.starts(fatbin.MAGIC):
        return _region
    if window.starts(_LIBRARY_MAGIC):
        return _library
    if window.starts(_DOS_MAGIC) or _is_coff_object(window):
        return _coff
    if archive.kind(window):
        return _archive
    return None


def _elf(window: Window, budget: Budget, place: Place) -> Iterator[Found]:
    file = elf.Elf(window)
    if file.machine == elf.MACHINE_CUDA:
        budget.take(window.size, window.size, window.start)
        yield Image(window, place, window.start)
        return
    sections = [
        file.contents(index)
        for index, name in enumerate(file.names)
        if name.startswith(_HOST_SECTIONS) and not name.startswith(b".nv_fatbinSegment")
    ]
    yield from _host(sections, budget, place)


def _coff(window: Window, budget: Budget, place: Place) -> Iterator[Found]:
    sections = [part for name, part in _coff_sections(window) if name.startswith(_HOST_SECTIONS)]
    yield from _host(sections, budget, place)


def _host(sections: list[Window], budget: Budget, place: Place) -> Iterator[Found]:
    """Cubins of a host file: executable ones; relocatable ones where there are no others, as cuobjdump does."""
    relocatable: list[Image] = []
    executable = False
    end = 0
    for section in sorted(sections, key=lambda part: part.start):
        if section.start < end:
            yield Damage(DamageError("sections overlap", section.start), place)
            continue
        end = section.start + section.size
        for entry in fatbin.entries(section):
            if isinstance(entry, DamageError):
                yield Damage(entry, place)
            elif entry.kind == fatbin.CUBIN:
                found = _image(entry, budget, place)
                if isinstance(found, Image) and _is_relocatable(entry):
                    relocatable.append(found)
                    continue
                executable = executable or isinstance(found, Image)
                yield found
    if not executable:
        yield from relocatable


def _region(window: Window, budget: Budget, place: Place) -> Iterator[Found]:
    yield from _host([window], budget, place)


def _image(entry: fatbin.Entry, budget: Budget, place: Place) -> Found:
    """The cubin of one entry. Only its beginning is decompressed here."""
    try:
        budget.enter(place.depth + 1, entry.stored.start)
        fatbin.claim(entry, budget)
        if not fatbin.head(entry, len(elf.MAGIC)) == elf.MAGIC:
            raise DamageError("a cubin that is no ELF file", entry.stored.start)
    except DamageError as error:
        return Damage(error, place)
    return Image(entry, replace(place, identifier=entry.identifier), entry.stored.start, entry.target)


def _is_relocatable(entry: fatbin.Entry) -> bool:
    """ET_REL: what the device linker still has to link."""
    return fatbin.head(entry, 18)[16:] == b"\1\0"


def _library(window: Window, budget: Budget, place: Place) -> Iterator[Found]:
    for name, member in _library_members(window):
        yield from images(member, budget, place.inside(name))


def _archive(window: Window, budget: Budget, place: Place) -> Iterator[Found]:
    for member in archive.members(window, budget):
        if isinstance(member, DamageError):
            yield Damage(member, place)
        else:
            yield from images(member[1], budget, place.inside(member[0]))
