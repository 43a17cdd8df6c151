"""Cubins: which functions they hold, and what sections, symbols and attributes say of each. No machine code is read.

Both layouts: up to CUDA 12 below sm_100 (ELF ABI 7: the architecture is the flags' low byte, barriers stand in the
section's flags, registers in its info) and the one after it (ABI 8: second byte, and attributes).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spillscan.binary import attributes, notes, references, sections
from spillscan.binary.attributes import FunctionInfo
from spillscan.binary.elf import FUNC, SYMTAB, Elf
from spillscan.binary.lines import Lines
from spillscan.binary.references import References
from spillscan.binary.window import DamageError, Window
from spillscan.model import Role
from spillscan.sass.model import Maker

RELOCATABLE_FILE = 1
DYNAMIC_STACK = 0xFFFFFFFF
DRIVER_SHARED_BYTES = 1024
"""Shared memory that the driver keeps in each block from sm_90 on; the section counts it, ptxas does not."""
FIRST_ARCH_WITH_RESERVE = 90

_NOBODY = -1
"""Instead of the number of a symbol: the section names none of its own."""
_ENTRY = 0x10
"""In a symbol's ``st_other``: a kernel."""
_ACCELERATED_OLD, _ACCELERATED_NEW = 0x800, 0x8
_ACCELERATOR_TARGET = 9
"""Attribute of ``.nv.compat``: 1 for ``sm_90a`` and the like."""


class Function(NamedTuple):
    """One function: a ``.text`` section and what belongs to it."""

    symbol: str
    """Mangled."""
    role: Role
    """Entry or device function, by its symbol."""
    code: Window
    """Its machine code."""
    info: tuple[int, int] | None
    """Where its ``.nv.info`` section begins in the cubin, and its bytes."""
    registers: int | None
    """Per thread, of its attribute, else of its section."""
    frame_bytes: int | None
    """Its own stack frame, per thread."""
    stack_bytes: int | None
    """Deepest stack over its call tree, per thread; ``None`` where that is dynamic."""
    shared_bytes: int
    """Static, per block, without the driver's reserve."""
    local_bytes: int
    """``.nv.local``: of code without the ABI."""
    constant_bytes: tuple[tuple[int, int], ...]
    """(bank, bytes) of its own banks."""
    barriers: int | None
    """Of its section's flags; ``None`` in the new layout."""
    section: int
    """Number of its section."""


class Cubin:
    """One cubin. Raises :class:`DamageError` where it contradicts itself."""

    def __init__(self, window: Window) -> None:
        self.elf = Elf(window)
        self.new_layout = self.elf.abi_version >= notes.ABI_NEW
        self.number = (self.elf.flags >> 8 if self.new_layout else self.elf.flags) & 0xFF
        """Of its architecture: 90."""
        self.relocatable = self.elf.type == RELOCATABLE_FILE

    @cached_property
    def toolkit(self) -> notes.Toolkit:
        """Which tool wrote it."""
        return notes.toolkit(self.elf)

    @cached_property
    def lines(self) -> Lines:
        """Its source lines."""
        return Lines(self.elf, self._symbols)

    @cached_property
    def references(self) -> dict[int, References]:
        """Texture, surface and sampler references by code section."""
        return references.by_section(self.elf, self._symbols, self.number)

    @cached_property
    def maker(self) -> Maker | None:
        """The same for the reader of reports."""
        toolkit = self.toolkit
        if not toolkit.version:
            return None
        return Maker(tool=toolkit.tool, version=".".join(map(str, toolkit.version)), options=toolkit.options)

    @cached_property
    def arch(self) -> str:
        """``sm_90a``."""
        return f"sm_{self.number}{self._suffix()}"

    def _suffix(self) -> str:
        if not self.new_layout:
            return "a" if self.elf.flags & _ACCELERATED_OLD else ""
        if self.elf.flags & _ACCELERATED_NEW:
            return "a"
        compat = self.elf.index(b".nv.compat")
        if compat is not None:
            records = attributes.records(self.elf.contents(compat), {_ACCELERATOR_TARGET})
            if any(value == 1 for _, value, _ in records):
                return "a"
        told = self.toolkit.arch
        return "f" if told == f"{self.number}f" else ""

    def functions(self) -> Iterator[Function]:
        """All functions in the order of their sections."""
        found = sections.of(self.elf)
        text, symbols = found.text, self._symbols
        if not len(text):
            return
        mine, infos = self.elf.sections[text], self.elf.sections[found.infos[text]]
        numbers = mine["info"] & 0xFFFFFF
        named = symbols[np.minimum(numbers, len(symbols) - 1)]
        known = (numbers < len(symbols)) & (named["section"] == text)
        columns: list[NDArray[Any]] = [text, mine["offset"], mine["size"], mine["info"], mine["flags"]]
        columns += [found.infos[text], infos["offset"], infos["size"]]
        columns += [found.shared_bytes[text], found.local_bytes[text]]
        columns += [np.where(known, numbers, _NOBODY), named["name"], named["other"]]
        registers, frames, stacks = map(
            self._figures.__getitem__, (attributes.REGCOUNT, attributes.FRAME_SIZE, attributes.MIN_STACK_SIZE)
        )
        reserve = DRIVER_SHARED_BYTES if self.number >= FIRST_ARCH_WITH_RESERVE else 0
        pool, window = self._strings, self.elf.window
        for section, start, size, link, flags, info, info_start, info_size, static, local, symbol, place, other in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            banks, stack, told = found.banks.get(section, ()), stacks.get(symbol), registers.get(symbol)
            name = pool[place : pool.find(b"\0", place)] if symbol != _NOBODY else self.elf.names[section][6:]
            yield Function(
                name.decode("utf-8", "backslashreplace"),
                "unknown" if symbol == _NOBODY else "entry" if other & _ENTRY else "function",
                window.part(start, size, "code"),
                (info_start, info_size) if info else None,
                (link >> 24 or None) if told is None else told,
                frames.get(symbol),
                None if stack == DYNAMIC_STACK else stack,
                static - reserve if static >= reserve else static,
                local,
                tuple(sorted(banks)),
                None if self.new_layout else flags >> 20 & 0x7F,
                section,
            )

    def info_of(self, function: Function) -> FunctionInfo:
        """What the attributes of one function say."""
        if function.info is None:
            return attributes.NOTHING
        return attributes.of_function(self.elf.window.part(*function.info, ".nv.info"))

    def parts_of(self, function: Function) -> tuple[int, ...]:
        """Where callees begin inside the function's section."""
        symbols = self._symbols
        mine = symbols[(symbols["section"] == function.section) & (symbols["info"] & 15 == FUNC)]
        return tuple(sorted({value for value in mine["value"].tolist() if 0 < value < function.code.size}))

    @cached_property
    def _figures(self) -> dict[int, dict[int, int]]:
        index = self.elf.index(b".nv.info")
        return attributes.of_module(Window(b"") if index is None else self.elf.contents(index))

    @cached_property
    def _table(self) -> int:
        tables = np.flatnonzero(self.elf.sections["type"] == SYMTAB)
        if not len(tables):
            raise DamageError("a cubin without symbols", self.elf.window.start)
        return int(tables[0])

    @cached_property
    def _symbols(self) -> NDArray[Any]:
        symbols = self.elf.symbols(self._table)
        if not len(symbols):
            raise DamageError("a cubin without symbols", self.elf.window.start)
        return symbols

    @cached_property
    def _strings(self) -> bytes:
        """Names of symbols, each with a NUL behind it."""
        link = int(self.elf.sections[self._table]["link"])
        if link >= len(self.elf.sections):
            raise DamageError("a symbol table without names", self.elf.window.start)
        names = self.elf.contents(link)
        return names.copy(0, names.size, "symbol names") + b"\0"
