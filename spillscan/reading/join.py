"""Records of one kernel from several inputs become one kernel: what the linker made of its registers, what a dump says
of its code, what compilers wrote beside their output. Pure: records in, records and issues out.

Nothing is overwritten: where two disagree, both stay and an issue names both places.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from posixpath import basename
from typing import TypeVar

from msgspec.structs import replace

from spillscan.builds.records import object_of
from spillscan.model import Issue, Kernel, KernelKey, Launch, LinkRecord, Origin, Sidecar, Timing, Usage, agreement
from spillscan.model.code import FunctionUsage, LocalAccess, LocalTraffic, SassFunction, SassStats
from spillscan.model.usage import PRINTED, Figure
from spillscan.reading.inputs.sidecars import place_of


def merge_links(kernels: Iterable[Kernel], links: Iterable[LinkRecord]) -> list[Kernel]:
    """``kernels`` with the linker's final figures where ``links`` has them.

    In relocatable code ptxas's registers are not final: the linker knows what the kernel calls. A link record without
    arch is taken only where it cannot be another arch's.
    """
    records: dict[str, list[LinkRecord]] = defaultdict(list)
    for link in links:
        records[link.symbol].append(link)
    if not records:
        return list(kernels)
    merged: list[Kernel] = []
    used: set[str] = set()
    kernels = list(kernels)
    arches: dict[str, set[str | None]] = defaultdict(set)
    for kernel in kernels:
        if kernel.role == "entry" and kernel.key.symbol in records:
            arches[kernel.key.symbol].add(kernel.key.arch)
    for kernel in kernels:
        symbol = kernel.key.symbol
        if kernel.role != "entry" or symbol not in records:
            merged.append(kernel)
            continue
        used.add(symbol)
        merged.append(_linked(kernel, records[symbol], len(arches[symbol])))
    for symbol, left in records.items():
        if symbol not in used:
            merged.extend(_link_only(link) for link in left)
    return merged


def _linked(kernel: Kernel, links: list[LinkRecord], arches: int) -> Kernel:
    mine = [link for link in links if link.arch == kernel.key.arch]
    nameless = [link for link in links if link.arch is None]
    candidates = mine or nameless
    if not candidates:
        return kernel
    usages = list({link.usage: None for link in candidates})
    origins = kernel.origins + tuple(link.origin for link in candidates)
    figures = _final(kernel.usage, agreement(usages))
    if len(usages) == 1 and (mine or arches == 1 or len(nameless) >= arches):
        return replace(kernel, usage=figures, final=True, origins=origins)
    why = "the linker names no arch" if not mine and arches > 1 else "it was linked several times, differently"
    reasons = (*kernel.reasons, f"{why}: its final figures are one of {len(candidates)}")
    return replace(kernel, usage=figures, confidence="ambiguous", reasons=reasons, final=True, origins=origins)


def _final(compiled: Usage, linked: Usage) -> Usage:
    """The linker's figures; its stack is the whole call tree's, the compiler's is the kernel's own."""
    return replace(
        compiled,
        **{each.name: getattr(linked, each.linker) for each in PRINTED if each.linker},
        unknown_clauses=tuple(dict.fromkeys(compiled.unknown_clauses + linked.unknown_clauses)),
    )


def _link_only(link: LinkRecord) -> Kernel:
    usage = replace(link.usage, stack_bytes=None, cumulative_stack_bytes=link.usage.stack_bytes)
    return Kernel(
        key=KernelKey(symbol=link.symbol, arch=link.arch),
        role="entry",
        usage=usage,
        final=True,
        origins=(link.origin,),
    )


def attach_sidecars(kernels: Iterable[Kernel], sidecars: Sequence[Sidecar]) -> tuple[list[Kernel], list[Issue]]:
    """``kernels`` with what was written beside their code, and an issue where that contradicts it."""
    found: dict[tuple[str, str], list[Sidecar]] = {}
    for each in sidecars:
        found.setdefault((each.place, each.symbol), []).append(each)
    if not found:
        return list(kernels), []
    attached, issues = [], []
    for kernel in kernels:
        place = _place(kernel)
        beside = [*found.get((place, kernel.key.symbol), ()), *found.get((place, ""), ())] if place else []
        if beside and kernel.role != "function":
            known, contradictions = _with(kernel, beside)
            attached.append(known)
            issues += contradictions
        else:
            attached.append(kernel)
    return attached, issues


def _place(kernel: Kernel) -> str:
    origin = None if kernel.sass is None else kernel.sass.origin
    return "" if origin is None else place_of(origin.input)


def _with(kernel: Kernel, beside: Sequence[Sidecar]) -> tuple[Kernel, list[Issue]]:
    bounds = kernel.launch_bounds
    threads = _said(each.threads_per_block for each in beside)
    dynamic = _said(each.dynamic_shared_bytes for each in beside)
    named = [each for each in beside if each.symbol]
    origins = tuple(dict.fromkeys(each.origin for each in beside))
    configuration = dict(pair for each in named for pair in each.configuration)
    kernel = replace(
        kernel,
        origins=(*kernel.origins, *origins),
        configuration=tuple(sorted(configuration.items(), key=lambda pair: pair[0] != "tile")),
    )
    required = None if bounds is None else bounds.required_threads
    most = None if bounds is None else bounds.threads
    if threads is not None and (threads != required if required else most is not None and threads > most):
        what = f"{kernel.short_name}: {origins[0]} says {threads} threads per block, its code {required or most}"
        return kernel, [Issue(code="launch-mismatch", message=what, origin=origins[0], symbol=kernel.key.symbol)]
    threads = threads or required
    if threads is None or (dynamic is None and kernel.dynamic_shared is not False):
        return kernel, []
    launch = Launch(
        threads_per_block=threads,
        dynamic_shared_bytes=dynamic or 0,
        max_dynamic_shared_bytes=dynamic or None,
        cluster_blocks=_said(each.cluster_blocks for each in beside) or 1,
        source="sidecar",
    )
    return replace(kernel, launch=launch), []


def _said(values: Iterable[int | None]) -> int | None:
    """What all say that say anything; ``None`` where none does, or they differ."""
    known = {value for value in values if value is not None}
    return known.pop() if len(known) == 1 else None


def timed(kernels: Sequence[Kernel], timings: Iterable[Timing]) -> list[Kernel]:
    """``kernels`` with the compile times that traces have of them and no log printed. Where several sources hold a
    kernel of one name and arch, only those whose object or source is known have theirs."""
    found: dict[tuple[str, str | None], list[Timing]] = {}
    for each in timings:
        if each.kernel:
            found.setdefault((each.symbol, each.arch), []).append(each)
    if not found:
        return list(kernels)
    instances = Counter((kernel.key.symbol, kernel.key.arch) for kernel in kernels)
    timed_ones = []
    for kernel in kernels:
        place = kernel.key.symbol, kernel.key.arch
        traced = found.get(place, []) if kernel.compile_ms is None else []
        if len(traced) > 1 or instances[place] > 1:
            units = {_stem(kernel.key.unit), _stem(kernel.source)} - {""}
            traced = [each for each in traced if _stem(each.file) in units]
        if len(traced) == 1:
            origins = (*kernel.origins, traced[0].origin)
            timed_ones.append(replace(kernel, compile_ms=traced[0].milliseconds, origins=origins))
        else:
            timed_ones.append(kernel)
    return timed_ones


def _stem(path: str) -> str:
    """``gemm`` of ``src/gemm.cu`` and of ``CMakeFiles/x.dir/gemm.cu.o``."""
    return basename(path.replace("\\", "/")).partition(".")[0]


_Item = TypeVar("_Item", SassFunction, FunctionUsage)

Bytes = tuple[int, int]
"""Stored, loaded."""

_FROM_LISTING = tuple(each for each in PRINTED if each.listed)


def attach_code(
    kernels: Iterable[Kernel], functions: Iterable[SassFunction | FunctionUsage]
) -> tuple[list[Kernel], list[Issue]]:
    """Kernels with their ``sass``, functions that no log names as kernels of their own, and what contradicts."""
    known = list(kernels)
    found = _without_linked(functions)
    if not known:
        return list(_alone(found)), []
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
            candidates = [function for function in candidates if _agrees(function.stats.local, kernel)] or candidates
            if len({_figures(function) for function in candidates}) == 1:
                candidates = candidates[:1]  # the same code in an object and in what it was linked into
        if len(candidates) == 1:
            joined, contradictions = _with_dump(joined, candidates[0])
            issues.extend(contradictions)
        elif candidates:
            issues.append(_ambiguous(kernel, candidates))
        elif kernel.role == "entry" and kernel.key.arch in archs:
            issues.append(_missing(kernel))
        out.append(joined)
    taken = {_code(item) for item in found if id(item) in used and isinstance(item, SassFunction)}
    rest = [item for item in found if id(item) not in used]
    if taken:
        rest = [item for item in rest if isinstance(item, FunctionUsage) or _code(item) not in taken]
    if rest:
        issues.append(
            Issue(
                code="not-in-log",
                message=f"{len(rest)} functions of the dump are in no build log: {rest[0].symbol} …",
                severity="note",
                origin=_origin(rest[0]),
            )
        )
    out.extend(_alone(rest))
    return out, issues


def _without_linked(functions: Iterable[SassFunction | FunctionUsage]) -> list[SassFunction | FunctionUsage]:
    """All but relocatable code that was linked into another of the binaries: the linker has the last word."""
    found = list(functions)
    binaries = [item for item in found if isinstance(item, SassFunction) and item.usage is not None]
    relocatable = [item for item in binaries if item.final is False]
    if not relocatable:
        return found
    linked = {(item.symbol, item.arch) for item in binaries if item.final is not False}
    dropped = {id(item) for item in relocatable if (item.symbol, item.arch) in linked}
    return [item for item in found if id(item) not in dropped]


def _by_symbol(items: Iterable[_Item]) -> dict[str, list[_Item]]:
    found: dict[str, list[_Item]] = {}
    for item in items:
        found.setdefault(item.symbol, []).append(item)
    return found


def _pick(kernel: Kernel, items: Sequence[_Item]) -> list[_Item]:
    """Those of the kernel's arch and, where both sides name one and it decides, of its unit. A record file speaks of
    the object beside it and of nothing else."""
    arch = kernel.key.arch
    fitting = [item for item in items if arch is None or item.arch is None or item.arch == arch]
    beside = {made for origin in kernel.origins if (made := object_of(origin.input))}
    mine = [item for item in fitting if (origin := _origin(item)) and origin.input in beside]
    if mine:
        return mine
    if len(fitting) > 1 and kernel.key.unit:
        stem = PurePosixPath(kernel.key.unit).name.split(".")[0]
        same = [item for item in fitting if PurePosixPath(item.identifier).name.split(".")[0] == stem]
        return same or fitting
    return fitting


def _counted(local: LocalTraffic, kernel: Kernel) -> Bytes | None:
    """What ptxas would print; ``None`` where the code alone does not say."""
    traffic = local.spills(kernel.role)
    return None if traffic is None else traffic.pair


def _agrees(local: LocalTraffic, kernel: Kernel) -> bool:
    return kernel.usage.spills == _counted(local, kernel)


def _may_be(function: SassFunction, kernel: Kernel) -> bool:
    """Whether ``function`` has each figure that log and code must agree in: where two programs have a kernel of one
    name, a log without units does not say whose it reports."""
    if kernel.final is False:
        return True
    usage = function.usage or Usage(registers=function.stats.registers)
    names = [figure.name for figure in PRINTED if figure.contradicts]
    both = [(getattr(kernel.usage, name), getattr(usage, name)) for name in names]
    return all(None in pair or pair[0] == pair[1] for pair in both)


def _contradicts(local: LocalTraffic, kernel: Kernel, reported: Bytes) -> str:
    """How code and log differ in the kernel's spills, one line; empty where both may be right."""
    least, most = local.bounds(kernel.role, own=True)
    if all(low <= each <= high for low, each, high in zip(least.pair, reported, most.pair, strict=True)):
        return ""
    says = f"the log counts {reported[0]} bytes spill stores and {reported[1]} bytes spill loads, the dump "
    if least != most:
        return says + f"shows {least.pair[0]} to {most.pair[0]} and {least.pair[1]} to {most.pair[1]}"
    stored, loaded = least.pair
    return says + f"shows {stored} and {loaded} ({stored - reported[0]:+d}, {loaded - reported[1]:+d})"


def _with_dump(kernel: Kernel, function: SassFunction) -> tuple[Kernel, list[Issue]]:
    stats, issues = function.stats, []
    reported = kernel.usage.spills
    if reported is not None and kernel.confidence == "certain":
        stats = _weigh(stats, kernel, reported)
        if contradiction := _contradicts(stats.local, kernel, reported):
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
    issues.extend(_named(kernel, stats))
    role = function.role if kernel.role == "unknown" else kernel.role
    origins = (*kernel.origins, stats.origin) if stats.origin else kernel.origins
    return replace(kernel, sass=stats, role=role, origins=origins), issues


def _figures(function: SassFunction) -> Hashable:
    """What equal code has in common."""
    stats, local = function.stats, function.stats.local
    return function.usage, function.final, stats.instructions, stats.opcodes, local.accesses


def _code(function: SassFunction) -> Hashable:
    """What a function of an object and its copy in what it was linked into have in common."""
    return function.symbol, function.arch, _figures(function)


def _with_binary(kernel: Kernel, function: SassFunction) -> tuple[Kernel, list[Issue]]:
    """What the log does not say is taken from the binary; a linked one has the last word on relocatable code."""
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


def _named(kernel: Kernel, stats: SassStats) -> Iterator[Issue]:
    """A register that was not allocated: the dump is of another compilation. A kernel that asks for more registers
    while it runs may name them."""
    reported, operands = kernel.usage.registers, stats.operands
    if reported is None or operands is None or operands.highest_register is None or kernel.confidence != "certain":
        return
    if operands.highest_register >= reported and not stats.setmaxnreg:
        text = f"the log says {reported} registers, the code names R{operands.highest_register}"
        yield _contradiction("registers-mismatch", kernel, text, stats.origin)


def _weigh(stats: SassStats, kernel: Kernel, reported: Bytes) -> SassStats:
    """The evidence that the log adds to what the text alone allows to say."""
    local = stats.local
    if local.evidence != "last-use":
        return stats
    if _agrees(local, kernel):
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
    counts: arrays lie below the spill area. Empty where no offset fits."""
    own = [access for access in accesses if not access.part and access.slot is not None]
    for lowest in sorted({access.slot for access in own if access.slot is not None}, reverse=True):
        chosen = [access for access in own if access.slot is not None and access.slot >= lowest]
        stored = sum(access.bytes for access in chosen if access.store)
        loaded = sum(access.bytes for access in chosen if not access.store)
        if (stored, loaded) == reported:
            spilled = {access.address for access in chosen}
            return tuple(
                replace(access, kind="spill")
                if access.address in spilled
                else replace(access, kind="unknown" if access.kind == "spill" and not access.part else access.kind)
                for access in accesses
            )
    return ()


def _with_listing(kernel: Kernel, listing: FunctionUsage) -> tuple[Kernel, list[Issue]]:
    """What the log does not say is taken from the resource listing; what both say must be equal."""
    kernel, issues = _filled(kernel, listing.usage, listing.origin, _FROM_LISTING, "the resource listing")
    return replace(kernel, origins=(*kernel.origins, listing.origin)), issues


def _filled(
    kernel: Kernel, usage: Usage, origin: Origin, figures: Sequence[Figure], whose: str
) -> tuple[Kernel, list[Issue]]:
    """The kernel with what only the other input says, and an issue where both have it and differ."""
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


def _alone(items: Iterable[SassFunction | FunctionUsage]) -> Iterator[Kernel]:
    """Kernels that only dumps and listings name, one for each symbol, arch and unit."""
    found: dict[tuple[str, str | None, str, str], Kernel] = {}
    copies: Counter[tuple[str, str | None, str, str]] = Counter()
    for item in items:
        caller = item.caller if isinstance(item, SassFunction) else ""
        first = place = item.symbol, item.arch, item.identifier, caller
        kernel = found.get(place)
        while kernel is not None and kernel.sass is not None and isinstance(item, SassFunction):
            copies[first] += 1  # the same symbol in another member of the dump
            place = item.symbol, item.arch, f"{item.identifier}#{copies[first]}", caller
            kernel = found.get(place)
        found[place] = _kernel_with(kernel, item, place[2])
    yield from found.values()


def _kernel_with(kernel: Kernel | None, item: SassFunction | FunctionUsage, unit: str) -> Kernel:
    """The kernel as one more input says it; ``None``: the first that does."""
    origin = _origin(item)
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
        )
    if kernel is None:
        return Kernel(key=key, role="unknown", usage=item.usage, origins=origins)
    return replace(kernel, usage=item.usage, origins=origins)


def _with_callees(usage: Usage, item: SassFunction) -> Usage:
    """The usage with what ptxas marked as spills of a kernel's callees in its listing, where nothing else says it."""
    local = item.stats.local
    if usage.cumulative_spills is not None or local.cumulative is None or local.evidence != "annotation":
        return usage
    stores, loads = local.cumulative.pair
    return replace(usage, cumulative_spill_store_bytes=stores, cumulative_spill_load_bytes=loads)


def _origin(item: SassFunction | FunctionUsage) -> Origin | None:
    return item.origin if isinstance(item, FunctionUsage) else item.stats.origin


def _contradiction(code: str, kernel: Kernel, text: str, other: Origin | None) -> Issue:
    log = kernel.origins[0] if kernel.origins else None
    places = f" (log {log}, dump {other})" if log and other else ""
    return Issue(code=code, message=f"{kernel.short_name}: {text}{places}", origin=log or other)


def _ambiguous(kernel: Kernel, candidates: Sequence[SassFunction]) -> Issue:
    places = ", ".join(str(function.stats.origin) for function in candidates)
    return _contradiction(
        "ambiguous-sass",
        kernel,
        f"{len(candidates)} functions of the dump have this symbol and arch, none is taken: {places}",
        candidates[0].stats.origin,
    )


def _missing(kernel: Kernel) -> Issue:
    return Issue(
        code="not-in-dump",
        message=f"{kernel.short_name}: in the build log, but in no dump of {kernel.key.arch}",
        origin=kernel.origins[0] if kernel.origins else None,
    )
