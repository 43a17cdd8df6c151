"""The spills that a log counts, held against the accesses that the code shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec.structs import replace

from spillscan.model import Kernel
from spillscan.model.code import AccessClass, LocalAccess, LocalTraffic, SassStats
from spillscan.output.nouns import between

Bytes = tuple[int, int]
"""Stored, loaded."""


def _counted(local: LocalTraffic, kernel: Kernel) -> Bytes | None:
    """What ptxas would print; ``None`` where the code alone does not say."""
    traffic = local.spills(kernel.role)
    return None if traffic is None else traffic.pair


def agrees(local: LocalTraffic, kernel: Kernel) -> bool:
    """Whether the code's spills are those that the log counts, bytes of stores and of loads."""
    return kernel.usage.spills == _counted(local, kernel)


def contradicts(local: LocalTraffic, kernel: Kernel, reported: Bytes) -> str:
    """How code and log differ in the kernel's spills, one line; empty where both may be right."""
    least, most = local.bounds(kernel.role, own=True)
    if all(low <= each <= high for low, each, high in zip(least.pair, reported, most.pair, strict=True)):
        return ""
    says = f"the log counts {reported[0]} bytes spill stores and {reported[1]} bytes spill loads, the dump "
    if least != most:
        return says + f"shows {between(least.pair[0], most.pair[0])} and {between(least.pair[1], most.pair[1])}"
    stored, loaded = least.pair
    return says + f"shows {stored} and {loaded} ({stored - reported[0]:+d}, {loaded - reported[1]:+d})"


def weigh(stats: SassStats, kernel: Kernel, reported: Bytes) -> SassStats:
    """The evidence that the log adds to what the text alone allows to say."""
    local = stats.local
    if local.evidence != "last-use":
        return stats
    if agrees(local, kernel):
        return replace(stats, local=replace(local, evidence="last-use+log"))
    if kernel.role == "function":
        return stats
    accesses = _from_slot_on(local.accesses, reported)
    if not accesses:
        return stats
    roles = tuple(replace(role, spill=None) for role in stats.roles)  # they were counted by the classes before
    return replace(stats, local=replace(local, accesses=accesses, evidence="log"), roles=roles)


def _from_slot_on(accesses: Sequence[LocalAccess], reported: Bytes) -> tuple[LocalAccess, ...]:
    """The accesses with another class, if there is an offset from which on the slots hold just the bytes that the log
    counts, none where it counts none: arrays lie below the spill area. Empty where no offset fits."""
    own = [(access.slot, access) for access in accesses if not access.part and access.slot is not None]
    for lowest in (inf, *sorted({slot for slot, _ in own}, reverse=True)):
        chosen = [access for slot, access in own if slot >= lowest]
        if (_bytes(chosen, store=True), _bytes(chosen, store=False)) == reported:
            stored, loaded = (
                {at for slot, each in own if each.store == way for at in range(slot, slot + each.bytes)}
                for way in (True, False)
            )
            both = stored & loaded
            return tuple(replace(access, kind=_decided(access, lowest, both)) for access in accesses)
    return ()


def _bytes(accesses: Iterable[LocalAccess], *, store: bool) -> int:
    return sum(access.bytes for access in accesses if access.store == store)


def _decided(access: LocalAccess, lowest: float, both: set[int]) -> AccessClass:
    """The class of an access where the spills are the slots from ``lowest`` on; ``both``: bytes of slots that are
    stored and loaded, which what a callee is given is not."""
    slot = access.slot
    if access.part or slot is None:
        return access.kind
    if slot >= lowest:
        return "spill"
    if access.kind == "unknown" and not both.isdisjoint(range(slot, slot + access.bytes)):
        return "array"
    return "unknown" if access.kind == "spill" else access.kind
