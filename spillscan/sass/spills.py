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
from typing import NamedTuple

from spillscan.sass.local import Target
from spillscan.sass.model import AccessClass


class Access(NamedTuple):
    """What the rules look at."""

    target: Target
    store: bool
    annotated: bool


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
    refills = [access.target.slot for access in accesses if access.target.last_use and access.target.slot is not None]
    if device:
        return [_of_device(access, frame, refills=bool(refills)) for access in accesses]
    if not refills:
        if any(access.target.last_use for access in accesses):  # a refill that is not on the stack: no rule says where
            return ["unknown"] * len(accesses)
        return _no_spill([True] * len(accesses), accesses, calls=calls, taken=taken)
    lowest = min(refills)
    mixed = calls or any(access.target.slot is None for access in accesses) or taken()
    spilled = [access.target.slot is not None and (not mixed or access.target.slot >= lowest) for access in accesses]
    rest = _no_spill([not is_spill for is_spill in spilled], accesses, calls=calls, taken=taken)
    return ["spill" if is_spill else other for is_spill, other in zip(spilled, rest, strict=True)]


def _annotated(
    accesses: Sequence[Access], *, device: bool, calls: bool, frame: int | None, taken: Callable[[], bool]
) -> list[AccessClass]:
    rest = (
        [_of_device(access, frame, refills=False) for access in accesses]
        if device
        else _no_spill([not access.annotated for access in accesses], accesses, calls=calls, taken=taken)
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
    asked: Sequence[bool], accesses: Sequence[Access], *, calls: bool, taken: Callable[[], bool]
) -> list[AccessClass]:
    """Array or frame: an address that is not a plain slot is an array's; a slot is an argument only where something is
    called, and cannot be told from an array's element where the frame's address is taken as well."""
    slots: AccessClass = "array"
    if calls and any(ask and access.target.slot is not None for ask, access in zip(asked, accesses, strict=True)):
        indexed = any(access.target.slot is None for access in accesses) or taken()
        slots = "unknown" if indexed else "frame"
    return [_indexed(access) if access.target.slot is None else slots for access in accesses]


def _indexed(access: Access) -> AccessClass:
    return "unknown" if access.target.form == "unknown" else "array"
