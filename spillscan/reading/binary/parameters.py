"""What templates call their parameters, as the host's debug information says (``nvcc -g``, CMake's ``RelWithDebInfo``).

No compiler of NVIDIA's writes template parameters into a cubin's ``.debug_info``, whatever its options; the host
compiler does, of the stub of each kernel and of the classes that it is an instance of (DWARF 5, 2.23). Entries are
walked in their order; what does not hold names ends the walk of its unit, as names are for people alone.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from spillscan.model.build import merged_parameters
from spillscan.reading.binary.elf import MAGIC, Elf
from spillscan.reading.binary.host import RELA
from spillscan.reading.binary.window import DamageError, Window, leb

MOST_BYTES: Final = 1 << 26
"""Of one section of debug information; what is beyond is not read."""
MOST_ENTRIES: Final = 400_000
"""Of one input: about a second."""
_MOST_PARAMETERS, _MOST_TEMPLATES = 64, 20_000
_COMPRESSED, _ZLIB = 0x800, 1
_RELOCATIONS = 4
_ABSOLUTE = (10, 258)
"""Relocations of 32 bits to an address: of x86-64 and of aarch64."""
_OWNERS = (0x02, 0x13, 0x2E)
"""Tags of classes, structures and functions."""
_FUNCTION, _TYPE, _VALUE = 0x2E, 0x2F, 0x30
_PARAMETERS = (_TYPE, _VALUE, 0x4106)
"""Tags of parameters of templates, of which GCC has one for templates."""
_NAME_AT, _SIBLING = 0x03, 0x01
_STRING, _STRP, _LINE_STRP = 0x08, 0x0E, 0x1F
_REF4 = 0x13
_FIXED = {
    **dict.fromkeys((0x19, 0x21), 0),  # flag_present, implicit_const
    **dict.fromkeys((0x0B, 0x0C, 0x11, 0x25, 0x29), 1),  # data1, flag, ref1, strx1, addrx1
    **dict.fromkeys((0x05, 0x12, 0x26, 0x2A), 2),  # data2, ref2, strx2, addrx2
    **dict.fromkeys((0x27, 0x2B), 3),  # strx3, addrx3
    **dict.fromkeys((0x06, _REF4, _STRP, 0x17, 0x1C, 0x1D, _LINE_STRP, 0x28, 0x2C, 0x10, 0x1F20, 0x1F21), 4),
    **dict.fromkeys((0x07, 0x14, 0x20, 0x24), 8),  # data8, ref8, ref_sig8, ref_sup8
    0x1E: 16,
}
"""Bytes of the forms of a fixed size, in DWARF of 32 bits (7.5.6)."""
_NUMBERS = (0x0D, 0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23)
"""Forms of one LEB128 number."""
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4}
_ADDRESS, _LONG_BLOCKS, _IMPLICIT = 0x01, (0x09, 0x18), 0x21
_NO_TEMPLATES = ("operator", "__")
"""What begins so is no template that a build names its kernels by."""
_WORD = re.compile(r"[A-Za-z]\w{0,39}", re.ASCII)
"""What a parameter is called; those that begin with ``_`` are the compiler's and the standard library's."""


class _Shape(NamedTuple):
    """An abbreviation: how entries of one kind are written."""

    tag: int
    children: bool
    fields: tuple[tuple[int, int, int], ...]
    """(attribute, form, bytes; below 0: as many as it says)."""


def parameters(window: Window, most: int = MOST_ENTRIES) -> tuple[Mapping[str, tuple[str, ...]], int]:
    """Of each template of a host file the names of its parameters, in their order; empty: one without a name. Templates
    of one name that say different things have none there. Nothing where the file is damaged or has none. Last, how many
    of ``most`` entries are left."""
    entries = None
    found: dict[str, tuple[str, ...]] = {}
    try:
        if window.starts(MAGIC) and (file := Elf(window)).wide and file.index(b".debug_info") is not None:
            entries = _Entries(file, most)
            for name, names in entries.templates():
                found[name] = merged_parameters(found.get(name, names), names)
                if len(found) > _MOST_TEMPLATES:
                    break
    except (DamageError, IndexError):
        pass
    left = most if entries is None else entries.left
    return {name: names for name, names in found.items() if any(names)}, left


class _Entries:
    """The entries of ``.debug_info``."""

    def __init__(self, file: Elf, most: int) -> None:
        self._file = file
        self._info = self._section(b".debug_info")
        self._abbreviations = self._section(b".debug_abbrev")
        self._strings = {_STRP: self._section(b".debug_str"), _LINE_STRP: self._section(b".debug_line_str")}
        self._shapes: dict[int, dict[int, _Shape]] = {}
        self.left = most
        """How many entries may still be read."""
        self._moved = self._relocated() if file.type == 1 else {}

    def templates(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """(name, names of its parameters) of each instance."""
        at = 0
        while at + 12 <= len(self._info) and self.left > 0:
            size, version = self._number(at, 4), self._number(at + 4, 2)
            end = at + 4 + size
            if size >= 0xFFFFFFF0 or end > len(self._info) or version not in range(2, 6):
                return
            begin, place = (at + 12, at + 8) if version == 5 else (at + 11, at + 6)
            if version < 5 or self._info[at + 6] == 1:  # a whole unit
                yield from self._unit(at, begin, end, self._shapes_at(self._moved.get(place, self._number(place, 4))))
            at = end

    def _unit(
        self, unit: int, at: int, end: int, shapes: Mapping[int, _Shape]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        open_: list[tuple[str, list[str]] | None] = []
        """Of each entry that children follow: its name and its parameters' names; ``None``: of no template."""
        info = self._info
        while at < end and self.left > 0:
            self.left -= 1
            code, at = leb(info, at)
            if not code:
                if not open_:
                    return
                if (owner := open_.pop()) is not None and any(owner[1]) and len(owner[1]) == _arguments(owner[0]):
                    yield owner[0].partition("<")[0], tuple(owner[1])
                continue
            if (shape := shapes.get(code)) is None:
                return
            name, sibling = "", 0
            wanted = shape.tag in _OWNERS or shape.tag == _VALUE
            for attribute, form, size in shape.fields:
                if attribute == _NAME_AT and wanted:
                    name = self._text(form, at)
                elif attribute == _SIBLING and form == _REF4:
                    sibling = unit + self._number(at, 4)
                if size < 0 and (size := self._length(form, at)) < 0:
                    return
                at += size
            parent = open_[-1] if open_ else None
            if parent is not None and shape.tag in _PARAMETERS and len(parent[1]) < _MOST_PARAMETERS:
                parent[1].append(name if _WORD.fullmatch(name) else "")
            if shape.children:
                known = "<" in name and shape.tag in _OWNERS and not name.startswith(_NO_TEMPLATES)
                owner = (name, list[str]()) if known else None
                if owner is None and shape.tag == _FUNCTION and at < sibling <= end:
                    at = sibling
                else:
                    open_.append(owner)

    def _text(self, form: int, at: int) -> str:
        if form == _STRING:
            data, begin = self._info, at
        elif form in self._strings:
            data, begin = self._strings[form], self._moved.get(at, self._number(at, 4))
        else:
            return ""
        stop = data.find(b"\0", begin, begin + 4096)
        return data[begin : max(stop, begin)].decode("utf-8", "replace")

    def _length(self, form: int, at: int) -> int:
        """Bytes of a value; below 0 where its form is not known."""
        if form in _NUMBERS:
            return leb(self._info, at)[1] - at
        if form == _STRING:
            return self._info.find(b"\0", at) + 1 - at
        if form in _BLOCKS:
            return _BLOCKS[form] + self._number(at, _BLOCKS[form])
        if form in _LONG_BLOCKS:
            size, begin = leb(self._info, at)
            return begin + size - at
        return -1

    def _number(self, at: int, size: int) -> int:
        return int.from_bytes(self._info[at : at + size], "little")

    def _shapes_at(self, begin: int) -> Mapping[int, _Shape]:
        if begin in self._shapes:
            return self._shapes[begin]
        data, at = self._abbreviations, begin
        found = self._shapes[begin] = {}
        while True:
            code, at = leb(data, at)
            if not code:
                return found
            tag, at = leb(data, at)
            children, at = bool(data[at]), at + 1
            fields = []
            while True:
                attribute, at = leb(data, at)
                form, at = leb(data, at)
                if form == _IMPLICIT:
                    _, at = leb(data, at)
                if not attribute and not form:
                    break
                fields.append((attribute, form, 8 if form == _ADDRESS else _FIXED.get(form, -1)))
            found[code] = _Shape(tag, children, tuple(fields))

    def _section(self, name: bytes) -> bytes:
        index = self._file.index(name)
        if index is None:
            return b""
        contents = self._file.contents(index)
        if not int(self._file.sections["flags"][index]) & _COMPRESSED:
            return contents.copy(0, min(contents.size, MOST_BYTES), "debug information")
        (kind,) = contents.unpack("I", 0, "debug information")
        try:
            packed = contents.copy(24, contents.size - 24, "debug information")
            return zlib.decompressobj().decompress(packed, MOST_BYTES) if kind == _ZLIB else b""
        except zlib.error:
            return b""

    def _relocated(self) -> dict[int, int]:
        """Of an object: what stands at a place of ``.debug_info`` when it is linked, as far as it is an offset."""
        found: dict[int, int] = {}
        info = self._file.index(b".debug_info")
        for index, (kind, owner) in enumerate(zip(self._file.kinds, self._file.owners, strict=True)):
            if kind == _RELOCATIONS and owner == info:
                contents = self._file.contents(index)
                rows = contents.array(RELA, min(contents.size, MOST_BYTES) // RELA.itemsize, 0, "relocations")
                rows = rows[np.isin(rows["info"] & 0xFFFFFFFF, _ABSOLUTE) & (rows["addend"] >= 0)]
                found.update(zip(rows["offset"].tolist(), rows["addend"].tolist(), strict=True))
        return found


def _arguments(name: str) -> int:
    """How many arguments an instance has. Compilers leave out parameters without a name, and have packs elsewhere:
    where there are not as many parameters, their order does not say where they stand."""
    depth, count = 0, 1
    for sign in name[name.find("<") + 1 :]:
        if sign in "<({[":
            depth += 1
        elif sign in ">)}]":
            depth -= 1
        elif sign == "," and not depth:
            count += 1
    return count if depth == -1 else 0
