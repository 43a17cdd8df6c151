"""Cubins: which functions they hold, and what sections, symbols, notes and attributes say of each. No machine code is
read.

Both layouts: up to CUDA 12 below sm_100 (ELF ABI 7: the architecture is the flags' low byte, barriers stand in the
section's flags, registers in its info) and the one after it (ABI 8: second byte, and attributes).

A record of ``.nv.info`` is ``u8 format, u8 attribute, u16 value or length`` and, in format 4, that many bytes. Numbers
are those that ``cuobjdump -elf`` names (EIATTR_…); checked record by record against its listing.

Texture, surface and sampler references are symbols of their own kinds, which relocations of constant bank 0 name. Equal
to what ptxas prints up to sm_89. From sm_90 on it prints none, and the relocations name no symbols. Objects that a
kernel is given (bindless) are no references: they stand in no cubin, and there is no figure.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Container, Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from xxhash import xxh3_64, xxh3_64_hexdigest

from spillscan.model import Role
from spillscan.model.code import Maker
from spillscan.naming.identity import canonical
from spillscan.reading.binary.elf import FUNC, SYMTAB, Elf
from spillscan.reading.binary.lines import Lines
from spillscan.reading.binary.window import DamageError, Window

TKINFO = b".note.nv.tkinfo"
ABI_NEW = 8
_PRINTABLE = re.compile(rb"[\x20-\x7e]{2,}")
_VERSION = re.compile(rb"V(\d+)\.(\d+)\.(\d+)")
_ARCH = re.compile(rb"-arch[= ]+(?:sm|compute)_(\d+[af]?)\b")


class Toolkit(Struct, frozen=True, kw_only=True):
    """Which ptxas or nvlink wrote the cubin, as far as it says."""

    version: tuple[int, ...] = ()
    """(13, 5, 37); only the first two without a note; empty where nothing says."""
    tool: str = ""
    """``ptxas`` or ``nvlink``."""
    options: str = ""
    """Its command line."""
    arch: str = ""
    """Target on its command line: ``100f``."""


def toolkit(elf: Elf) -> Toolkit:
    """What the cubin says of its maker."""
    note = elf.index(TKINFO)
    if note is not None:
        return _tkinfo(elf.contents(note))
    if elf.abi_version < ABI_NEW and 50 <= elf.version < 1000:  # the toolkit's version: 0x7e is 12.6
        return Toolkit(version=(elf.version // 10, elf.version % 10))
    return Toolkit()


def _tkinfo(note: Window) -> Toolkit:
    """Header of 24 bytes (sizes, type, owner), a table of offsets, then texts: tool, version, branch, options."""
    texts: list[bytes] = _PRINTABLE.findall(note.copy(0, min(note.size, 1 << 16), "note"))
    texts = [text for text in texts if text != b"NVIDIA Corp"]
    release = next((match for text in texts if (match := _VERSION.search(text))), None)
    options = texts[-1].strip() if len(texts) > 3 else b""
    arch = _ARCH.search(options)
    return Toolkit(
        version=tuple(map(int, release.groups())) if release else (),
        tool=texts[0].decode() if texts else "",
        options=options.decode(),
        arch=arch[1].decode() if arch else "",
    )


MAX_THREADS, REQNTID, CTA_PER_CLUSTER = 0x05, 0x10, 0x3D
FRAME_SIZE, MIN_STACK_SIZE, MAXREG_COUNT, REGCOUNT = 0x11, 0x12, 0x1B, 0x2F
CUDA_API_VERSION, NUM_BARRIERS, REG_RECONFIG, ANNOTATIONS = 0x37, 0x4C, 0x54, 0x55
SPILL = 1
"""Kind of an annotation: SpillRefill. The other kinds have never been seen in a cubin."""

_SIZED = 4
_DIMENSIONS = struct.Struct("<3I")
_PER_FUNCTION = frozenset({FRAME_SIZE, MIN_STACK_SIZE, REGCOUNT})
_NO_CAP = 255
_RECORD = struct.Struct("<BBH").unpack_from
"""Format, attribute, and the size of what follows, or a value."""
_TELLING = frozenset(
    {MAX_THREADS, REQNTID, CTA_PER_CLUSTER, MAXREG_COUNT, NUM_BARRIERS, CUDA_API_VERSION, REG_RECONFIG, ANNOTATIONS}
)
"""Attributes that :func:`of_function` reads."""


class FunctionInfo(Struct, frozen=True, gc=False):
    """What the records of one function say; ``None``: no such record."""

    max_threads: tuple[int, int, int] | None = None
    """``.maxntid``: most threads in each dimension."""
    required_threads: tuple[int, int, int] | None = None
    """``.reqntid``: threads in each dimension."""
    cluster_blocks: tuple[int, int, int] | None = None
    """``.reqnctapercluster``: blocks of a cluster in each dimension."""
    barriers: int | None = None
    """Named barriers."""
    toolkit: int | None = None
    """CUDA API version times ten: 126."""
    spills: tuple[int, ...] | None = None
    """Offsets of annotated instructions, ascending."""
    sets_registers: bool = False
    """Its code says how many registers its warps have (``setmaxnreg``)."""
    register_cap: int | None = None
    """Most registers per thread that ptxas was allowed, whether by launch bounds, ``__maxnreg__`` or ``-maxrregcount``;
    ``None``: as many as an instruction can name."""


NOTHING = FunctionInfo()


def records(section: Window, wanted: Container[int]) -> list[tuple[int, int, bytes]]:
    """(attribute, value, payload) of each record of ``wanted`` attributes; the payload of formats 1 to 3 is empty."""
    at, data = 0, section.copy(0, section.size, ".nv.info")
    end, last = len(data), len(data) - 4
    found = []
    while at <= last:
        form, attribute, value = _RECORD(data, at)
        at += 4
        if form == _SIZED:
            if attribute in wanted:
                found.append((attribute, value, data[at : at + value]))
            at += value
            if at > end:
                what = f".nv.info attribute {attribute:#x} of {value} bytes breaks off"
                raise DamageError(what, section.start + at - value)
        elif not 1 <= form <= 3:
            raise DamageError(f".nv.info record of unknown format {form}", section.start + at)
        elif attribute in wanted:
            found.append((attribute, value, b""))
    return found


_PAIR = struct.Struct("<3I")
"""A record of one symbol: its head, the symbol's number, a value."""
_PAIR_HEAD, _ATTRIBUTE_AT = 0x00080004, 8


def of_module(section: Window) -> dict[int, dict[int, int]]:
    """Figures by attribute and symbol number: registers and stack sizes of every function."""
    found: dict[int, dict[int, int]] = {attribute: {} for attribute in _PER_FUNCTION}
    by_head = {_PAIR_HEAD | attribute << _ATTRIBUTE_AT: values for attribute, values in found.items()}
    if section.size % _PAIR.size == 0:
        for head, number, value in _PAIR.iter_unpack(section.whole):
            values = by_head.get(head)
            if values is not None:
                values[number] = value
            elif head & ~(0xFF << _ATTRIBUTE_AT) != _PAIR_HEAD:
                break
        else:
            return found
    for attribute, _, payload in records(section, _PER_FUNCTION):
        if len(payload) == 8:
            found[attribute][int.from_bytes(payload[:4], "little")] = int.from_bytes(payload[4:], "little")
    return found


def of_function(section: Window) -> FunctionInfo:
    """What the section of one function says."""
    telling = _telling(section)
    read = _of_records if len(telling) <= _KEPT_BYTES else _of_records.__wrapped__
    try:
        return read(telling)
    except DamageError as error:
        raise DamageError(error.what, section.start + error.offset) from None


_KEPT_BYTES = 1 << 12
"""Of one function's records that are remembered: annotations of many spills are not."""


def _telling(section: Window) -> bytes:
    """The records of a section that :func:`of_function` reads: a tenth of it, and nearly all of what functions have
    in common. The whole section where it is damaged."""
    data, at, end = section.buffer, section.start, section.end
    found: list[Any] = []
    while at + _HEAD_BYTES <= end:
        head = _HEAD(data, at)[0]
        size = _SIZES.get(head)
        if size is None:
            size = _size(head)
            if not size:
                return section.copy(0, section.size, ".nv.info")
            if head >> _ATTRIBUTE_AT & 0xFF in _TELLING:
                size = -size
            if len(_SIZES) < _MOST_SIZES:
                _SIZES[head] = size
        if size > 0:
            at += size
        else:
            found.append(data[at : at - size])
            at -= size
    return b"".join(found) if at <= end else section.copy(0, section.size, ".nv.info")


_HEAD_BYTES = 4
_HEAD = struct.Struct("<I").unpack_from
_SIZES: dict[int, int] = {}
"""Bytes of records by their heads; below 0: they are read."""
_MOST_SIZES = 1 << 12


def _size(head: int) -> int:
    """Bytes of a record; 0: it is none."""
    form = head & 0xFF
    return _HEAD_BYTES + (head >> 16) if form == _SIZED else _HEAD_BYTES if 1 <= form <= 3 else 0


@lru_cache(maxsize=1 << 10)
def _of_records(telling: bytes) -> FunctionInfo:
    threads: dict[int, tuple[int, int, int]] = {}
    barriers: int | None = None
    toolkit: int | None = None
    spills: tuple[int, ...] | None = None
    register_cap: int | None = None
    sets_registers = False
    for attribute, value, payload in records(Window(telling), _TELLING):
        if attribute == NUM_BARRIERS:
            barriers = value & 0xFF
        elif attribute == REG_RECONFIG:
            sets_registers = True
        elif attribute == MAXREG_COUNT:
            register_cap = value if 0 < value < _NO_CAP else None
        elif attribute == CUDA_API_VERSION and len(payload) >= 4:
            toolkit = int.from_bytes(payload[:4], "little")
        elif attribute in (MAX_THREADS, REQNTID, CTA_PER_CLUSTER) and len(payload) >= 12:
            threads[attribute] = _DIMENSIONS.unpack_from(payload)
        elif attribute == ANNOTATIONS:
            pairs = np.frombuffer(payload, "<u4", len(payload) // 8 * 2).reshape(-1, 2)
            spills = (*(spills or ()), *pairs[pairs[:, 0] == SPILL, 1].tolist())
    bounds = threads.get(MAX_THREADS), threads.get(REQNTID), threads.get(CTA_PER_CLUSTER)
    return FunctionInfo(*bounds, barriers, toolkit, spills, sets_registers, register_cap)


LAST_ARCH = 89
_TEXTURE, _SAMPLER, _SURFACE = 10, 11, 12
"""Kinds of symbols."""
_BANK = b".rel.nv.constant0."
_REL = np.dtype([("offset", "<u8"), ("info", "<u8")])
_RECORDS = {9: struct.Struct("<QQ"), 4: struct.Struct("<QQq")}
"""Relocations, by the kind of their section: offset, symbol and kind, and the addend where it is not in the bytes."""


class References(NamedTuple):
    """How many of each a function names."""

    textures: int
    surfaces: int
    samplers: int


def by_section(elf: Elf, symbols: NDArray[Any], number: int) -> dict[int, References]:
    """By code section; functions without references are left out. ``number``: of the architecture."""
    kinds = symbols["info"] & 15
    if number > LAST_ARCH or not ((kinds >= _TEXTURE) & (kinds <= _SURFACE)).any():
        return {}
    owners = elf.owners
    found: dict[int, References] = {}
    for index, name in enumerate(elf.names):
        if not name.startswith(_BANK) or owners[index] >= len(owners):
            continue
        table = elf.contents(index)
        relocations = table.array(_REL, table.size // _REL.itemsize, 0, "relocations")
        named = np.unique(relocations["info"] >> 32)
        counts = np.bincount(kinds[named[named < len(kinds)].astype(np.int64)], minlength=16).tolist()
        if any(counts[_TEXTURE : _SURFACE + 1]):
            found[owners[owners[index]]] = References(counts[_TEXTURE], counts[_SURFACE], counts[_SAMPLER])
    return found


EXECUTABLE_SECTION = 4
RELOCATABLE_FILE = 1
_TYPES = (RELOCATABLE_FILE, 2)
DYNAMIC_STACK = 0xFFFFFFFF
DRIVER_SHARED_BYTES = 1024
"""Shared memory that the driver keeps in each block from sm_90 on; the section counts it, ptxas does not."""
FIRST_ARCH_WITH_RESERVE = 90

_FIRST_SIGN, _DELETE = 0x21, b"\x7f"
"""What stands before the first and is not NUL, and DEL, no name holds."""
_PLAIN = b"\0_$.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DAMAGED_SYMBOL = rb"\0_Z[\w$.]*[^\w$.\0]"
"""Of a mangled name (Itanium C++ ABI 5.1.1)."""
_DOT = ord(".")
_ENTRY = 0x10
"""In a symbol's ``st_other``: a kernel."""
_ACCELERATED_OLD, _ACCELERATED_NEW = 0x800, 0x8
_FIRST_ACCELERATED = 90
"""Of assemblers' code for earlier ones the same bit says something else."""
_ACCELERATOR_TARGET = 9
"""Attribute of ``.nv.compat``: 1 for ``sm_90a`` and the like."""
_CODE = b".text."
"""What stands before a function's name in that of its section."""
_TEXT, _INFO, _CONSTANT, _SHARED, _LOCAL, _TILE = (
    int.from_bytes(head, "little") for head in (_CODE, b".nv.info", b".nv.cons", b".nv.shar", b".nv.loca", b".nv.tile")
)
_TEXT_MASK = (1 << 8 * len(_CODE)) - 1
"""How the names of sections begin, as :attr:`Elf.heads` has it."""


class Function(Struct, frozen=True, gc=False):
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
    dynamic_shared: bool | None
    """Whether it declares shared memory whose size each launch gives; ``None`` where that is not known."""
    local_bytes: int
    """``.nv.local``: of code without the ABI."""
    constant_bytes: tuple[tuple[int, int], ...]
    """(bank, bytes) of its own banks."""
    barriers: int | None
    """Of its section's flags; ``None`` in the new layout."""
    section: int
    """Number of its section."""


DYNAMIC_ALIGNMENT = 16
"""Least alignment of a section of shared memory to which dynamic shared memory belongs, whatever the source asks for
(measured: ptxas 11.8, 12.4, 12.8, 12.9 and 13.0, nvlink 13.0)."""


class _Sections(NamedTuple):
    """Code sections, and what belongs to each, by its number."""

    text: list[int]
    infos: dict[int, Window]
    shared: dict[int, tuple[int, int]]
    """Bytes, and their alignment."""
    local: dict[int, int]
    banks: dict[int, list[tuple[int, int]]]
    """(bank, bytes)."""
    constants: dict[int, list[int]]
    """Sections of the constants that the compiler gave it; its parameters (bank 0) are empty in a file."""
    parameters: set[int]
    """Those with a bank for parameters."""


def _are_names(pool: bytes) -> bool:
    """Whether compilers may have called something so: UTF-8 without blanks and control characters. NUL stands between
    the names."""
    try:
        pool.decode()
    except UnicodeDecodeError:
        return False
    octets = np.frombuffer(pool, np.uint8) - np.uint8(_FIRST_SIGN)  # what is less comes behind all others, NUL first
    return bool(octets.max(initial=0) <= 0x100 - _FIRST_SIGN) and _DELETE not in pool


def _are_functions(pool: bytes) -> bool:
    """Whether functions may be called so: mangled names hold nothing but letters, digits and few signs."""
    return not pool.translate(None, _PLAIN) or (_are_names(pool) and re.search(_DAMAGED_SYMBOL, pool) is None)


@lru_cache(maxsize=1 << 8)
def _bank(letters: bytes) -> int | None:
    """The number in the name of a function's constant bank; ``None`` where it is none."""
    bank, dot, _ = letters.partition(b".")
    return int(bank) if dot and bank.isdigit() else None


@lru_cache(maxsize=1 << 12)
def _text(symbol: bytes) -> str:
    """A symbol as text, the same one wherever it stands: a source's functions are in the code of each architecture, and
    what is one is hashed, kept and sent once."""
    return symbol.decode("utf-8", "backslashreplace")


def digest_of_code(code: Window) -> str:
    """See :meth:`Cubin.digest_of`."""
    return xxh3_64_hexdigest(code.whole)


class Cubin:
    """One cubin. Raises :class:`DamageError` where it contradicts itself."""

    def __init__(self, window: Window) -> None:
        self.elf = Elf(window)
        self.new_layout = self.elf.abi_version >= ABI_NEW
        self.number = (self.elf.flags >> 8 if self.new_layout else self.elf.flags) & 0xFF
        """Of its architecture: 90."""
        self.relocatable = self.elf.type == RELOCATABLE_FILE
        self._targets: dict[int, bytes] = {}

    @cached_property
    def toolkit(self) -> Toolkit:
        """Which tool wrote it."""
        return toolkit(self.elf)

    @cached_property
    def lines(self) -> Lines:
        """Its source lines."""
        return Lines(self.elf, self._symbols)

    @cached_property
    def references(self) -> dict[int, References]:
        """Texture, surface and sampler references by code section."""
        return by_section(self.elf, self._symbols, self.number)

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
            accelerated = self.number >= _FIRST_ACCELERATED and self.elf.flags & _ACCELERATED_OLD
            return "a" if accelerated else ""
        if self.elf.flags & _ACCELERATED_NEW:
            return "a"
        compat = self.elf.index(b".nv.compat")
        if compat is not None:
            found = records(self.elf.contents(compat), {_ACCELERATOR_TARGET})
            if any(value == 1 for _, value, _ in found):
                return "a"
        named = self.toolkit.arch
        return "f" if named == f"{self.number}f" else ""

    def functions(self) -> Iterator[Function]:
        """All functions in the order of their sections."""
        elf = self.elf
        text, infos, shared, local, banks, *_ = self._sections
        if not text:
            return
        figures = self._figures
        registers, frames = figures[REGCOUNT], figures[FRAME_SIZE]
        stacks = figures[MIN_STACK_SIZE]
        offsets, sizes, links = elf.offsets, elf.sizes, elf.owners
        flags = elf.sections["flags"].tolist()
        homes, others = (self._symbols[field].tolist() for field in ("section", "other"))
        counted = self.number >= FIRST_ARCH_WITH_RESERVE and not self.relocatable  # else the linker adds it
        reserve = DRIVER_SHARED_BYTES if counted else 0
        for section, name in zip(text, self._titles, strict=True):
            number = links[section] & 0xFFFFFF
            known = number < len(homes) and homes[number] == section
            symbol = name[:-1] if known else self._named_by(section)
            allocated = registers.get(number) if known else None
            whole, alignment = shared.get(section, (0, 0))
            static = whole - reserve if whole >= reserve else whole
            stack = stacks.get(number) if known else None
            role: Role = "unknown"
            if known:
                role = "entry" if others[number] & _ENTRY else "function"
            yield Function(
                _text(symbol),
                role,
                elf.window.part(offsets[section], sizes[section], "code"),
                infos.get(section),
                (links[section] >> 24 or None) if allocated is None else allocated,
                frames.get(number) if known else None,
                None if stack == DYNAMIC_STACK else stack,
                static,
                None if self.relocatable else self._declares_dynamic(static, alignment),
                local.get(section, 0),
                tuple(sorted(banks.get(section, ()))),
                None if self.new_layout else flags[section] >> 20 & 0x7F,
                section,
            )

    def check(self) -> None:
        """Raise :class:`DamageError` where something is missing that there must be: the code of each function of its
        symbols, the attributes of the module and of each kernel."""
        elf = self.elf
        if elf.type not in _TYPES:
            raise DamageError(f"a cubin of ELF type {elf.type}", elf.window.start)
        if not _are_names(elf.pool) or (elf.heads[1:] & 0xFF != _DOT).any():
            raise DamageError("sections with damaged names", elf.window.start)
        sections, functions = self._sections, self._functions
        named = zip(sections.text, self._titles, strict=True)
        symbols = [title or self._named_by(section) for section, title in named]
        callees = map(self._name, (place for each in self._inner.values() for _, place in each))
        if not _are_functions(b"\0".join((b"", *symbols, *callees))):
            raise DamageError("functions with damaged names", elf.window.start)
        homes = functions["section"]
        if lost := len(set(homes[homes > 0].tolist()).difference(sections.text)):
            raise DamageError(f"{lost} functions of its symbols have no code", elf.window.start)
        if sections.text and self._module is None:
            raise DamageError("a cubin without attributes", elf.window.start)
        titles = [_CODE + name for name in self._titles]
        if not elf.all_begin(sections.text, titles):
            other = next(each for each, title in zip(sections.text, titles, strict=True) if not elf.begins(each, title))
            raise DamageError(f"a function that is not called as its section {other}", elf.window.start)
        kernels = homes[(homes > 0) & (functions["other"] & _ENTRY != 0)].tolist()
        if lost := len(set(kernels).difference(sections.infos)):
            raise DamageError(f"{lost} kernels without attributes", elf.window.start)
        if lost := len(set(kernels).difference(sections.parameters)):
            raise DamageError(f"{lost} kernels without a constant bank for parameters", elf.window.start)

    def info_of(self, function: Function) -> FunctionInfo:
        """What the attributes of one function say."""
        return NOTHING if function.info is None else of_function(function.info)

    def digest_of(self, function: Function) -> str:
        """16 hexadecimal digits that stand for its code: its bytes, the constants that the compiler gave it, and what
        relocations put into both, by name and not by address.

        Not in it: parameters (bank 0, which is empty in a file), and variables of the whole module (banks 3 and 4).
        """
        return self.own_digest(function) or digest_of_code(function.code)

    def own_digest(self, function: Function) -> str:
        """The same; empty where it is that of its bytes alone: it has no constants and no relocations."""
        own, relocations = function.section, self._relocations
        constants = self._sections.constants.get(own, ())
        if not constants and own not in relocations:
            return ""
        hasher = xxh3_64(function.code.whole)
        if own in relocations:
            self._relocated(own, own, hasher)
        for section in constants:
            hasher.update(self.elf.contents(section).whole)
            if section in relocations:
                self._relocated(section, own, hasher)
        return hasher.hexdigest()

    def _relocated(self, section: int, code: int, hasher: xxh3_64) -> None:
        """Take the relocations of one section of a function into its digest; ``code``: its code section."""
        itself = self.elf.owners[code] & 0xFFFFFF
        for index, form in self._relocations[section]:
            table = self.elf.contents(index)
            whole = table.copy(0, table.size // form.size * form.size, "relocations")
            for offset, info, *addend in form.iter_unpack(whole):
                name = b"" if info >> 32 == itself else self._target(info >> 32)
                hasher.update(b"%x %d %d %b\n" % (offset, info & 0xFFFFFFFF, addend[0] if addend else 0, name))

    @cached_property
    def _relocations(self) -> dict[int, list[tuple[int, struct.Struct]]]:
        """Relocation sections, and the form of their records, by the section that they are about."""
        kinds, owners = self.elf.sections["type"], self.elf.sections["info"]
        found: dict[int, list[tuple[int, struct.Struct]]] = {}
        for kind, form in _RECORDS.items():
            indices = np.flatnonzero(kinds == kind)
            for index, owner in zip(indices.tolist(), owners[indices].tolist(), strict=True):
                found.setdefault(owner, []).append((index, form))
        return found

    def _target(self, number: int) -> bytes:
        """The canonical name of what a relocation points at: of a symbol; of one without a name, its section's."""
        name = self._targets.get(number)
        if name is None:
            name = b""
            if number < len(self._symbols):
                symbol = self._symbols[number]
                name, section = self._name(int(symbol["name"])), int(symbol["section"])
                if not name and section < len(self.elf.names):
                    name = self.elf.names[section]
            name = canonical(name.decode("utf-8", "backslashreplace")).encode("utf-8", "backslashreplace")
            self._targets[number] = name
        return name

    def parts_of(self, function: Function) -> dict[int, str]:
        """Where callees begin inside the function's section, and their symbols. ptxas copies device functions into each
        kernel of a whole program (``$kernel$callee``); its own helpers, which no log names, have none here."""
        found: dict[int, str] = {}
        inner = self._inner.get(function.section)
        if inner is None:
            return found
        copied = f"${function.symbol}$".encode()
        for begin, place in inner:
            if begin < function.code.size:
                name = self._name(place)
                own = name[len(copied) :] if name.startswith(copied) else b""
                found.setdefault(begin, own.decode("utf-8", "backslashreplace"))
        return found

    @cached_property
    def _functions(self) -> dict[str, NDArray[Any]]:
        """Its symbols of functions, by field."""
        symbols = self._symbols
        rows = (symbols["info"] & 15 == FUNC).nonzero()[0]
        return {field: symbols[field][rows] for field in ("section", "other", "value", "name")}

    @cached_property
    def _inner(self) -> dict[int, list[tuple[int, int]]]:
        """Functions that do not begin where their section does: offset and place of the name, ascending, by section."""
        functions = self._functions
        mine = (functions["value"] > 0).nonzero()[0]
        columns = (functions[each][mine].tolist() for each in ("section", "value", "name"))
        found: dict[int, list[tuple[int, int]]] = {}
        for section, begin, place in zip(*columns, strict=True):
            found.setdefault(section, []).append((begin, place))
        return {section: sorted(each) for section, each in found.items()}

    def _declares_dynamic(self, static_bytes: int, alignment: int) -> bool | None:
        """Whether a function declares dynamic shared memory, by its section of shared memory (alignment 0: it has
        none). ptxas gives one to every function of a module that declares any, nvlink to those that use it. One that
        also holds static memory, of data that may be aligned as well, decides nothing; the launches of code that
        cuTile's compiler made give none at all.
        """
        if alignment < DYNAMIC_ALIGNMENT or (static_bytes and self._of_tiles):
            return False
        return None if static_bytes else True

    @cached_property
    def _of_tiles(self) -> bool:
        elf = self.elf
        return any(elf.begins(index, b".nv.tileir.") for index in (elf.heads == _TILE).nonzero()[0].tolist())

    @cached_property
    def _sections(self) -> _Sections:
        """The sections that are of functions."""
        elf, heads = self.elf, self.elf.heads
        owners, offsets, sizes = elf.owners, elf.offsets, elf.sizes

        def named(head: int) -> list[int]:
            found: list[int] = (heads == head).nonzero()[0].tolist()
            return found

        executable = elf.sections["flags"] & EXECUTABLE_SECTION != 0
        infos = {
            owners[index]: elf.window.part(offsets[index], sizes[index], ".nv.info")
            for index in named(_INFO)
            if elf.begins(index, b".nv.info.")
        }
        banks: dict[int, list[tuple[int, int]]] = {}
        constants: dict[int, list[int]] = {}
        parameters: set[int] = set()
        for index in named(_CONSTANT):
            bank = _bank(elf.letters(index, len(b".nv.constant"), len(b"16.")))
            if bank is not None:
                banks.setdefault(owners[index], []).append((bank, sizes[index]))
            if bank == 0:
                parameters.add(owners[index])
            else:
                constants.setdefault(owners[index], []).append(index)
        shared = named(_SHARED)
        alignments = elf.sections["align"][shared].tolist()
        return _Sections(
            ((heads & _TEXT_MASK == _TEXT) & executable).nonzero()[0].tolist(),
            infos,
            {owners[index]: (sizes[index], alignment) for index, alignment in zip(shared, alignments, strict=True)},
            {owners[index]: sizes[index] for index in named(_LOCAL)},
            banks,
            constants,
            parameters,
        )

    @cached_property
    def _figures(self) -> dict[int, dict[int, int]]:
        return of_module(Window(b"") if self._module is None else self.elf.contents(self._module))

    @cached_property
    def _module(self) -> int | None:
        """The section of the module's attributes."""
        return self.elf.index(b".nv.info")

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
    def _titles(self) -> list[bytes]:
        """The name of each code section's symbol, with NUL behind it; empty where there is none."""
        places, pool, links = self._symbols["name"].tolist(), self._strings, self.elf.owners
        numbers = [links[section] & 0xFFFFFF for section in self._sections.text]
        begins = [places[number] if number < len(places) else len(pool) for number in numbers]
        return [pool[begin : pool.find(b"\0", begin) + 1] for begin in begins]

    def _named_by(self, section: int) -> bytes:
        """The function that a code section is named by."""
        return self.elf.names[section][len(_CODE) :]

    def _name(self, place: int) -> bytes:
        """What stands there among the names of symbols."""
        return self._strings[place : self._strings.find(b"\0", place)]

    @cached_property
    def _strings(self) -> bytes:
        """Names of symbols, each with NUL behind it."""
        link = int(self.elf.sections[self._table]["link"])
        if link >= len(self.elf.sections):
            raise DamageError("a symbol table without names", self.elf.window.start)
        return b"".join((self.elf.contents(link).whole, b"\0"))
