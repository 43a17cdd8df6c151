"""What one STL or LDL touches (how many bytes, by which kind of address; in words, and as one number), and what it is.

A column of numbers is small and quick, and few of them are distinct. The parts of a number, from the lowest bit on:
base register (8 bits), address not understood, 7 bits of zero, whether there is a uniform address register, width (3
bits, see :data:`WIDTHS`), last use, store, predicated, annotated, and the signed offset. The accesses of one function
are columns of such numbers; their records are made when they are looked at.

Each access is a spill, a local array's, a callee frame's or unknown, by the best evidence at hand.

1. ptxas's own annotation (nvdisasm 13.4 and later; cubins of ptxas 12.6.20 and later): what is marked is a spill, what
   is not is none. Of the rest a slot that the function both stores and loads is an array's where nothing else decides;
   what it only stores or only loads, it hands to a callee or was given.
2. The last-use rule. ptxas puts ``.LU`` on refills only, its own or those of a callee that it has allocated registers
   together with. Without any a function spills nothing, as far as is known. With one, its slots on the stack are
   spills; where the function also uses local memory by other addresses, takes the address of its frame, or calls
   something that may look for arguments on the stack, only those not below the lowest slot that a refill reads: arrays
   and arguments lie below the spill area.
3. What is reloaded in a loop only has no last use. Slots that are both stored and loaded, right below the slots that a
   refill proves (or the frame's upper end), belong to them where there is no array; where there may be one, the
   class is unknown.
4. A device function compiled on its own, and a callee with a frame of its own (recursion, calls by address): ptxas
   counts the registers it saves for its caller as spills, and does not mark them; they stand in its own frame, and
   arguments that the caller left on the stack above it. Saved registers are one block of slots, in the order of the
   registers: each is stored once, and loaded into the register that was stored (845 of 845 functions, 12.6 to 13.5).
5. Other callees behind a kernel share its frame, and ptxas allocates their registers together: one last use proves the
   slots above it for all of them. Where it hands arguments over in memory, they lie below.

What none of these decides is ``unknown``. The classes always add up to all accesses.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, overload

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from spillscan.model.code import AccessClass, AddressForm, Group, Grouped, LocalAccess, SourceLine, Traffic
from spillscan.reading import grammar

WIDTHS = (1, 1, 2, 2, 4, 8, 16, 32)
"""Bytes by the width field of the machine word: U8, S8, U16, S16, 32, 64, 128; 256 by analogy."""

_BY_MODIFIER = {b"U8": 1, b"S8": 1, b"U16": 2, b"S16": 2, b"64": 8, b"128": 16, b"256": 32}
"""Bytes; an access without one of these moves one register."""

REGISTER_BYTES = 4

LAST_USE = b"LU"

STACK_POINTER = b"R1"

_OFFSET_BITS = 24
"""Of an address in a machine word."""

BASE, UNIFORM, LAST_USE_BIT, STORE, PREDICATED, ANNOTATED = 0xFF, 1 << 16, 1 << 20, 1 << 21, 1 << 22, 1 << 23
"""Parts of the number."""
WIDTH_AT = 17
"""Its lowest bit that belongs to the width."""
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
"""Numbers of addresses; of the registers that may be a base, one stands for all."""


class Target(NamedTuple):
    """What an access touches, as far as its text says."""

    bytes: int
    form: AddressForm
    slot: int | None
    last_use: bool


class Access(NamedTuple):
    """What one access says of itself."""

    store: bool
    """STL, else LDL."""
    predicated: bool
    annotated: bool
    """ptxas marked it as a spill."""
    target: Target


def number(access: Access) -> int:
    """An access as a number."""
    bytes_, form, slot, last_use = access.target
    found = _FORMS[form] | WIDTHS.index(bytes_) << WIDTH_AT | (slot or 0) << _OFFSET_AT
    found |= last_use * LAST_USE_BIT | access.store * STORE
    return found | access.predicated * PREDICATED | access.annotated * ANNOTATED


@lru_cache(maxsize=1 << 16)
def access(number: int) -> Access:
    """What a number says."""
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
    last_use = bool(number & LAST_USE_BIT) and not store  # there is no STL.LU: the bit is another field's
    target = Target(WIDTHS[number >> WIDTH_AT & 7], form, slot, last_use)
    return Access(store, bool(number & PREDICATED), bool(number & ANNOTATED), target)


@lru_cache(maxsize=1 << 16)
def target(modifiers: bytes, operands: bytes) -> Target:
    """Read ``.LU.64`` and `` R4, [R1+0x10]``."""
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
        if slot.bit_length() > _OFFSET_BITS:  # no instruction holds it
            return Target(width, "unknown", None, LAST_USE in parts)
        form = "stack"
    else:
        form = "register" if register else "absolute"
    return Target(width, form, slot, LAST_USE in parts)


class Part(NamedTuple):
    """The accesses of the function itself, or of one callee in its listing. Few are distinct."""

    number: int
    """0: the function itself."""
    begin: int
    """Its first access."""
    counts: Mapping[int, int]
    """How many there are of each, as :func:`spillscan.reading.machine.local.number` has them."""
    kinds: Mapping[int, AccessClass]
    """What each is, in the same order."""

    def traffic(self, kind: AccessClass | None = None) -> Traffic:
        """Its accesses of one class (``None``: all)."""
        both = zip(self.counts.items(), self.kinds.values(), strict=True)
        return _traffic(each for each, which in both if kind in (None, which))

    def slots(self, below: int | None = None) -> Traffic:
        """Its accesses to slots on the stack, ``below`` an offset only."""
        own = ((access(number).target.slot, number, count) for number, count in self.counts.items())
        return _traffic(
            (number, count) for slot, number, count in own if slot is not None and (below is None or slot < below)
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Accesses(Grouped):
    """A sequence of records, by address; equal to any sequence of equal records."""

    addresses: NDArray[np.int64]
    lines: NDArray[np.int64] | None
    """``None`` where there is no dump."""
    accesses: NDArray[np.int64]
    """As :func:`spillscan.reading.machine.local.number` has them."""
    depths: Sequence[int | None]
    parts: Sequence[Part]
    """Those that have any."""
    sources: Sequence[SourceLine | None] | None
    """``None`` where the dump has none."""

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
        part = self.parts[bisect_right(self.parts, index, key=_begin) - 1]
        return next(self._records(part, index, index + 1))

    def __iter__(self) -> Iterator[LocalAccess]:
        for part, end in self._extents():
            yield from self._records(part, part.begin, end)

    def _extents(self) -> Iterator[tuple[Part, int]]:
        """Each part, and where the next begins."""
        yield from zip(self.parts, (*(part.begin for part in self.parts[1:]), len(self)), strict=True)

    def _records(self, part: Part, begin: int, end: int) -> Iterator[LocalAccess]:
        rows = slice(begin, end)
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
                kind=part.kinds[number],
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
        """Whether any of them has a source line."""
        return bool(self.sources)

    def groups(self) -> Counter[Group]:
        """How many there are of each group."""
        found: Counter[Group] = Counter()
        for part, end in self._extents():
            rows = slice(part.begin, end)
            alike = {}
            for number, kind in part.kinds.items():
                each = access(number)
                alike[number] = kind, each.store, each.target.bytes
            columns = zip(map(alike.__getitem__, self.accesses[rows].tolist()), self.depths[rows], strict=True)
            for ((kind, store, size), depth), count in Counter(columns).items():
                found[Group(kind, store, size, depth, part.number > 0)] += count
        return found

    def traffic(self, kind: AccessClass | None = None, *, own: bool = False) -> Traffic:
        """Those of one class (``None``: all), ``own``: in the function itself only. No loop is looked for."""
        return sum((part.traffic(kind) for part in self.parts if not (own and part.number)), Traffic())

    def some(self, chosen: NDArray[np.bool_], kind: AccessClass | None = None) -> Traffic:
        """Of some accesses those of one class (``None``: all). No loop is looked for."""
        found: list[tuple[int, int]] = []
        for part, end in self._extents() if self.parts else ():
            rows = slice(part.begin, end)
            counts = Counter(self.accesses[rows][chosen[rows]].tolist())
            found += [(number, count) for number, count in counts.items() if kind in (None, part.kinds[number])]
        return _traffic(found)


def _begin(part: Part) -> int:
    return part.begin


def traffic(accesses: Iterable[Access]) -> Traffic:
    """How many there are, and how many bytes they move."""
    return _traffic((number(each), 1) for each in accesses)


def _traffic(counts: Iterable[tuple[int, int]]) -> Traffic:
    """Of accesses as numbers, and how many there are of each."""
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


class Plain(NamedTuple):
    """A use of the stack pointer, STL and LDL apart."""

    taken: bool
    """It goes into something else than itself."""
    change: int | None = None
    """Bytes that are added to it; ``None`` where that is no constant."""


StackUse = bytes | Plain
"""The operands as printed, or what they say."""


def taken(use: StackUse) -> bool:
    """Whether it reads the address of the frame for something else than to move the frame."""
    return use.taken if isinstance(use, Plain) else grammar.line("taken").match(use) is not None


def change(use: StackUse) -> int | None:
    """Bytes that it adds to the stack pointer; ``None`` where it does not, or no constant."""
    if isinstance(use, Plain):
        return use.change
    match = grammar.line("frame").match(use)
    if match is None:
        return None
    amount = int(match["amount"], 16)
    return amount - ((amount >= 1 << 31) << 32)


ALIGNMENT = 16
"""Bytes; a gap between two spill slots is smaller."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """The code that the accesses stand in: each is asked only where it decides."""

    calls: Callable[[], bool]
    """Whether it calls something that is not inlined."""
    frame: Callable[[], int | None]
    """Bytes that it takes from the stack pointer, where that is seen."""
    taken: Callable[[], bool]
    """Whether the address of its frame goes into another register."""
    refilled: Callable[[], Collection[int]]
    """Slots of the function that callees in its listing refill from."""


def classify(accesses: Sequence[Access], code: Surroundings, *, annotations: bool, device: bool) -> list[AccessClass]:
    """The class of each access of one function (callees apart).

    ``accesses``: each that is distinct, in the order in which they come last. ``annotations``: the dump marks spills,
    so what is not marked is none. ``device``: not a kernel.
    """
    if annotations:
        return _annotated(accesses, code, device=device)
    refills = [access.target.slot for access in accesses if access.target.last_use and access.target.slot is not None]
    if device:
        frame = code.frame()
        return [_of_device(access, frame, refills=bool(refills)) for access in accesses]
    if not refills:
        if any(access.target.last_use for access in accesses):  # a refill that is not on the stack: no rule says where
            return ["unknown"] * len(accesses)
        return _without_refill(accesses, code)
    stored = {access.target.slot for access in accesses if access.store}
    refills += [slot for slot in code.refilled() if slot in stored]
    arrays = any(access.target.slot is None for access in accesses) or code.taken()
    if not (arrays or code.calls()):
        return ["spill"] * len(accesses)
    surely = min(refills)
    maybe = _grown(surely, accesses, arrays=arrays)
    lowest = surely if arrays else maybe
    spilled = [_reaches(access, lowest) for access in accesses]
    rest = _no_spill([not is_spill for is_spill in spilled], accesses, code)
    return [
        "spill" if is_spill else "unknown" if _reaches(access, maybe) else other
        for access, is_spill, other in zip(accesses, spilled, rest, strict=True)
    ]


def _without_refill(accesses: Sequence[Access], code: Surroundings) -> list[AccessClass]:
    """No spill, but for slots at the frame's upper end that may be: what is reloaded in a loop only has no last use."""
    kinds = _no_spill([True] * len(accesses), accesses, code)
    loaded = {access.target.slot for access in accesses if access.target.slot is not None and not access.store}
    if not any(access.store and access.target.slot in loaded for access in accesses):
        return kinds
    upper = code.frame()
    if upper is None:
        return kinds
    arrays = any(access.target.slot is None for access in accesses) or code.taken()
    lowest = _grown(upper, accesses, arrays=arrays)
    return ["unknown" if _reaches(access, lowest) else kind for access, kind in zip(accesses, kinds, strict=True)]


def _grown(lowest: int, accesses: Sequence[Access], *, arrays: bool) -> int:
    """Where the spill area begins of which ``lowest`` is a part.

    What is reloaded again and again has no last use, so the slots right below belong to it that are both stored and
    loaded as slots: arguments are only stored, and of an array next to it few elements are ever both. Where there may
    be ``arrays``, a run of such slots down to the lowest of all is one, and proves nothing.
    """
    slots = [(access.target.slot, access) for access in accesses if access.target.slot is not None]
    stored = {slot for slot, access in slots if access.store}
    ends = {slot: slot + access.target.bytes for slot, access in slots if not access.store and slot in stored}
    begin = lowest
    for slot in sorted({slot for slot, _ in slots if slot < lowest}, reverse=True):
        if begin - ends.get(slot, begin - ALIGNMENT) >= ALIGNMENT:
            break
        begin = slot
    return lowest if arrays and begin == min(slot for slot, _ in slots) else begin


def _reaches(access: Access, lowest: int) -> bool:
    return access.target.slot is not None and access.target.slot >= lowest


def _annotated(accesses: Sequence[Access], code: Surroundings, *, device: bool) -> list[AccessClass]:
    if all(access.annotated for access in accesses):
        return ["spill"] * len(accesses)
    if device:
        frame = code.frame()
        rest = [_of_device(access, frame, refills=False) for access in accesses]
    else:
        rest = _no_spill([not access.annotated for access in accesses], accesses, code)
    loaded, stored = ({each.target.slot for each in accesses if each.store == way} for way in (False, True))
    kept: set[int | None] = (loaded & stored) - {None}

    def unmarked(access: Access, kind: AccessClass) -> AccessClass:
        undecided = kind == "unknown" and access.target.slot is not None
        return kind if not undecided else "array" if access.target.slot in kept else "frame"

    return ["spill" if each.annotated else unmarked(each, kind) for each, kind in zip(accesses, rest, strict=True)]


def saves(accesses: Sequence[Access], registers: Sequence[int], frame: int) -> list[Access] | None:
    """Those by which a function with a frame of its own saves and restores registers of its caller, as far as none is
    marked; ``None`` where they cannot be held apart from others. ``registers``: what each stores or loads.
    """
    found: dict[int, list[tuple[Access, int]]] = {}
    for access, register in zip(accesses, registers, strict=True):
        slot = access.target.slot
        if slot is not None and slot < frame and not access.annotated:
            found.setdefault(slot, []).append((access, register))
    saved = {slot: uses[0][1] for slot, uses in sorted(found.items()) if _is_save(uses)}
    for (slot, register), (following, higher) in pairwise(saved.items()):
        if following != slot + REGISTER_BYTES or higher <= register:
            return None
    return [access for slot in saved for access, _ in found[slot]]


def _is_save(uses: Sequence[tuple[Access, int]]) -> bool:
    """One store first, then loads, all of one and the same register."""
    return (
        len(uses) > 1
        and [access.store for access, _ in uses] == [True] + [False] * (len(uses) - 1)
        and all(access.target.bytes == REGISTER_BYTES and register == uses[0][1] for access, register in uses)
    )


def _of_device(access: Access, frame: int | None, *, refills: bool) -> AccessClass:
    """Saves of the caller's registers and spills share the frame of a device function; ptxas counts both."""
    slot = access.target.slot
    if slot is None:
        return _indexed(access)
    if access.target.last_use:
        return "spill"
    if frame is None:
        return "unknown"
    if slot >= frame:
        return "frame"
    return "unknown" if refills else "frame"


def _no_spill(asked: Sequence[bool], accesses: Sequence[Access], code: Surroundings) -> list[AccessClass]:
    """Array or frame: an address that is not a plain slot is an array's; a slot is an argument only where something is
    called, and is the same as an array's element where the frame's address is taken as well. What is loaded from a
    slot but never stored there comes from a callee: its spill, or an element that it filled."""
    slots: AccessClass = "array"
    in_doubt = any(ask and access.target.slot is not None for ask, access in zip(asked, accesses, strict=True))
    if in_doubt and code.calls():
        indexed = any(access.target.slot is None for access in accesses) or code.taken()
        slots = "unknown" if indexed else "frame"
    stored = {access.target.slot for access in accesses if access.store}
    loaded_only: AccessClass = "array" if slots == "array" else "unknown"
    return [
        _indexed(access) if access.target.slot is None else slots if access.target.slot in stored else loaded_only
        for access in accesses
    ]


def _indexed(access: Access) -> AccessClass:
    return "unknown" if access.target.form == "unknown" else "array"
