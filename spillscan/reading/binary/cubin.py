"""Cubin reader: functions, and their resources from sections, symbols and attributes. No machine code is read.

Both layouts: the old one, up to CUDA 12 below sm_100 (ELF ABI 7: architecture in the low byte of the flags, barriers in
the section's flags, registers in its info), and the new one (ABI 8: architecture in the second byte, the others in
attributes).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from hashlib import sha256
from sys import intern

import numpy as np
from msgspec import Struct

from spillscan.model import Role, Usage
from spillscan.model.code import DRIVER_SHARED_BYTES, FIRST_ARCH_WITH_RESERVE, Maker
from spillscan.model.symbols import is_helper
from spillscan.output.nouns import count
from spillscan.reading.binary.attributes import (
    FRAME_SIZE,
    MIN_STACK_SIZE,
    NOTHING,
    REGCOUNT,
    FunctionInfo,
    of_function,
    of_module,
    records,
)
from spillscan.reading.binary.elf import Elf
from spillscan.reading.binary.lines import Lines
from spillscan.reading.binary.symbols import CODE, OWNER, Sections, Symbols, is_kernel, sections_of
from spillscan.reading.binary.window import DamageError, Window

# The tool that wrote a cubin: from a note, else from the version in its ELF header.

TKINFO = b".note.nv.tkinfo"
ABI_NEW = 8
_TEXTS = 48
_PRINTABLE = re.compile(rb"([\x20-\x7e]*)\0")
_VERSION = re.compile(r"V(\d+\.\d+\.\d+)")


def maker_of(elf: Elf) -> Maker | None:
    """Tool that wrote the cubin, from its note, else its toolkit from the ELF header; ``None`` if unknown."""
    note = elf.index(TKINFO)
    if note is not None:
        return _tkinfo(elf.contents(note))
    if elf.abi_version < ABI_NEW and 50 <= elf.version < 1000:  # toolkit version: 0x7e is 12.6
        return Maker(tool="", version=f"{elf.version // 10}.{elf.version % 10}", options="")
    return None


def _tkinfo(note: Window) -> Maker | None:
    """Parse the first note: a 24-byte header (sizes, type, owner), its version, the offsets of file, tool, version,
    branch and options, then these texts. A linker's note comes first, and objects of CUDA 12 have none, so that the
    options of linked functions are unknown."""
    data = note.copy(0, min(note.size, 1 << 16), "note")
    places = (_TEXTS + int.from_bytes(data[at : at + 4], "little") for at in range(28, _TEXTS, 4))
    texts = [found[1].decode() if (found := _PRINTABLE.match(data, place)) else "" for place in places]
    release = _VERSION.search(texts[2])
    options = "" if "link" in texts[1].lower() or data.count(b"NVIDIA Corp\0") > 1 else texts[4].strip()
    return release and Maker(tool=texts[1], version=release[1], options=options)


RELOCATABLE_FILE = 1
_TYPES = (RELOCATABLE_FILE, 2)
DYNAMIC_STACK = 0xFFFFFFFF
DYNAMIC_ALIGNMENT = 16
"""Minimum alignment of a shared memory section that includes dynamic shared memory, whatever the source requests
(measured: ptxas 11.8, 12.4, 12.8, 12.9 and 13.0, nvlink 13.0)."""
_FIRST_WITH_ATTRIBUTES_OF_ALL = (9, 0)
"""First toolkit that writes ``.nv.info.KERNEL`` for kernels without parameters, too; CUDA 8 does not."""

_FIRST_SIGN, _DELETE = 0x21, b"\x7f"
"""First character allowed in names, and DEL, which is not."""
_PLAIN = b"\0_$.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DAMAGED_SYMBOL = rb"\0_Z[\w$.]*[^\w$.\0]"
"""Mangled name (Itanium C++ ABI 5.1.1) with a character that none contains."""
_ACCELERATED_OLD, _ACCELERATED_NEW = 0x800, 0x8
_FIRST_ACCELERATED = 90
"""First architecture with accelerated variants; in assemblers' code for earlier ones the bit has another meaning."""
_ACCELERATOR_TARGET = 9
"""Attribute of ``.nv.compat``: 1 for accelerated targets such as ``sm_90a``."""


class Function(Struct, frozen=True, gc=False):
    """A function: its ``.text`` section and the sections that belong to it."""

    symbol: str
    """Mangled name."""
    role: Role
    """Entry or device function, by its symbol."""
    code: Window
    """Its machine code."""
    info: Window | None
    """Its ``.nv.info`` section."""
    usage: Usage
    """Its resources, from sections and attributes; shared memory is without the driver's reserve."""
    dynamic_shared: bool | None
    """Whether it declares shared memory sized at launch; ``None`` if unknown."""
    section: int
    """Index of its section."""


class Cubin:
    """One cubin. Raises :class:`DamageError` if it is inconsistent."""

    def __init__(self, window: Window) -> None:
        self.elf = Elf(window)
        self.new_layout = self.elf.abi_version >= ABI_NEW
        self.number = (self.elf.flags >> 8 if self.new_layout else self.elf.flags) & 0xFF
        """Number of its architecture: 90."""
        self.relocatable = self.elf.type == RELOCATABLE_FILE

    @cached_property
    def maker(self) -> Maker | None:
        """Tool that wrote it; ``None`` if unknown."""
        return maker_of(self.elf)

    @cached_property
    def toolkit(self) -> tuple[int, ...]:
        """Version of that tool; empty if unknown."""
        return tuple(map(int, self.maker.version.split("."))) if self.maker else ()

    @cached_property
    def lines(self) -> Lines:
        """Its source lines."""
        return Lines(self.elf, self.symbols.rows)

    @property
    def arch(self) -> str:
        """Architecture: ``sm_90a``."""
        return f"sm_{self.number}{self._suffix()}"

    def _suffix(self) -> str:
        if not self.new_layout:
            accelerated = self.number >= _FIRST_ACCELERATED and self.elf.flags & _ACCELERATED_OLD
            return "a" if accelerated else ""
        compat = self.elf.index(b".nv.compat")
        found = () if compat is None else records(self.elf.contents(compat), {_ACCELERATOR_TARGET})
        if self.elf.flags & _ACCELERATED_NEW or any(value == 1 for _, value, _ in found):
            return "a"
        note = self.elf.index(TKINFO)
        family = rb"-arch[= ]+(?:sm|compute)_%df\b" % self.number
        return "f" if note is not None and re.search(family, self.elf.contents(note).whole) else ""

    def functions(self) -> Iterator[Function]:
        """All functions in the order of their sections."""
        elf, sections = self.elf, self._sections
        if not sections.text:
            return
        by_symbol = of_module(Window(b"") if self._module is None else elf.contents(self._module))
        for section in sections.text:
            symbol = self.symbols.of_function(section)
            if symbol is not None and symbol.section != section:
                symbol = None
            name = self._named_by(section) if symbol is None else self.symbols.name(symbol.name)
            role: Role = "unknown" if symbol is None else "entry" if is_kernel(symbol) else "function"
            yield Function(
                intern(name.decode("utf-8", "backslashreplace")),  # repeated in the code of each architecture
                role,
                elf.window.part(elf.sections[section].offset, elf.sections[section].size, "code"),
                sections.infos.get(section),
                self._usage(section, by_symbol, -1 if symbol is None else elf.sections[section].info & OWNER),
                self._declares_dynamic(section),
                section,
            )

    def _usage(self, section: int, by_symbol: Mapping[int, Mapping[int, int]], symbol: int) -> Usage:
        """Resources of the function in a code section. ``by_symbol``: module attributes by symbol, which override the
        section; ``symbol``: number of its symbol, -1 if it has none."""
        registers, stack_bytes = by_symbol[REGCOUNT].get(symbol), by_symbol[MIN_STACK_SIZE].get(symbol)
        if registers is None:
            registers = self.elf.sections[section].info >> 24 or None
        return Usage(
            registers=registers,
            stack_bytes=by_symbol[FRAME_SIZE].get(symbol),
            cumulative_stack_bytes=None if stack_bytes == DYNAMIC_STACK else stack_bytes,
            local_bytes=self._sections.local.get(section, 0),
            shared_bytes=self._static_shared(section),
            constant_bytes=tuple(sorted(self._sections.banks.get(section, ()))),
            barriers=None if self.new_layout else self.elf.sections[section].flags >> 20 & 0x7F,
        )

    def _static_shared(self, section: int) -> int:
        """Static shared memory of a function, without the driver's reserve."""
        size, _ = self._sections.shared.get(section, (0, 0))
        if self.number >= FIRST_ARCH_WITH_RESERVE and not self.relocatable and size >= DRIVER_SHARED_BYTES:
            return size - DRIVER_SHARED_BYTES  # relocatable code has no reserve yet: the linker adds it
        return size

    def check(self) -> None:
        """Raise :class:`DamageError` if required data is missing or damaged: names, the code of each function symbol,
        the attributes of the module and of each kernel, or a kernel's constant bank."""
        for what in self._faults():
            raise DamageError(what, self.elf.window.start)

    def _faults(self) -> Iterator[str]:
        elf, sections, symbols = self.elf, self._sections, self.symbols
        if elf.type not in _TYPES:
            yield f"a cubin of ELF type {elf.type}"
        if not _are_names(elf.pool) or not all(name.startswith(b".") for name in elf.names[1:]):
            yield "sections with damaged names"
        owners = {section: symbols.of_function(section) for section in sections.text}
        titles = {section: symbols.name(owner.name) for section, owner in owners.items() if owner is not None}
        names = [titles.get(section) or self._named_by(section) for section in sections.text]
        names += (symbols.name(place) for each in symbols.inner.values() for _, place in each)
        if not _are_functions(b"\0".join((b"", *names))):
            yield "functions with damaged names"
        homes = {symbol.section for symbol in symbols.functions if symbol.section > 0}
        if lost := len(homes.difference(sections.text)):
            yield f"{count(lost, 'function')} in its symbol table without code"
        if sections.text and self._module is None:
            yield "a cubin without attributes"
        if wrong := [section for section, title in titles.items() if elf.names[section] != CODE + title]:
            yield f"a function whose name does not match its section {wrong[0]}"
        without = symbols.kernels.difference(sections.infos)
        if without and (self.toolkit or _FIRST_WITH_ATTRIBUTES_OF_ALL) >= _FIRST_WITH_ATTRIBUTES_OF_ALL:
            yield f"{count(len(without), 'kernel')} without attributes"
        banks = sections.banks
        if sections.strange or any(len({bank for bank, _ in each}) < len(each) for each in banks.values()):
            yield "sections of functions with damaged names"
        with_parameters = {section for section, each in banks.items() for bank, _ in each if bank == 0}
        if lost := len(symbols.kernels - with_parameters):
            yield f"{count(lost, 'kernel')} without a constant bank for parameters"

    def info_of(self, function: Function) -> FunctionInfo:
        """Attributes of one function."""
        return NOTHING if function.info is None else of_function(function.info)

    def digest_of(self, function: Function) -> str:
        """Digest of a function in 32 hexadecimal digits, independent of its address and name: over code,
        compiler-generated constants, and names in the relocations of both. Excluded: parameters (bank 0, which is empty
        in a file), and module-wide variables (banks 3 and 4)."""
        section = function.section
        constants = self._sections.constants.get(section, ())
        hasher = sha256(function.code.whole)
        for each in (section, *constants):
            if each != section:
                hasher.update(self.elf.contents(each).whole)
            for offset, kind, symbol, addend in self.elf.relocations(each):
                itself = symbol == self.elf.sections[section].info & OWNER
                name = b"" if itself else self.symbols.target(symbol)
                hasher.update(b"%x %d %d %b\n" % (offset, kind, addend, name))
        return hasher.hexdigest()[:32]

    def constants_of(self, section: int) -> list[int]:
        """Sections of the compiler-generated constants of the function in a code section."""
        return self._sections.constants.get(section, [])

    def shared_alignment(self, section: int) -> int:
        """Alignment of the shared memory of the function in a code section; 0 if it has none."""
        return self._sections.shared.get(section, (0, 0))[1]

    def parts_of(self, function: Function) -> dict[int, str]:
        """Symbols of the callees in the function's section, by offset. ptxas copies device functions into each kernel
        of a whole program (``$kernel$callee``); the symbol of its own helpers, which no log names, is empty."""
        found: dict[int, str] = {}
        inner = self.symbols.inner.get(function.section)
        if inner is None:
            return found
        copied = f"${function.symbol}$".encode()
        for begin, place in inner:
            if begin < function.code.size:
                name = self.symbols.name(place)
                own = name[len(copied) :].decode("utf-8", "backslashreplace") if name.startswith(copied) else ""
                found.setdefault(begin, "" if is_helper(own) else own)
        return found

    def _declares_dynamic(self, section: int) -> bool | None:
        """Whether a function declares dynamic shared memory, by its section of shared memory.

        ptxas adds a section to every function of a module that declares any, nvlink only to those that use it. ``None``
        if the section also contains static data, which may have the same alignment; false then for code compiled by
        cuTile, whose launches pass no dynamic shared memory; and for relocatable code.
        """
        if self.relocatable:
            return None
        static_bytes, alignment = self._static_shared(section), self.shared_alignment(section)
        if alignment < DYNAMIC_ALIGNMENT or (static_bytes and self._of_tiles):
            return False
        return None if static_bytes else True

    @cached_property
    def _of_tiles(self) -> bool:
        return b"\0.nv.tileir." in self.elf.pool

    @cached_property
    def _sections(self) -> Sections:
        return sections_of(self.elf)

    @cached_property
    def symbols(self) -> Symbols:
        """Its symbol table."""
        return Symbols(self.elf)

    @cached_property
    def _module(self) -> int | None:
        """Index of the section with the module's attributes."""
        return self.elf.index(b".nv.info")

    def _named_by(self, section: int) -> bytes:
        """Function name in the name of a code section."""
        return self.elf.names[section][len(CODE) :]


def _are_names(pool: bytes) -> bool:
    """Whether NUL-separated names are plausible: UTF-8 without blanks and control characters."""
    try:
        pool.decode()
    except UnicodeDecodeError:
        return False
    octets = np.frombuffer(pool, np.uint8) - np.uint8(_FIRST_SIGN)  # smaller bytes wrap around to the top, NUL lowest
    return bool(octets.max(initial=0) <= 0x100 - _FIRST_SIGN) and _DELETE not in pool


def _are_functions(pool: bytes) -> bool:
    """Whether NUL-separated function names are plausible: mangled ones contain only letters, digits and few symbols."""
    return not pool.translate(None, _PLAIN) or (_are_names(pool) and re.search(_DAMAGED_SYMBOL, pool) is None)
