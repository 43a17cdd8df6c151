"""Join machine code and resource listings to the kernels that a log reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import inf
from pathlib import PurePosixPath
from typing import TypeVar

from msgspec.structs import replace

from spillscan.builds.compilation import OBJECTS
from spillscan.model import LOST_SETTING, Issue, Kernel, KernelKey, Origin, Usage
from spillscan.model.code import AccessClass, FunctionUsage, LocalAccess, LocalTraffic, SassFunction, SassStats
from spillscan.model.metrics import PRINTED, Metric
from spillscan.model.symbols import is_helper
from spillscan.output.nouns import between, count, listed

# Kernels that no log names, only disassembly, binaries and resource listings.


def alone(items: Iterable[SassFunction | FunctionUsage]) -> Iterator[Kernel]:
    """Kernels named only by machine code and listings, one per symbol, arch and unit."""
    found: dict[tuple[str, str | None, str, str], Kernel] = {}
    copies: Counter[tuple[str, str | None, str, str]] = Counter()
    for item in items:
        caller = item.caller if isinstance(item, SassFunction) else ""
        first = place = item.symbol, item.arch, item.identifier, caller
        kernel = found.get(place)
        while kernel is not None and kernel.sass is not None and isinstance(item, SassFunction):
            copies[first] += 1  # the same symbol in another cubin
            place = item.symbol, item.arch, f"{item.identifier}#{copies[first]}", caller
            kernel = found.get(place)
        found[place] = _kernel_with(kernel, item, place[2])
    yield from found.values()


def _kernel_with(kernel: Kernel | None, item: SassFunction | FunctionUsage, unit: str) -> Kernel:
    """``kernel`` with the values of one more input; a new kernel if it is ``None``."""
    origin = origin_of(item)
    key = kernel.key if kernel else KernelKey(symbol=item.symbol, arch=item.arch, unit=unit)
    origins = kernel.origins if kernel else ()
    if origin:
        origins = (*origins, origin)
    if isinstance(item, SassFunction):
        usage = item.usage
        if usage is None:
            known = kernel.usage if kernel else Usage()
            usage = _with_callees(replace(known, registers=known.registers or item.stats.registers), item)
        return Kernel(
            key=key,
            role=item.role,
            usage=usage,
            final=item.final,
            origins=origins,
            sass=item.stats,
            launch_bounds=item.launch_bounds,
            dynamic_shared=item.dynamic_shared,
            caller=item.caller,
        )
    if kernel is None:
        return Kernel(key=key, role="unknown", usage=item.usage, origins=origins)
    return replace(kernel, usage=item.usage, origins=origins)


def _with_callees(usage: Usage, item: SassFunction) -> Usage:
    """``usage`` with the callees' spills that ptxas annotated in its listing, unless it already has them."""
    local = item.stats.local
    if usage.cumulative_spills is not None or local.cumulative is None or local.evidence != "annotation":
        return usage
    stores, loads = local.cumulative.pair
    return replace(usage, cumulative_spill_store_bytes=stores, cumulative_spill_load_bytes=loads)


def origin_of(item: SassFunction | FunctionUsage) -> Origin | None:
    """Location of the function in its listing or disassembly; ``None`` if unknown."""
    return item.origin if isinstance(item, FunctionUsage) else item.stats.origin


_Item = TypeVar("_Item", SassFunction, FunctionUsage)

_NAMED = 3
"""Most units that a message names."""
_ARCHIVES = (".a", ".lib")
_FROM_LISTING = tuple(each for each in PRINTED if each.listed)


def attach_code(
    kernels: Iterable[Kernel], functions: Iterable[SassFunction | FunctionUsage]
) -> tuple[list[Kernel], list[Issue]]:
    """Join functions to ``kernels``. Returns kernels with ``sass``, new kernels for unlogged functions, and
    contradictions."""
    functions = list(functions)
    known = _marked_relocatable(kernels, functions)
    found, copies = _without_copies(list(_folded(_without_linked(functions))))
    if not known:
        return _with_copies(list(alone(found)), copies), []
    issues: list[Issue] = []
    listings = _by_symbol([item for item in found if isinstance(item, FunctionUsage)])
    dumps = _by_symbol([item for item in found if isinstance(item, SassFunction)])
    archs = {item.arch for item in found if isinstance(item, SassFunction)}
    used: set[int] = set()
    out: list[Kernel] = []
    for kernel in known:
        joined = kernel
        listing = _pick(kernel, listings.get(kernel.key.symbol, ()))
        for item in listing[:1]:
            used.add(id(item))
            joined, contradictions = _with_listing(joined, item)
            issues.extend(contradictions)
        candidates = _pick(kernel, dumps.get(kernel.key.symbol, ()))
        used.update(map(id, candidates))
        if len(candidates) > 1:
            candidates = [function for function in candidates if _may_be(function, kernel)] or candidates
            candidates = [function for function in candidates if agrees(function.stats.local, kernel)] or candidates
        callers = {function.caller for function in candidates}
        if len(candidates) > 1 and len({_figures(function) for function in candidates}) == 1:
            candidates = candidates[:1]  # the same code in an object and in its linked binary
        if len(candidates) == 1:
            joined, contradictions = _with_dump(joined, candidates[0])
            if len(callers) == 1 and candidates[0].caller:
                joined = replace(joined, caller=candidates[0].caller)
            issues.extend(contradictions)
        elif candidates and not _are_copies(kernel, candidates):
            issues.append(_ambiguous(kernel, candidates))
        elif kernel.role == "entry" and kernel.key.arch in archs:
            issues.append(_missing(kernel))
        out.append(joined)
    taken = {_code(item) for item in found if id(item) in used and isinstance(item, SassFunction)}
    rest = [item for item in found if id(item) not in used]
    if taken:
        rest = [item for item in rest if isinstance(item, FunctionUsage) or _code(item) not in taken]
    unlogged = [item for item in rest if not is_helper(item.symbol)]
    if unlogged:
        issues.append(
            Issue(code="not-in-log", message=_in_no_log(unlogged), severity="note", origin=origin_of(unlogged[0]))
        )
    out.extend(alone(rest))
    return _with_copies(out, copies), issues


def _in_no_log(unlogged: Sequence[SassFunction | FunctionUsage]) -> str:
    """Message that no log reports these functions, naming their objects or disassembly."""
    places = dict.fromkeys(origin.input for item in unlogged if (origin := origin_of(item)))
    named = listed([*places][:_NAMED], len(places) - _NAMED) or "the dump"
    are = "is" if len(unlogged) == 1 else "are"
    return f"{count(len(unlogged), 'function')} of {named} {are} in no build log: {unlogged[0].symbol} …"


def _marked_relocatable(kernels: Iterable[Kernel], functions: Iterable[SassFunction | FunctionUsage]) -> list[Kernel]:
    """Kernels of a log, marked as not final if an object shows that they are relocatable."""
    objects = {(item.symbol, item.arch) for item in functions if isinstance(item, SassFunction) and item.final is False}
    return [
        replace(kernel, final=False)
        if kernel.final is None and (kernel.key.symbol, kernel.key.arch) in objects
        else kernel
        for kernel in kernels
    ]


def _are_copies(kernel: Kernel, candidates: Sequence[SassFunction]) -> bool:
    """Whether ``candidates`` are copies of one device function with a single report in the log.

    Copies are in each kernel of a whole program, or one per arch, which the log does not print for device functions.
    """
    if kernel.role == "entry":
        return False
    archs = {function.arch for function in candidates}
    return all(function.caller for function in candidates) or (
        kernel.key.arch is None and len(archs) == len(candidates)
    )


def _folded(functions: Iterable[SassFunction | FunctionUsage]) -> Iterator[SassFunction | FunctionUsage]:
    """``functions`` without repeated ptxas helpers, of which the linker leaves one in each object that needs it."""
    seen = set()
    for function in functions:
        if is_helper(function.symbol) and not (isinstance(function, SassFunction) and function.role == "entry"):
            name = function.symbol.rpartition("$")[2], function.arch, type(function)
            if name in seen:
                continue
            seen.add(name)
        yield function


def _without_linked(functions: Iterable[SassFunction | FunctionUsage]) -> list[SassFunction | FunctionUsage]:
    """``functions`` without relocatable code that is linked into another of the binaries, whose values are final."""
    found = list(functions)
    binaries = [item for item in found if isinstance(item, SassFunction) and item.usage is not None]
    relocatable = [item for item in binaries if item.final is False]
    if not relocatable:
        return found
    linked = {(item.symbol, item.arch) for item in binaries if item.final is not False}
    dropped = {id(item) for item in relocatable if (item.symbol, item.arch) in linked}
    return [item for item in found if id(item) not in dropped]


_Copies = dict[Hashable, list[Origin]]
"""Further locations of identical code, by symbol, arch, caller and digest."""


def _without_copies(
    functions: list[SassFunction | FunctionUsage],
) -> tuple[list[SassFunction | FunctionUsage], _Copies]:
    """Drop copies of code that was compiled once, and return where they were.

    Objects take precedence over archives, and both over the programs and libraries linked from them.
    """
    compiled = [item for item in functions if isinstance(item, SassFunction) and item.stats.digest is not None]
    stages = {path: _stage(path) for path in {item.stats.origin.input for item in compiled if item.stats.origin}}
    if len(set(stages.values())) < 2:
        return functions, {}
    places: dict[Hashable, list[tuple[int, int, Origin]]] = {}
    for item in compiled:
        if origin := item.stats.origin:
            code = item.symbol, item.arch, item.caller, item.stats.digest
            places.setdefault(code, []).append((stages[origin.input], id(item), origin))
    copies: _Copies = {}
    dropped = set[int]()
    for its_code, held in places.items():
        first = min(stage for stage, *_ in held)
        later = [(item, origin) for stage, item, origin in held if stage > first]
        if later:
            copies[its_code] = [origin for _, origin in later]
            dropped.update(item for item, _ in later)
    return [item for item in functions if id(item) not in dropped], copies


def _stage(path: str) -> int:
    """Build stage of a file: 0 object, 1 archive, 2 linked binary."""
    return 0 if path.endswith(OBJECTS) else 1 if path.endswith(_ARCHIVES) else 2


def _with_copies(kernels: list[Kernel], copies: _Copies) -> list[Kernel]:
    """``kernels`` with the locations of further copies of their code added to their origins."""
    if not copies:
        return kernels
    codes = ((each.key.symbol, each.key.arch, each.caller, each.sass.digest if each.sass else None) for each in kernels)
    return [
        replace(each, origins=(*each.origins, *copies[code])) if code in copies else each
        for each, code in zip(kernels, codes, strict=True)
    ]


def _by_symbol(items: Iterable[_Item]) -> dict[str, list[_Item]]:
    found: dict[str, list[_Item]] = {}
    for item in items:
        found.setdefault(item.symbol, []).append(item)
    return found


def _pick(kernel: Kernel, items: Sequence[_Item]) -> list[_Item]:
    """Items that match the kernel's arch and unit.

    The unit counts only if both sides name one and it is decisive. A unit that equals an input's path selects that
    file.
    """
    arch = kernel.key.arch
    fitting = [item for item in items if arch is None or item.arch is None or item.arch == arch]
    mine = [
        item for item in fitting if kernel.key.unit and (origin := origin_of(item)) and origin.input == kernel.key.unit
    ]
    if mine:
        return mine
    if len(fitting) > 1 and kernel.key.unit:
        stem = PurePosixPath(kernel.key.unit).name.split(".")[0]
        sources = ((item, item.identifier.rpartition(":")[2]) for item in fitting)
        same = [item for item, source in sources if PurePosixPath(source).name.split(".")[0] == stem]
        return same or fitting
    return fitting


def _may_be(function: SassFunction, kernel: Kernel) -> bool:
    """Whether ``function`` matches ``kernel`` in every value on which log and code must agree.

    Distinguishes same-named kernels of two programs if the log has no units.
    """
    if kernel.final is False:
        return True
    usage = function.usage or Usage(registers=function.stats.registers)
    names = [figure.name for figure in PRINTED if figure.contradicts]
    both = [(getattr(kernel.usage, name), getattr(usage, name)) for name in names]
    return all(None in pair or pair[0] == pair[1] for pair in both)


def _with_dump(kernel: Kernel, function: SassFunction) -> tuple[Kernel, list[Issue]]:
    stats, issues = function.stats, []
    reported = kernel.usage.spills
    if reported is not None and kernel.confidence == "certain":
        stats = weigh(stats, kernel, reported)
        if contradiction := contradicts(stats.local, kernel, reported):
            issues.append(_contradiction("spill-mismatch", kernel, contradiction, stats.origin))
    if function.usage is not None:
        kernel, contradictions = _with_binary(kernel, function)
        issues.extend(contradictions)
    elif None not in (stats.registers, kernel.usage.registers) and stats.registers != kernel.usage.registers:
        issues.append(
            _contradiction(
                "registers-mismatch",
                kernel,
                f"the log says {kernel.usage.registers} registers, the dump {stats.registers}",
                stats.origin,
            )
        )
    if stats.setmaxnreg and any(advisory.kind == LOST_SETTING for advisory in kernel.advisories):
        text = f"the log says that ptxas ignored setmaxnreg, the code has {stats.setmaxnreg} of it"
        issues.append(_contradiction("setmaxnreg-mismatch", kernel, text, stats.origin))
    role = function.role if kernel.role == "unknown" else kernel.role
    origins = (*kernel.origins, stats.origin) if stats.origin else kernel.origins
    return replace(kernel, sass=stats, role=role, origins=origins), issues


def _figures(function: SassFunction) -> Hashable:
    """Key under which equal code compares equal."""
    stats, local = function.stats, function.stats.local
    return function.usage, function.final, stats.instructions, stats.opcodes, local.accesses


def _code(function: SassFunction) -> Hashable:
    """Key shared by a function of an object and its copy in a linked binary."""
    return function.symbol, function.arch, _figures(function)


def _with_binary(kernel: Kernel, function: SassFunction) -> tuple[Kernel, list[Issue]]:
    """Fill values missing from the log from the binary. For relocatable code, a linked binary's values are final."""
    usage, origin = function.usage, function.stats.origin
    assert usage is not None
    assert origin is not None
    if kernel.final is False and function.final is not False:
        reported = {name: getattr(kernel.usage, name) for name in ("spill_store_bytes", "spill_load_bytes")}
        known = {name: value for name, value in reported.items() if value is not None}
        kernel = replace(kernel, usage=replace(usage, **known), final=True)
        return replace(kernel, launch_bounds=function.launch_bounds, dynamic_shared=function.dynamic_shared), []
    kernel, issues = _filled(kernel, usage, origin, PRINTED, "the binary")
    return replace(kernel, launch_bounds=function.launch_bounds, dynamic_shared=function.dynamic_shared), issues


def _with_listing(kernel: Kernel, listing: FunctionUsage) -> tuple[Kernel, list[Issue]]:
    """Fill values missing from the log from the resource listing. Values present in both must be equal."""
    kernel, issues = _filled(kernel, listing.usage, listing.origin, _FROM_LISTING, "the resource listing")
    return replace(kernel, origins=(*kernel.origins, listing.origin)), issues


def _filled(
    kernel: Kernel, usage: Usage, origin: Origin, figures: Sequence[Metric], whose: str
) -> tuple[Kernel, list[Issue]]:
    """``kernel`` with its missing values filled from ``usage``, and an issue for each contradiction."""
    issues = []
    missing = {}
    for figure in figures:
        name = figure.name
        ours, theirs = getattr(kernel.usage, name), getattr(usage, name)
        if ours is None and theirs is not None:
            missing[name] = theirs
        elif theirs is not None and ours != theirs and figure.contradicts and kernel.final is not False:
            what = name.replace("_", " ")
            text = f"the log says {ours} {what}, {whose} {theirs}"
            issues.append(_contradiction(f"{name.split('_')[0]}-mismatch", kernel, text, origin))
    return replace(kernel, usage=replace(kernel.usage, **missing)), issues


def _contradiction(code: str, kernel: Kernel, text: str, other: Origin | None) -> Issue:
    log = kernel.origins[0] if kernel.origins else None
    places = f" (log {log}, dump {other})" if log and other else ""
    return Issue(code=code, message=f"{kernel.short_name}: {text}{places}", origin=log or other)


def _ambiguous(kernel: Kernel, candidates: Sequence[SassFunction]) -> Issue:
    places = ", ".join(str(function.stats.origin) for function in candidates)
    return _contradiction(
        "ambiguous-sass",
        kernel,
        f"{count(len(candidates), 'function')} of the dump with this symbol and arch, of which none is taken: {places}",
        candidates[0].stats.origin,
    )


def _missing(kernel: Kernel) -> Issue:
    return Issue(
        code="not-in-dump",
        message=f"{kernel.short_name}: in the build log, but not in the disassembly for {kernel.key.arch}",
        origin=kernel.origins[0] if kernel.origins else None,
    )


# Compare spills reported by a log with accesses of the code.

Bytes = tuple[int, int]
"""Bytes stored and loaded."""


def _counted(local: LocalTraffic, kernel: Kernel) -> Bytes | None:
    """Spill bytes that ptxas would print for this code; ``None`` if unknown from the code alone."""
    traffic = local.spills(kernel.role)
    return None if traffic is None else traffic.pair


def agrees(local: LocalTraffic, kernel: Kernel) -> bool:
    """Whether the code's spill store and load bytes equal those of the log."""
    return kernel.usage.spills == _counted(local, kernel)


def contradicts(local: LocalTraffic, kernel: Kernel, reported: Bytes) -> str:
    """One-line description of how code and log differ in spills; empty if they are compatible."""
    least, most = local.bounds(kernel.role, own=True)
    if all(low <= each <= high for low, each, high in zip(least.pair, reported, most.pair, strict=True)):
        return ""
    says = f"the log counts {reported[0]} bytes spill stores and {reported[1]} bytes spill loads, the dump "
    if least != most:
        return says + f"shows {between(least.pair[0], most.pair[0])} and {between(least.pair[1], most.pair[1])}"
    stored, loaded = least.pair
    return says + f"shows {stored} and {loaded} ({stored - reported[0]:+d}, {loaded - reported[1]:+d})"


def weigh(stats: SassStats, kernel: Kernel, reported: Bytes) -> SassStats:
    """``stats`` with local accesses classified again, using the log's spill count as evidence."""
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
    roles = tuple(replace(role, spill=None) for role in stats.roles)  # they were counted with the old classes
    return replace(stats, local=replace(local, accesses=accesses, evidence="log"), roles=roles)


def _from_slot_on(accesses: Sequence[LocalAccess], reported: Bytes) -> tuple[LocalAccess, ...]:
    """Accesses reclassified so that slots from some offset on contain exactly the spill bytes of the log.

    Arrays are below the spill area. If the log reports no spills, no slot is one. Empty if no offset fits.
    """
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
