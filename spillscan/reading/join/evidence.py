"""Merge what machine code and resource listings show into the kernel that a log reports.

Values of the log are never overwritten, except by those of a linked binary for relocatable code. If two inputs
disagree, both values stay and an issue names both places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec.structs import replace

from spillscan.model import LOST_SETTING, Issue, Kernel, Origin, Usage
from spillscan.model.code import FunctionUsage, SassFunction, SassStats
from spillscan.model.local import AccessClass, LocalAccess, LocalTraffic
from spillscan.model.metrics import PRINTED, Metric
from spillscan.output.nouns import between

_LISTED = tuple(each for each in PRINTED if each.listed)

Bytes = tuple[int, int]
"""Bytes stored and loaded."""


def contradiction(code: str, kernel: Kernel, text: str, other: Origin | None) -> Issue:
    """Issue that the log and another input disagree about ``kernel``."""
    log = kernel.origins[0] if kernel.origins else None
    places = f" (log {log}, dump {other})" if log and other else ""
    return Issue(code=code, message=f"{kernel.short_name}: {text}{places}", origin=log or other)


def may_be(function: SassFunction, kernel: Kernel) -> bool:
    """Whether ``function`` matches ``kernel`` in every value on which log and code must agree.

    Distinguishes same-named kernels of two programs if the log has no units.
    """
    if kernel.final is False:
        return True
    usage = function.usage or Usage(registers=function.stats.registers)
    pairs = [(getattr(kernel.usage, each.name), getattr(usage, each.name)) for each in PRINTED if each.contradicts]
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def with_function(kernel: Kernel, function: SassFunction, issues: list[Issue]) -> Kernel:
    """``kernel`` with its machine code; contradictions are added to ``issues``."""
    stats, reported = function.stats, kernel.usage.spills
    if reported is not None and kernel.confidence == "certain":
        stats = _weighed(stats, kernel, reported)
        if text := _spills_differ(stats.local, kernel, reported):
            issues.append(contradiction("spill-mismatch", kernel, text, stats.origin))
    if function.usage is not None:
        kernel = _with_binary(kernel, function, function.usage, issues)
    elif None not in (stats.registers, kernel.usage.registers) and stats.registers != kernel.usage.registers:
        text = f"the log says {kernel.usage.registers} registers, the dump {stats.registers}"
        issues.append(contradiction("registers-mismatch", kernel, text, stats.origin))
    if stats.setmaxnreg and any(advisory.kind == LOST_SETTING for advisory in kernel.advisories):
        text = f"the log says that ptxas ignored setmaxnreg, the code has {stats.setmaxnreg} of it"
        issues.append(contradiction("setmaxnreg-mismatch", kernel, text, stats.origin))
    role = function.role if kernel.role == "unknown" else kernel.role
    origins = (*kernel.origins, stats.origin) if stats.origin else kernel.origins
    return replace(kernel, sass=stats, role=role, origins=origins)


def with_listing(kernel: Kernel, listing: FunctionUsage, issues: list[Issue]) -> Kernel:
    """``kernel`` with values missing from the log filled from a resource listing."""
    kernel = _filled(kernel, listing.usage, listing.origin, _LISTED, "the resource listing", issues)
    return replace(kernel, origins=(*kernel.origins, listing.origin))


def _with_binary(kernel: Kernel, function: SassFunction, usage: Usage, issues: list[Issue]) -> Kernel:
    """Fill values missing from the log from the binary. For relocatable code, a linked binary's values are final."""
    if kernel.final is False and function.final is not False:
        reported = {name: getattr(kernel.usage, name) for name in ("spill_store_bytes", "spill_load_bytes")}
        known = {name: value for name, value in reported.items() if value is not None}
        kernel = replace(kernel, usage=replace(usage, **known), final=True)
    else:
        kernel = _filled(kernel, usage, function.stats.origin, PRINTED, "the binary", issues)
    return replace(kernel, launch_bounds=function.launch_bounds, dynamic_shared=function.dynamic_shared)


def _filled(
    kernel: Kernel, usage: Usage, origin: Origin | None, metrics: Sequence[Metric], whose: str, issues: list[Issue]
) -> Kernel:
    missing = {}
    for metric in metrics:
        name = metric.name
        ours, theirs = getattr(kernel.usage, name), getattr(usage, name)
        if ours is None and theirs is not None:
            missing[name] = theirs
        elif theirs is not None and ours != theirs and metric.contradicts and kernel.final is not False:
            text = f"the log says {ours} {name.replace('_', ' ')}, {whose} {theirs}"
            issues.append(contradiction(f"{name.split('_')[0]}-mismatch", kernel, text, origin))
    return replace(kernel, usage=replace(kernel.usage, **missing))


# ---- spills of the log and accesses of the code ---------------------------------------------------------------------


def agrees(local: LocalTraffic, kernel: Kernel) -> bool:
    """Whether the code's spill store and load bytes, as ptxas would print them, equal those of the log."""
    traffic = local.spills(kernel.role)
    return kernel.usage.spills == (None if traffic is None else traffic.pair)


def _spills_differ(local: LocalTraffic, kernel: Kernel, reported: Bytes) -> str:
    """One-line description of how code and log differ in spills; empty if they are compatible."""
    least, most = local.bounds(kernel.role, own=True)
    if all(low <= each <= high for low, each, high in zip(least.pair, reported, most.pair, strict=True)):
        return ""
    logged = f"the log counts {reported[0]} bytes spill stores and {reported[1]} bytes spill loads, the dump shows "
    if least != most:
        return logged + f"{between(least.pair[0], most.pair[0])} and {between(least.pair[1], most.pair[1])}"
    stored, loaded = least.pair
    return logged + f"{stored} and {loaded} ({stored - reported[0]:+d}, {loaded - reported[1]:+d})"


def _weighed(stats: SassStats, kernel: Kernel, reported: Bytes) -> SassStats:
    """``stats`` with local accesses classified again, using the log's spill count as evidence."""
    local = stats.local
    if local.evidence != "last-use":
        return stats
    if agrees(local, kernel):
        return replace(stats, local=replace(local, evidence="last-use+log"))
    accesses = () if kernel.role == "function" else _from_slot_on(local.accesses, reported)
    if not accesses:
        return stats
    roles = tuple(replace(role, spill=None) for role in stats.roles)  # they were counted with the old classes
    return replace(stats, local=replace(local, accesses=accesses, evidence="log"), roles=roles)


def _from_slot_on(accesses: Sequence[LocalAccess], reported: Bytes) -> tuple[LocalAccess, ...]:
    """Accesses reclassified so that slots from some offset on contain exactly the spill bytes of the log.

    Arrays are below the spill area. If the log reports no spills, no slot is one. Empty if no offset fits.
    """
    own = [(access.slot, access) for access in accesses if not access.part and access.slot is not None]
    for lowest in (inf, *sorted({slot for slot, _ in own}, reverse=True)):
        spilled = [access for slot, access in own if slot >= lowest]
        if (_bytes(spilled, store=True), _bytes(spilled, store=False)) == reported:
            stored, loaded = (
                {at for slot, each in own if each.store == way for at in range(slot, slot + each.bytes)}
                for way in (True, False)
            )
            return tuple(replace(access, kind=_class_of(access, lowest, stored & loaded)) for access in accesses)
    return ()


def _bytes(accesses: Iterable[LocalAccess], *, store: bool) -> int:
    return sum(access.bytes for access in accesses if access.store == store)


def _class_of(access: LocalAccess, lowest: float, both: set[int]) -> AccessClass:
    """Class of an access if slots from ``lowest`` on are spills.

    ``both``: bytes of slots both stored and loaded; arguments for a callee are not.
    """
    slot = access.slot
    if access.part or slot is None:
        return access.kind
    if slot >= lowest:
        return "spill"
    if access.kind == "unknown" and not both.isdisjoint(range(slot, slot + access.bytes)):
        return "array"
    return "unknown" if access.kind == "spill" else access.kind
