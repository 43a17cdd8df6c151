"""Accesses by STL and LDL: bytes and kind of address, as records and packed into one number.

Columns of numbers are small and fast, and few numbers are distinct. The parts of a number, from the lowest bit on: base
register (8 bits), address unknown, 7 bits of zero, whether there is a uniform address register, width (3 bits, see
:data:`WIDTHS`), last use, store, predicated, annotated, and the signed offset. The accesses of one function are columns
of such numbers; records are made on demand.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from spillscan.model.code import AccessClass, AddressForm, Group, Grouped, LocalAccess, SourceLine, Traffic
from spillscan.reading import grammar

WIDTHS = (1, 1, 2, 2, 4, 8, 16, 32)
"""Bytes by the width field of the machine word: U8, S8, U16, S16, 32, 64, 128; 256 by analogy."""

_BY_MODIFIER = {b"U8": 1, b"S8": 1, b"U16": 2, b"S16": 2, b"64": 8, b"128": 16, b"256": 32}
"""Bytes by modifier; an access without one of these moves one register."""

REGISTER_BYTES = 4

LAST_USE = b"LU"

STACK_POINTER = b"R1"

_OFFSET_BITS = 24
"""Bits of the address offset in a machine word."""

BASE, UNIFORM, LAST_USE_BIT, STORE, PREDICATED, ANNOTATED = 0xFF, 1 << 16, 1 << 20, 1 << 21, 1 << 22, 1 << 23
"""Masks of parts of the number."""
WIDTH_AT = 17
"""Lowest bit of its width."""
NOT_UNDERSTOOD, _OFFSET_AT = 1 << 8, 24
_STACK, _NO_BASE = 1, 255
_FORMS: dict[AddressForm, int] = {
    "stack": _STACK,
    "register": 0,
    "absolute": _NO_BASE,
    "register+uniform": UNIFORM,
    "uniform": UNIFORM | _NO_BASE,
    "unknown": NOT_UNDERSTOOD,
}
"""Bits of each address form; register 0 stands for any base register."""


class Target(NamedTuple):
    """Bytes and address of an access, as far as its text gives them."""

    bytes: int
    form: AddressForm
    slot: int | None
    last_use: bool


class Access(NamedTuple):
    """One access, as its instruction encodes it."""

    store: bool
    """STL if true, else LDL."""
    predicated: bool
    annotated: bool
    """Whether ptxas marked it as a spill."""
    target: Target


def number(access: Access) -> int:
    """Pack an access into a number."""
    bytes_, form, slot, last_use = access.target
    found = _FORMS[form] | WIDTHS.index(bytes_) << WIDTH_AT | (slot or 0) << _OFFSET_AT
    found |= last_use * LAST_USE_BIT | access.store * STORE
    return found | access.predicated * PREDICATED | access.annotated * ANNOTATED


@lru_cache(maxsize=1 << 16)
def access(number: int) -> Access:
    """Unpack an access from a number."""
    store = bool(number & STORE)
    base, slot = number & BASE, None
    form: AddressForm
    if number & NOT_UNDERSTOOD:
        form = "unknown"
    elif number & UNIFORM:
        form = "uniform" if base == _NO_BASE else "register+uniform"
    elif base == _STACK:
        form, slot = "stack", number >> _OFFSET_AT
    else:
        form = "absolute" if base == _NO_BASE else "register"
    last_use = bool(number & LAST_USE_BIT) and not store  # there is no STL.LU: the bit belongs to another field
    target = Target(WIDTHS[number >> WIDTH_AT & 7], form, slot, last_use)
    return Access(store, bool(number & PREDICATED), bool(number & ANNOTATED), target)


@lru_cache(maxsize=1 << 16)
def target(modifiers: bytes, operands: bytes) -> Target:
    """Parse modifiers and operands of an access: ``.LU.64`` and `` R4, [R1+0x10]``."""
    parts = modifiers.split(b".")
    width = next((_BY_MODIFIER[part] for part in parts if part in _BY_MODIFIER), REGISTER_BYTES)
    match = grammar.line("address").search(operands)
    if match is None:
        return Target(width, "unknown", None, LAST_USE in parts)
    base, uniform, offset = match["base"], match["uniform"], match["offset"]
    register = base.split(b".")[0] if base else None
    slot = None
    form: AddressForm
    if uniform:
        form = "register+uniform" if register else "uniform"
    elif register == STACK_POINTER:
        slot = int(offset.lstrip(b"+"), 16) if offset else 0
        if slot.bit_length() > _OFFSET_BITS:  # not encodable in one instruction
            return Target(width, "unknown", None, LAST_USE in parts)
        form = "stack"
    else:
        form = "register" if register else "absolute"
    return Target(width, form, slot, LAST_USE in parts)


class Part(NamedTuple):
    """Accesses of the function itself, or of one callee in its listing: the distinct ones, in three columns, since
    large kernels have thousands."""

    number: int
    """0: the function itself."""
    begin: int
    """Index of its first access."""
    numbers: array[int]
    """Distinct accesses, packed by :func:`spillscan.reading.machine.accesses.number`."""
    counts: tuple[int, ...]
    """Number of accesses equal to each."""
    kinds: tuple[AccessClass, ...]
    """Class of each."""

    def traffic(self, kind: AccessClass | None = None) -> Traffic:
        """Traffic of its accesses of one class (``None``: all)."""
        rows = zip(self.numbers, self.counts, self.kinds, strict=True)
        return _traffic((number, count) for number, count, which in rows if kind in (None, which))

    def slots(self, below: int | None = None) -> Traffic:
        """Traffic of its accesses to slots on the stack, only those ``below`` an offset if it is given."""
        rows = zip(self.numbers, self.counts, strict=True)
        own = ((access(number).target.slot, number, count) for number, count in rows)
        return _traffic(
            (number, count) for slot, number, count in own if slot is not None and (below is None or slot < below)
        )

    def kind_of(self) -> dict[int, AccessClass]:
        """Class of each distinct access, by its number."""
        return dict(zip(self.numbers, self.kinds, strict=True))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Accesses(Grouped):
    """Sequence of records, by address; equal to any sequence of equal records."""

    addresses: NDArray[np.int64]
    lines: NDArray[np.int64] | None
    """Lines of the disassembly; ``None`` for binaries."""
    accesses: NDArray[np.int64]
    """Accesses packed by :func:`spillscan.reading.machine.accesses.number`."""
    depths: Sequence[int | None]
    parts: Sequence[Part]
    """Parts that have accesses."""
    sources: Sequence[SourceLine | None] | None
    """Source lines; ``None`` if the input has none."""

    def __len__(self) -> int:
        return len(self.addresses)

    @overload
    def __getitem__(self, index: int) -> LocalAccess: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[LocalAccess]: ...

    def __getitem__(self, index: int | slice) -> LocalAccess | Sequence[LocalAccess]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        index = range(len(self))[index]
        part = self.parts[bisect_right(self.parts, index, key=attrgetter("begin")) - 1]
        return next(self._records(part, index, index + 1))

    def __iter__(self) -> Iterator[LocalAccess]:
        for part, end in self._extents():
            yield from self._records(part, part.begin, end)

    def _extents(self) -> Iterator[tuple[Part, int]]:
        """Each part, and the index after its last access."""
        yield from zip(self.parts, (*(part.begin for part in self.parts[1:]), len(self)), strict=True)

    def _records(self, part: Part, begin: int, end: int) -> Iterator[LocalAccess]:
        rows, kinds = slice(begin, end), part.kind_of()
        unknown = [None] * (end - begin)
        for address, line, number, depth, source in zip(
            self.addresses[rows].tolist(),
            unknown if self.lines is None else self.lines[rows].tolist(),
            self.accesses[rows].tolist(),
            self.depths[rows],
            self.sources[rows] if self.sources else unknown,
            strict=True,
        ):
            store, predicated, _, target = access(number)
            yield LocalAccess(
                address=address,
                line=line,
                store=store,
                bytes=target.bytes,
                form=target.form,
                slot=target.slot,
                last_use=target.last_use,
                predicated=predicated,
                kind=kinds[number],
                depth=depth,
                part=part.number,
                source=source,
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(LocalAccess.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    @property
    def has_sources(self) -> bool:
        """Whether there are source lines."""
        return bool(self.sources)

    def groups(self) -> Counter[Group]:
        """Number of accesses of each group."""
        found: Counter[Group] = Counter()
        for part, end in self._extents():
            rows = slice(part.begin, end)
            alike = {}
            for number, kind in zip(part.numbers, part.kinds, strict=True):
                each = access(number)
                alike[number] = kind, each.store, each.target.bytes
            columns = zip(map(alike.__getitem__, self.accesses[rows].tolist()), self.depths[rows], strict=True)
            for ((kind, store, size), depth), count in Counter(columns).items():
                found[Group(kind, store, size, depth, part.number > 0)] += count
        return found

    def traffic(self, kind: AccessClass | None = None, *, own: bool = False) -> Traffic:
        """Traffic of one class (``None``: all); ``own``: of the function itself only. Does not search for loops."""
        return sum((part.traffic(kind) for part in self.parts if not (own and part.number)), Traffic())

    def some(self, chosen: NDArray[np.bool_], kind: AccessClass | None = None) -> Traffic:
        """Traffic of the ``chosen`` accesses of one class (``None``: all). Does not search for loops."""
        found: list[tuple[int, int]] = []
        for part, end in self._extents() if self.parts else ():
            rows, kinds = slice(part.begin, end), part.kind_of()
            counts = Counter(self.accesses[rows][chosen[rows]].tolist())
            found += [(number, count) for number, count in counts.items() if kind in (None, kinds[number])]
        return _traffic(found)


def traffic(accesses: Iterable[Access]) -> Traffic:
    """Number of stores and loads, and the bytes that they move."""
    return _traffic((number(each), 1) for each in accesses)


def _traffic(counts: Iterable[tuple[int, int]]) -> Traffic:
    """Traffic of packed accesses, given with the count of each."""
    stores = loads = store_bytes = load_bytes = 0
    for number, count in counts:
        size = count * WIDTHS[number >> WIDTH_AT & 7]
        if number & STORE:
            stores += count
            store_bytes += size
        else:
            loads += count
            load_bytes += size
    return Traffic(stores=stores, loads=loads, store_bytes=store_bytes, load_bytes=load_bytes)
