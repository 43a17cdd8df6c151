"""Data, attributes and functions that a function's code refers to, directly or through one another.

Objects are numbered in the order in which a walk from the function meets them, so that two lists are equal only if the
graphs of references are. A reference that cannot be followed is reported as unknown, never left out.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from spillscan.model.code import CodeText
from spillscan.reading.binary import attributes
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.decode import Decoded
from spillscan.reading.binary.elf import Relocation
from spillscan.reading.binary.tables import registers, table
from spillscan.reading.binary.words import Wide

_OBJECTS, _SECTION_SYMBOL = (1, 13), 3
_LINKER = (".nv.", "__nv_reservedSMEM", "__UFT", "__UDT")
"""Names of symbols that the linker or the driver defines for every module."""
_ANONYMOUS = ("$", ".", "__unnamed_")
"""Names that ptxas makes for string literals and the like."""
_WITHOUT_BYTES = (".nv.global", ".nv.shared", ".nv.local")
_LOADS = {0xB82: (38, 0xFF), 0xAB9: (38, 0), 0x7AC: (37, 0xFF)}
"""LDC, ULDC, LDCU: lowest bit of the offset in the bank; number of the index register that means none."""
_LOAD_BYTES = (1, 1, 2, 2, 4, 8, 16, 16)
_NARROW = frozenset(
    (
        *("FADD", "FFMA", "FMNMX", "FMUL", "FSEL", "FSET", "FSETP", "MUFU"),
        *("HADD2", "HFMA2", "HMUL2", "HSETP2"),
        *("IABS", "IADD3", "IDP", "IMNMX", "ISETP", "LEA", "LOP3", "SHF", "VIADD", "VIMNMX"),
        *("BREV", "FLO", "I2FP", "POPC", "PRMT", "SEL"),
    )
)
"""Instructions whose operand in a constant bank has 4 bytes."""
_PLAIN_MULTIPLY = 0x24
"""Low bits of the opcode of IMAD; IMAD.WIDE and IMAD.HI, whose operand may have 8 bytes, have others."""
_INDIRECT = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
_MOVE, _MULTIPLY, _REACH = 0x7802, 0x7424, 256
"""MOV and IMAD.MOV of a constant, without a guard; maximum instructions searched backwards."""
_CONSTANTS, _POINTERS = 3, 4
"""Banks of ``__constant__`` variables, and of addresses of variables and functions."""
_DRIVER_CONSTANTS = (
    (100, 0x380, ((0x2F0, 0x380),)),
    (90, 0x210, ((0, 0x30), (0x208, 0x210))),
    (70, 0x160, ((0, 0x30), (0x118, 0x120))),
)
"""First arch, offset of the parameters in bank 0, and ranges below it without addresses of constants."""
_ABSOLUTE = (0x943, 0x94A)
"""CALL.ABS, JMP: jumps to an address from a relocation."""
_MANAGED = 4
"""Flag of a symbol: a ``__managed__`` variable."""


class Object(NamedTuple):
    """Function, variable, or part of a constant bank."""

    section: int
    begin: int
    size: int
    name: str
    """Name of a variable; empty if the compiler generated it."""
    is_code: bool


class ModuleReferences:
    """Symbols and relocations of one cubin, by section."""

    def __init__(self, cubin: Cubin) -> None:
        self.cubin, self.elf, self.symbols = cubin, cubin.elf, cubin.symbols
        self._sorted: dict[int, list[Relocation]] = {}
        self._digests: dict[Object, str] = {}

    def relocations(self, section: int, begin: int, end: int) -> list[Relocation]:
        """Relocations between two offsets of a section, ascending."""
        if section not in self._sorted:
            self._sorted[section] = sorted(self.elf.relocations(section))
        known = self._sorted[section]
        return known[bisect_left(known, (begin,)) : bisect_left(known, (end,))]

    def name(self, section: int) -> str:
        """The name of a section."""
        return self.elf.names[section].decode("utf-8", "backslashreplace")

    @cached_property
    def banks(self) -> dict[int, int]:
        """Sections of the module-wide constant banks, by number."""
        found = ((number, self.elf.index(b".nv.constant%d" % number)) for number in range(1, 18))
        return {number: section for number, section in found if section is not None}

    @cached_property
    def parameters(self) -> dict[int, int]:
        """Parameter section of each function, by its code section."""
        names = enumerate(self.elf.names)
        return {self.elf.sections[index].info: index for index, name in names if name.startswith(b".nv.constant0.")}

    @cached_property
    def variables(self) -> dict[int, list[tuple[int, int, int]]]:
        """(offset, size, symbol number) of the variables of each section, ascending."""
        found: dict[int, list[tuple[int, int, int]]] = {}
        for number, symbol in enumerate(self.symbols.rows):
            if symbol.info & 15 in _OBJECTS and symbol.size > 0:
                found.setdefault(symbol.section, []).append((symbol.value, symbol.size, number))
        return {section: sorted(each) for section, each in found.items()}

    def variable(self, section: int, offset: int, size: int) -> Iterator[Object]:
        """Variables that some bytes of a section belong to, and bytes that belong to none."""
        known = self.variables.get(section, [])
        reached = offset
        for value, length, number in known[max(0, bisect_right(known, (offset, 1 << 64, 0)) - 1) :]:
            if value >= offset + size:
                break
            if value + length > offset:
                if value > reached:
                    break
                reached = max(reached, value + length)
                yield Object(section, value, length, self._called(number), False)
        if reached < offset + size:
            yield Object(section, reached, offset + size - reached, "", False)

    def _called(self, number: int) -> str:
        name = self.symbols.target(number).decode("utf-8", "backslashreplace")
        managed = " (managed)" if self.symbols.rows[number].other & _MANAGED else ""
        return "" if name.startswith(_ANONYMOUS) else name + managed

    def target(self, number: int, addend: int) -> tuple[Object, int] | str:
        """(object that a symbol plus addend points into, offset in it); the symbol's name if it is in no section."""
        rows, name = self.symbols.rows, self.symbols.target(number).decode("utf-8", "backslashreplace")
        if number >= len(rows):
            return f"symbol {number}"
        _, info, _, section, value, size = rows[number]
        if not 0 < section < min(len(self.elf.sections), 0xFF00):
            return name
        if self.is_code(section):
            return Object(section, 0, self.elf.sections[section].size, "", True), value + addend
        if info & 15 == _SECTION_SYMBOL or not size:
            for found in self.variable(section, value + addend, 1):
                return found, value + addend - found.begin
        return Object(section, value, size, self._called(number), False), addend

    def is_code(self, section: int) -> bool:
        """Whether a section is the code section of a function."""
        return self.name(section).startswith(".text.")

    def digest(self, each: Object) -> str | None:
        """Digest of an object's bytes, and of the layout of a whole section; ``None`` if they are not in the file."""
        if each not in self._digests:
            window = self.elf.contents(each.section)
            if each.begin + each.size > window.size:
                return None
            whole = not each.name and not each.is_code and (each.begin, each.size) == (0, window.size)
            layout = [(at, size, self._called(number)) for at, size, number in self.variables.get(each.section, ())]
            self._digests[each] = _digest(window.copy(each.begin, each.size, "data"), layout if whole else [])
        return self._digests[each]

    @cached_property
    def functions(self) -> dict[int, Function]:
        """Functions by section."""
        return {each.section: each for each in self.cubin.functions()}


class _Walk:
    """One walk from a function to everything that it refers to."""

    def __init__(self, module: ModuleReferences, function: Function) -> None:
        self._module = module
        self._numbers: dict[Object, int] = {}
        self._open: list[Object] = []
        self.references: list[tuple[int, str]] = []
        """(byte offset in the function's code, object placed or read there), ascending."""
        self.data: list[tuple[str, str]] = []
        """(label, value) of each attribute and object; ``#`` begins the digest of contents."""
        self.unknown = ""
        """Why some references are unknown; empty if all are known."""
        start = Object(function.section, 0, function.code.size, "", True)
        self._number(start)
        for each in self._open:  # grows during the walk
            if not each.is_code:
                self.data.append((self._label(each), self._contents(each)))
            elif (other := module.functions.get(each.section)) is None:
                self.unknown = self.unknown or "a reference to code outside functions"
            elif each == start:
                self.references = self._of_code(function)
                self.data += attribute_texts(module.cubin, function)
            else:
                references, prefix = self._of_code(other), f"function {other.symbol}: "
                self.data += ((prefix + label, value) for label, value in attribute_texts(module.cubin, other))
                digest = module.digest(each) or ""
                self.data.append((prefix + "instructions", f"#{_digest(digest.encode(), references)}"))

    def _number(self, each: Object) -> int:
        if each not in self._numbers:
            self._numbers[each] = len(self._numbers)
            self._open.append(each)
        return self._numbers[each]

    def _label(self, each: Object) -> str:
        section = self._module.name(each.section)
        if section.startswith(".nv.constant"):
            bank = section.removeprefix(".nv.constant").partition(".")[0]
            return f"__constant__ {each.name}" if each.name else f"constant bank {bank}"
        if section.startswith(".nv.shared"):
            return f"shared variable {each.name}".rstrip()
        if section.startswith(".nv.global"):
            return f"initial value of {each.name}" if each.name else "string literal or table"
        return f"{section} {each.name}".rstrip()

    def _contents(self, each: Object) -> str:
        module = self._module
        section = module.name(each.section)
        if section.startswith(_WITHOUT_BYTES) and not section.startswith(".nv.global.init"):
            place = f" at {each.begin}" if section.startswith(".nv.shared") else ""
            return f"{each.size} bytes{place}"
        digest = module.digest(each)
        if digest is None:
            self.unknown = self.unknown or f"{self._label(each)} is not in the file"
            return f"{each.size} bytes"
        placed = self._relocated(each.section, each.begin, each.begin + each.size)
        return f"#{digest}" if not placed else f"#{_digest(digest.encode(), placed)}"

    def _relocated(self, section: int, begin: int, end: int) -> list[tuple[int, str]]:
        """(offset, object placed there) of the relocations between two offsets of a section."""
        placed = self._module.relocations(section, begin, end)
        return [(offset - begin, f"{kind} {self._put(symbol, addend)}") for offset, kind, symbol, addend in placed]

    def _put(self, symbol: int, addend: int) -> str:
        target = self._module.target(symbol, addend)
        if isinstance(target, str):
            if self._module.cubin.relocatable and not target.startswith(_LINKER):
                self.unknown = self.unknown or f"external symbol {target}"
            return f"{target}+{addend:#x}"
        each, offset = target
        number = self._number(each)
        name = each.name or ("code" if each.is_code else "data")
        return f"{name}+{offset:#x} #{number}"

    def _of_code(self, function: Function) -> list[tuple[int, str]]:
        module = self._module
        section, size = function.section, function.code.size
        found = self._relocated(section, 0, size)
        placed = {offset // 16 for offset, _ in found}
        opcodes = table(module.cubin.number)
        if opcodes is None or not opcodes.wide:
            self.unknown = f"instructions of {module.cubin.arch} are not decoded"
            return found
        decoded = Decoded(function.code, opcodes, module.cubin.number)
        code, names = decoded.code, decoded.mnemonics
        assert isinstance(code, Wide)
        found += self._from_banks(code, names, placed)
        for number, bank in enumerate(module.cubin.constants_of(section)):
            each = Object(bank, 0, module.elf.sections[bank].size, "", False)
            found.append((size + number, f"constants #{self._number(each)}"))
        if (parameters := module.parameters.get(section)) is not None:  # textures and surfaces, up to sm_89
            found += ((size, text) for _, text in self._relocated(parameters, 0, 1 << 32))
        rows, targets = code.branches()
        leaving = {*rows[(targets < 0) | (targets >= size)].tolist(), *code.rows_of(_ABSOLUTE).tolist()}
        if leaving - placed:
            self.unknown = self.unknown or "control leaves the function's code"
        return sorted(found)

    def _from_banks(self, code: Wide, names: Sequence[str], placed: Container[int]) -> Iterator[tuple[int, str]]:
        """(offset, objects) that instructions read from module-wide constant banks. ``placed``: rows with a relocation,
        which in relocatable code names the object itself."""
        module, banks = self._module, self._module.banks
        lows, highs = (column.view(np.uint64) for column in code.words())
        forms = lows >> np.uint64(9) & np.uint64(7)
        rows = np.flatnonzero((forms == 3) | (forms == 5)) if banks else np.empty(0, np.int64)
        indices = _Indices(code, names, module.cubin.number)
        for row, low, high in zip(rows.tolist(), lows[rows].tolist(), highs[rows].tolist(), strict=True):
            if module.cubin.relocatable and row in placed:
                continue
            loads = low & 0xFFF in _LOADS
            at, none = _LOADS.get(low & 0xFFF, (38, 0))
            offset, bank = int(low >> at & 0xFFFF), int(low >> 54 & 31)
            handle = not loads and high >> 27 & 1  # in a uniform register
            computed = handle or (loads and low >> 24 & 0xFF != none)
            if computed and bank == _POINTERS and (index := indices.before(row, low >> 24 & 0xFF)) is not None:
                offset, computed = offset + index, False
            if bank == 0 and self._may_point(offset):
                bank, computed = _CONSTANTS, True
            for section in banks.values() if handle else filter(None, [banks.get(bank)]):
                narrow = names[row] in _NARROW or low & 0x1FF == _PLAIN_MULTIPLY
                width = _LOAD_BYTES[high >> 9 & 7] if loads else 4 if narrow else 8
                begin, end, size = offset, offset + width, module.elf.sections[section].size
                if bank == _POINTERS:  # both halves of an address
                    begin, end = begin // 8 * 8, -(-end // 8) * 8
                whole = computed or begin >= size
                parts = (
                    [Object(section, 0, size, "", False)]
                    if whole
                    else module.variable(section, begin, min(end, size) - begin)
                )
                yield 16 * row, " ".join(f"{each.name or 'bank'} #{self._number(each)}" for each in parts)

    def _may_point(self, offset: int) -> bool:
        """Whether the driver's part of bank 0 may contain the address of the module's constants at ``offset``: below
        the parameters, except dimensions, the stack and memory windows."""
        number = self._module.cubin.number
        parameters, others = next((base, parts) for first, base, parts in _DRIVER_CONSTANTS if number >= first)
        return offset < parameters and not any(begin <= offset < end for begin, end in others)


class _Indices:
    """Constants in index registers: ``MOV R0, 0x8`` before ``LDC.64 R2, c[0x4][R0]``."""

    def __init__(self, code: Wide, names: Sequence[str], number: int) -> None:
        self._code, self._names, self._registers = code, names, registers(number)

    @cached_property
    def _begins(self) -> set[int]:
        """Rows of branch targets."""
        return {target // 16 for target in self._code.branches()[1].tolist()}

    def before(self, row: int, register: int) -> int | None:
        """Constant in a register at an instruction; ``None`` if unknown."""
        if self._registers is None or not _INDIRECT.isdisjoint(self._names):
            return None
        for at in range(row - 1, max(row - _REACH, -1), -1):
            if at + 1 in self._begins or self._names[at] in ("CALL", "RET", ""):
                return None
            word = self._code.integer(at)
            effects = self._registers.effects([word])
            if effects.unknown[0] or effects.written[0] >> register & 1:
                moves = word & 0xFFFF == _MOVE or (word & 0xFFFF == _MULTIPLY and word >> 24 & 0xFF == 0xFF)
                return word >> 32 & 0xFFFFFFFF if moves and not effects.unknown[0] else None
        return None


def _digest(contents: bytes, more: Sequence[object]) -> str:
    hasher = sha256(contents)
    hasher.update(repr(more).encode("utf-8", "backslashreplace"))
    return hasher.hexdigest()[:32]


_MODULE = "module_references"


def text_of(cubin: Cubin, function: Function) -> CodeText:
    """Code of a function with all its references, for comparison with another's."""
    section, code = function.section, function.code
    runs: list[tuple[int, str, int]] = []
    for row, source in enumerate(cubin.lines.of(section, range(0, code.size, 16)) or ()):
        file, line = (source.file, source.line) if source is not None else ("", 0)
        if not runs or runs[-1][1:] != (file, line):
            runs.append((row, file, line))
    module = cubin.__dict__.get(_MODULE) or cubin.__dict__.setdefault(_MODULE, ModuleReferences(cubin))
    walk = _Walk(module, function)
    return CodeText(
        number=cubin.number,
        words=zlib.compress(code.whole),
        references=tuple(walk.references),
        data=tuple(walk.data),
        unknown=walk.unknown,
        function=function.role == "function",
        lines=tuple(runs),
    )


# Labelled texts of a function's resources and attributes, for comparison with another build's.

_SHAPES = {
    attributes.MAX_THREADS: "launch bounds",
    attributes.REQNTID: "block shape",
    attributes.CTA_PER_CLUSTER: "cluster dimensions",
}
_OFFSETS = (0x1C, 0x1D, 0x25, 0x27, 0x28, 0x31)
"""Attributes that list byte offsets of instructions: exits, votes, groups of threads."""
_NAMED = {
    **_SHAPES,
    0x0A: "parameters",
    0x17: "parameters",
    0x19: "parameters",
    attributes.MAXREG_COUNT: "register limit",
    0x0F: "external functions",
    0x1E: "call stack",
    0x3E: "explicit cluster",
    0x3F: "largest cluster",
    **dict.fromkeys(_OFFSETS, "offsets of instructions"),
    **dict.fromkeys((0x34, 0x39), "targets of indirect branches and barriers"),
}
_IRRELEVANT = frozenset(
    {attributes.CUDA_API_VERSION, attributes.NUM_BARRIERS, attributes.ANNOTATIONS, 0x33, 0x3C, 0x66}
)
"""Attributes that are not compared: toolkit version, barriers (see resources), spill annotations, statistics, source
language."""
_ALL_ATTRIBUTES = range(256)
_SHOWN_BYTES = 8
"""Longest value that a comparison shows; a longer one has only changed."""
UNKNOWN_ATTRIBUTE, UNKNOWN = "attribute 0x", "unknown"
"""Label of an attribute without a known meaning; text of a missing value."""


def attribute_texts(cubin: Cubin, function: Function) -> Iterator[tuple[str, str]]:
    """(label, value) pairs of one function's resources and attributes."""
    usage = function.usage
    labels = "registers", "stack", "stack of the call tree"
    figures = usage.registers, usage.stack_bytes, usage.cumulative_stack_bytes
    yield from ((label, UNKNOWN if each is None else str(each)) for label, each in zip(labels, figures, strict=True))
    yield "shared memory", f"{usage.shared_bytes} bytes, aligned to {cubin.shared_alignment(function.section)}"
    yield "local memory", f"{usage.local_bytes} bytes"
    info = attributes.NOTHING if function.info is None else attributes.of_function(function.info)
    yield "named barriers", str(attributes.barriers_of(usage, info))
    if function.info is None:
        return
    values: dict[str, list[str]] = {}
    for attribute, value, payload in attributes.records(function.info, _ALL_ATTRIBUTES):
        if attribute in _IRRELEVANT:
            continue
        label = _NAMED.get(attribute, f"{UNKNOWN_ATTRIBUTE}{attribute:02x}")
        if attribute in _SHAPES and len(payload) >= 12:
            text = "×".join(map(str, struct.unpack_from("<3I", payload)))
        elif attribute == 0x0F:  # symbol numbers
            numbers = struct.unpack(f"<{len(payload) // 4}I", payload[: len(payload) // 4 * 4])
            text = ", ".join(cubin.symbols.target(number).decode("utf-8", "backslashreplace") for number in numbers)
        elif attribute in _OFFSETS and payload and len(payload) % 4 == 0:
            text = "#" * (len(payload) > _SHOWN_BYTES) + ", ".join(
                f"{at:#06x}" for (at,) in struct.iter_unpack("<I", payload)
            )
        elif attribute == 0x0A:  # the first word is a symbol number
            text = payload[4:].hex()
        else:
            mark = "#" if len(payload) > _SHOWN_BYTES else ""
            text = f"{mark}{payload.hex()}" if payload else str(value)
        values.setdefault(label, []).append(text)
    yield from ((label, ", ".join(texts)) for label, texts in sorted(values.items()))
