"""Classes of accesses to local memory: spill, local array, callee frame or unknown, by the best available evidence.

1. ptxas's own annotation (nvdisasm 13.4 and later; cubins of ptxas 12.6.20 and later): marked accesses are spills, all
   others are not. Of the others, a slot that the function both stores and loads belongs to an array if nothing else
   decides. One that it only stores or only loads contains arguments, passed to a callee or received, if the function
   uses local memory by slots alone; an array, if it calls nothing that may read arguments; else the class is unknown.
2. The last-use rule. ptxas puts ``.LU`` on refills only, its own or those of a callee whose registers it allocated
   together. Without any, no spill of the function is known. With one, its slots on the stack are spills. If the
   function also uses local memory by other addresses, takes the address of its frame, loads lower slots in other pieces
   than it stores them, or calls code that may read arguments from the stack, only slots at or above the lowest one that
   a refill reads are: arrays and arguments are below the spill area.
3. Values reloaded only in a loop, or in narrower pieces than they were stored in, have no last use. Slots whose bytes
   are both stored and loaded, right below the slots that a refill proves (or the frame's upper end), belong to these if
   there is no array; if there may be one, the class is unknown.
4. A device function compiled on its own, and a callee with a frame of its own (recursion, calls by address): ptxas
   counts the registers saved for its caller as spills, but does not mark them. They are in its own frame, and arguments
   from the caller are above it. Saved registers are one block of slots, in the order of the registers: each is stored
   once, and loaded into the register that was stored (845 of 845 functions, 12.6 to 13.5).
5. Other callees after a kernel share its frame, and ptxas allocates their registers together: one last use proves the
   slots above it for all of them. Arguments passed in memory are below.

Accesses that none of these decides are ``unknown``. The classes always add up to all accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from spillscan.model.local import AccessClass
from spillscan.reading import grammar
from spillscan.reading.machine.instruction import REGISTER_BYTES, Access


class StackUse(NamedTuple):
    """Use of the stack pointer other than by STL and LDL."""

    taken: bool
    """Whether its value goes into another register."""
    change: int | None = None
    """Bytes added to it; ``None`` if not a constant."""


def stack_use(operands: bytes) -> StackUse:
    """A use from its operands as printed."""
    match = grammar.line("frame").match(operands)
    amount = int(match["amount"], 16) if match else None
    change = None if amount is None else amount - ((amount >= 1 << 31) << 32)
    return StackUse(grammar.line("taken").match(operands) is not None, change)


ALIGNMENT = 16
"""Bytes; gaps between two spill slots are smaller."""


class Surroundings(Struct, frozen=True, kw_only=True):
    """Code around the accesses; each property is computed only if needed."""

    calls: Callable[[], bool]
    """Whether it makes calls that are not inlined."""
    frame: Callable[[], int | None]
    """Bytes that it takes from the stack pointer, if known."""
    taken: Callable[[], bool]
    """Whether the address of its frame goes into another register."""
    refilled: Callable[[], Collection[int]]
    """Slots of the function from which callees in its listing refill."""


def classify(accesses: Sequence[Access], code: Surroundings, *, annotations: bool, device: bool) -> list[AccessClass]:
    """Class of each access of one function, without its callees.

    ``annotations``: the input marks spills, so unmarked accesses are none. ``device``: not a kernel.
    """
    if annotations:
        return _annotated(accesses, code, device=device)
    refills = [access.slot for access in accesses if access.last_use and access.slot is not None]
    if device:
        frame = code.frame()
        return [_of_device(access, frame, refills=bool(refills)) for access in accesses]
    if not refills:
        if any(access.last_use for access in accesses):  # a refill that is not on the stack: no rule applies
            return ["unknown"] * len(accesses)
        return _without_refill(accesses, code)
    stored = {access.slot for access in accesses if access.store}
    refills += [slot for slot in code.refilled() if slot in stored]
    surely = min(refills)
    arrays = any(access.slot is None for access in accesses) or code.taken()
    if not (arrays or code.calls()):
        if not _unlike(accesses, surely):
            return ["spill"] * len(accesses)
        arrays = True
    maybe = _grown(surely, accesses)
    lowest = surely if arrays else maybe
    spilled = [_reaches(access, lowest) for access in accesses]
    rest = _no_spill([not is_spill for is_spill in spilled], accesses, code)
    return [
        "spill" if is_spill else "unknown" if _reaches(access, maybe) else other
        for access, is_spill, other in zip(accesses, spilled, rest, strict=True)
    ]


def _unlike(accesses: Sequence[Access], lowest: int) -> bool:
    """Whether slots below ``lowest`` are loaded in other pieces than they are stored, or are only one of both. Arrays
    that ptxas keeps in memory although all their indices are constants look like that (spconv's PTX, ptxas 11.8 to
    13.5)."""
    stored, loaded = (
        {each[1:4] for each in accesses if each.store == way and (each.slot or 0) < lowest} for way in (True, False)
    )
    return stored != loaded


def _without_refill(accesses: Sequence[Access], code: Surroundings) -> list[AccessClass]:
    """Classes without a refill: no spills, but slots at the frame's upper end are unknown, since values reloaded only
    in a loop have no last use."""
    kinds = _no_spill([True] * len(accesses), accesses, code)
    loaded = {access.slot for access in accesses if access.slot is not None and not access.store}
    if not any(access.store and access.slot in loaded for access in accesses):
        return kinds
    upper = code.frame()
    if upper is None:
        return kinds
    lowest = _grown(upper, accesses)
    return ["unknown" if _reaches(access, lowest) else kind for access, kind in zip(accesses, kinds, strict=True)]


def _grown(lowest: int, accesses: Sequence[Access]) -> int:
    """Lowest offset of the possible spill area around ``lowest``.

    Values reloaded repeatedly, or in narrower pieces than they were stored in, have no last use. Slots right below may
    belong to the area if their bytes are both stored and loaded as slots: arguments are only stored, and data written
    by a computed address is not stored as a slot.
    """
    begin, both = lowest, _stored_and_loaded(accesses)
    slots = {(each.slot, each.slot + each.bytes) for each in accesses if each.slot is not None}
    for slot, end in sorted(slots, reverse=True):
        if slot < begin and not both.isdisjoint(range(slot, end)):
            if begin - end >= ALIGNMENT:
                break
            begin = slot
    return begin


def _bytes_of(accesses: Iterable[Access]) -> set[int]:
    """Bytes of slots that are accessed, as offsets from the stack pointer."""
    slots = (each for each in accesses if each.slot is not None)
    return {at for each in slots for at in range(each.slot or 0, (each.slot or 0) + each.bytes)}


def _stored_and_loaded(accesses: Sequence[Access]) -> set[int]:
    """Bytes of slots that are both stored and loaded."""
    stored, loaded = (_bytes_of(each for each in accesses if each.store == way) for way in (True, False))
    return stored & loaded


def _reaches(access: Access, lowest: int) -> bool:
    return access.slot is not None and access.slot >= lowest


def _annotated(accesses: Sequence[Access], code: Surroundings, *, device: bool) -> list[AccessClass]:
    if all(access.annotated for access in accesses):
        return ["spill"] * len(accesses)
    loaded, stored = ({each.slot for each in accesses if each.store == way} for way in (False, True))
    kept: set[int | None] = (loaded & stored) - {None}
    arrays = None in loaded | stored or code.taken()
    rest = _no_spill([not access.annotated for access in accesses], accesses, code)
    if device:
        frame, restored = code.frame(), _stored_and_loaded(accesses)
        rest = [
            kind
            if (access.slot or 0) < (frame or 0) and restored.isdisjoint(_bytes_of([access]))
            else _of_device(access, frame)
            for access, kind in zip(accesses, rest, strict=True)
        ]

    def unmarked(access: Access, kind: AccessClass) -> AccessClass:
        undecided = kind == "unknown" and access.slot is not None
        return kind if not undecided else "array" if access.slot in kept else "unknown" if arrays else "frame"

    return ["spill" if each.annotated else unmarked(each, kind) for each, kind in zip(accesses, rest, strict=True)]


def saves(accesses: Sequence[Access], frame: int) -> list[Access] | None:
    """Unmarked accesses by which a function with its own frame saves and restores its caller's registers; ``None`` if
    they cannot be distinguished from others."""
    by_slot: dict[int, list[Access]] = {}
    for access in accesses:
        if access.slot is not None and access.slot < frame and not access.annotated:
            by_slot.setdefault(access.slot, []).append(access)
    saved = {slot: uses[0].register for slot, uses in sorted(by_slot.items()) if _is_save(uses)}
    for (slot, register), (following, higher) in pairwise(saved.items()):
        if following != slot + REGISTER_BYTES or higher <= register:
            return None
    return [access for slot in saved for access in by_slot[slot]]


def _is_save(uses: Sequence[Access]) -> bool:
    """Whether the uses of a slot are one store, then loads, all of the same register."""
    return (
        len(uses) > 1
        and [access.store for access in uses] == [True] + [False] * (len(uses) - 1)
        and all(access.bytes == REGISTER_BYTES and access.register == uses[0].register for access in uses)
    )


def _of_device(access: Access, frame: int | None, *, refills: bool = False) -> AccessClass:
    """Class of an access of a device function, in whose frame saved registers and spills are mixed; ptxas counts
    both."""
    slot = access.slot
    if slot is None:
        return _indexed(access)
    if access.last_use:
        return "spill"
    if frame is None:
        return "unknown"
    if slot >= frame:
        return "frame"
    return "unknown" if refills else "frame"


def _no_spill(asked: Sequence[bool], accesses: Sequence[Access], code: Surroundings) -> list[AccessClass]:
    """Classes of accesses that are no spills. Addresses other than plain slots belong to arrays. A slot may be an
    argument only if calls are made, and is unknown if there may be arrays, too (other addresses, or the frame's address
    is taken). A slot that is loaded but never stored was written by a callee: its spill, or an array element."""
    slots: AccessClass = "array"
    in_doubt = any(ask and access.slot is not None for ask, access in zip(asked, accesses, strict=True))
    if in_doubt and code.calls():
        indexed = any(access.slot is None for access in accesses) or code.taken()
        slots = "unknown" if indexed else "frame"
    stored = {access.slot for access in accesses if access.store}
    loaded_only: AccessClass = "array" if slots == "array" else "unknown"
    return [
        _indexed(access) if access.slot is None else slots if access.slot in stored else loaded_only
        for access in accesses
    ]


def _indexed(access: Access) -> AccessClass:
    return "unknown" if access.form == "unknown" else "array"
