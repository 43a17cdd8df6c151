"""Spill, local array, callee frame or unknown: each access by the best evidence at hand.

1. ptxas's own annotation (nvdisasm 13.4 and later; cubins of ptxas 12.6.20 and later): what is marked is a spill.
2. The last-use rule. ptxas puts ``.LU`` on refills only. Without any ``LDL.LU`` a function spills nothing. With one,
   its slots on the stack are spills; where the function also uses local memory by other addresses, takes the address of
   its frame, or calls something that may look for arguments on the stack, only those not below the lowest slot that a
   refill reads: arrays and arguments lie below the spill area.
3. A device function compiled on its own: ptxas counts the registers it saves for its caller as spills; they stand in
   its own frame, and arguments that the caller left on the stack above it.

What none of these tells is ``unknown``. The classes always add up to all accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spillscan.sass.local import Access
from spillscan.sass.model import AccessClass


def classify(
    accesses: Sequence[Access],
    *,
    annotations: bool,
    device: bool,
    calls: bool,
    frame: int | None,
    taken: Callable[[], bool],
) -> list[AccessClass]:
    """The class of each access of one function (callees apart).

    ``annotations``: the dump marks spills, so what is not marked is none. ``device``: not a kernel. ``calls``: it
    calls something that is not inlined. ``frame``: bytes that it takes from the stack pointer, where that is seen.
    ``taken``: whether the address of its frame goes into another register; asked only where it decides.
    """
    if annotations:
        return _annotated(accesses, device=device, calls=calls, frame=frame, taken=taken)
    slots = [access.target.slot for access in accesses]
    used = [access.target.slot for access in accesses if access.target.last_use]
    refills = [slot for slot in used if slot is not None]
    if device:
        return [_of_device(access, frame, refills=bool(refills)) for access in accesses]
    if not refills:
        if used:  # a refill that is not on the stack: no rule says where
            return ["unknown"] * len(accesses)
        return _no_spill(slots, accesses, calls=calls, taken=taken)
    if not (calls or None in slots or taken()):
        return ["spill"] * len(accesses)
    lowest = min(refills)
    below = [None if slot is None or slot >= lowest else slot for slot in slots]
    rest = _no_spill(below, accesses, calls=calls, taken=taken)
    return ["spill" if slot is not None and slot >= lowest else other for slot, other in zip(slots, rest, strict=True)]


def _annotated(
    accesses: Sequence[Access], *, device: bool, calls: bool, frame: int | None, taken: Callable[[], bool]
) -> list[AccessClass]:
    rest = (
        [_of_device(access, frame, refills=False) for access in accesses]
        if device
        else _no_spill(
            [None if access.annotated else access.target.slot for access in accesses],
            accesses,
            calls=calls,
            taken=taken,
        )
    )
    return ["spill" if access.annotated else other for access, other in zip(accesses, rest, strict=True)]


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


def _no_spill(
    asked: Sequence[int | None], accesses: Sequence[Access], *, calls: bool, taken: Callable[[], bool]
) -> list[AccessClass]:
    """Array or frame: an address that is not a plain slot is an array's; a slot is an argument only where something is
    called, and cannot be told from an array's element where the frame's address is taken as well. ``asked``: the slots
    that are no spills."""
    slots: AccessClass = "array"
    if calls and any(slot is not None for slot in asked):
        indexed = any(access.target.slot is None for access in accesses) or taken()
        slots = "unknown" if indexed else "frame"
    return [_indexed(access) if access.target.slot is None else slots for access in accesses]


def _indexed(access: Access) -> AccessClass:
    return "unknown" if access.target.form == "unknown" else "array"
