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

from spillscan.binary import attributes, notes, references
from spillscan.binary.attributes import FunctionInfo
from spillscan.binary.elf import FUNC, SYMTAB, Elf
from spillscan.binary.lines import Lines
from spillscan.binary.references import References
from spillscan.binary.window import DamageError, Window
from spillscan.model import Role
from spillscan.model.code import Maker

EXECUTABLE_SECTION = 4
RELOCATABLE_FILE = 1
DYNAMIC_STACK = 0xFFFFFFFF
DRIVER_SHARED_BYTES = 1024
"""Shared memory that the driver keeps in each block from sm_90 on; the section counts it, ptxas does not."""
FIRST_ARCH_WITH_RESERVE = 90

_ENTRY = 0x10
"""In a symbol's ``st_other``: a kernel."""
_ACCELERATED_OLD, _ACCELERATED_NEW = 0x800, 0x8
_ACCELERATOR_TARGET = 9
"""Attribute of ``.nv.compat``: 1 for ``sm_90a`` and the like."""
_TEXT, _INFO, _CONSTANT, _SHARED, _LOCAL = (
    int.from_bytes(head, "little") for head in (b".text.", b".nv.info", b".nv.cons", b".nv.shar", b".nv.loca")
)
_TEXT_MASK = (1 << 8 * len(b".text.")) - 1
"""How the names of sections begin, as :attr:`Elf.heads` has it."""


class Function(NamedTuple):
    """One function: a ``.text`` section and what belongs to it."""

    symbol: str
    """Mangled."""
    role: Role
    """Entry or device function, by its symbol."""
    code: Window
    """Its machine code."""
    info: Window | None
    """Its ``.nv.info`` section."""
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
        elf = self.elf
        text, infos, shared, local, banks = self._sections()
        if not text:
            return
        figures = self._figures
        registers, frames = figures[attributes.REGCOUNT], figures[attributes.FRAME_SIZE]
        stacks = figures[attributes.MIN_STACK_SIZE]
        offsets, sizes = elf.sections["offset"].tolist(), elf.sections["size"].tolist()
        flags, links = elf.sections["flags"].tolist(), elf.sections["info"].tolist()
        names, homes, others = (self._symbols[field].tolist() for field in ("name", "section", "other"))
        reserve = DRIVER_SHARED_BYTES if self.number >= FIRST_ARCH_WITH_RESERVE else 0
        pool = self._strings
        for section in text:
            number = links[section] & 0xFFFFFF
            known = number < len(names) and homes[number] == section
            place = names[number] if known else 0
            symbol = pool[place : pool.find(b"\0", place)] if known else elf.names[section][6:]
            told = registers.get(number) if known else None
            static = shared.get(section, 0)
            stack = stacks.get(number) if known else None
            role: Role = "unknown"
            if known:
                role = "entry" if others[number] & _ENTRY else "function"
            yield Function(
                symbol.decode("utf-8", "backslashreplace"),
                role,
                elf.window.part(offsets[section], sizes[section], "code"),
                infos.get(section),
                (links[section] >> 24 or None) if told is None else told,
                frames.get(number) if known else None,
                None if stack == DYNAMIC_STACK else stack,
                static - reserve if static >= reserve else static,
                local.get(section, 0),
                tuple(sorted(banks.get(section, ()))),
                None if self.new_layout else flags[section] >> 20 & 0x7F,
                section,
            )

    def info_of(self, function: Function) -> FunctionInfo:
        """What the attributes of one function say."""
        return attributes.NOTHING if function.info is None else attributes.of_function(function.info)

    def parts_of(self, function: Function) -> tuple[int, ...]:
        """Where callees begin inside the function's section."""
        symbols = self._symbols
        mine = symbols[(symbols["section"] == function.section) & (symbols["info"] & 15 == FUNC)]
        return tuple(sorted({value for value in mine["value"].tolist() if 0 < value < function.code.size}))

    def _sections(
        self,
    ) -> tuple[list[int], dict[int, Window], dict[int, int], dict[int, int], dict[int, list[tuple[int, int]]]]:
        """Code sections, and by code section: attributes, shared and local bytes, constant banks."""
        elf = self.elf
        flags, owners = elf.sections["flags"].tolist(), elf.sections["info"].tolist()
        offsets, sizes = elf.sections["offset"].tolist(), elf.sections["size"].tolist()
        text: list[int] = []
        infos: dict[int, Window] = {}
        shared: dict[int, int] = {}
        local: dict[int, int] = {}
        banks: dict[int, list[tuple[int, int]]] = {}
        for index, head in enumerate(elf.heads):
            if head & _TEXT_MASK == _TEXT:
                if flags[index] & EXECUTABLE_SECTION:
                    text.append(index)
            elif head == _INFO:
                if elf.begins(index, b".nv.info."):
                    infos[owners[index]] = elf.window.part(offsets[index], sizes[index], ".nv.info")
            elif head == _CONSTANT:
                bank, dot, _ = elf.letters(index, len(b".nv.constant"), len(b"16.")).partition(b".")
                if dot and bank.isdigit():
                    banks.setdefault(owners[index], []).append((int(bank), sizes[index]))
            elif head == _SHARED:
                shared[owners[index]] = sizes[index]
            elif head == _LOCAL:
                local[owners[index]] = sizes[index]
        return text, infos, shared, local, banks

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
        return self.elf.symbols(self._table)

    @cached_property
    def _strings(self) -> bytes:
        """Names of symbols, each with NUL behind it."""
        link = int(self.elf.sections[self._table]["link"])
        if link >= len(self.elf.sections):
            raise DamageError("a symbol table without names", self.elf.window.start)
        names = self.elf.contents(link)
        return names.copy(0, names.size, "symbol names") + b"\0"
