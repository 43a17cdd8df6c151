"""Join machine code and resource listings to the kernels that a log reports.

Values of the log are never overwritten, except by those of a linked binary for relocatable code. If two inputs
disagree, both values stay and an issue names both places.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from msgspec.structs import replace

from spillscan.model import LOST_SETTING, Issue, Kernel, KernelKey, Origin, Usage
from spillscan.model.code import FunctionUsage, SassFunction
from spillscan.model.local import LocalTraffic
from spillscan.model.metrics import PRINTED, Metric
from spillscan.model.symbols import is_helper
from spillscan.naming.filtered import is_filtered, with_symbols
from spillscan.output.nouns import between, count, listed
from spillscan.reading.inputs.formats import OBJECTS

_Item = TypeVar("_Item", SassFunction, FunctionUsage)

_NAMED = 3
"""Most units that a message names."""
_ARCHIVES = (".a", ".lib")


def attach_code(
    kernels: Iterable[Kernel], items: Iterable[SassFunction | FunctionUsage], unread: Collection[str] = ()
) -> tuple[list[Kernel], list[Issue]]:
    """Join functions to ``kernels``. Returns kernels with ``sass``, new kernels for unlogged functions, and
    contradictions.

    ``unread``: files that an issue already names, so that code missing from them is no contradiction."""
    kernels, items = with_symbols(kernels, items)
    functions = [item for item in items if isinstance(item, SassFunction)]
    relocatable = {(each.symbol, each.arch) for each in functions if each.final is False}
    functions, copies = _without_copies(_folded(_without_linked(functions)))
    listings = _folded([item for item in items if isinstance(item, FunctionUsage)])
    issues: list[Issue] = []
    functions_of, listings_of = _by_symbol(functions), _by_symbol(listings)
    archs = {function.arch for function in functions}
    paired: set[int] = set()
    joined: list[Kernel] = []
    for kernel in _with_archs(kernels, functions_of):
        if kernel.final is None and (kernel.key.symbol, kernel.key.arch) in relocatable:
            kernel = replace(kernel, final=False)  # noqa: PLW2901
        fitting = _pick(kernel, listings_of.get(kernel.key.symbol, ()))
        mine = fitting[:1] if len({listing.arch for listing in fitting if listing.arch}) < 2 else []
        candidates = _pick(kernel, functions_of.get(kernel.key.symbol, ()))
        paired.update(map(id, (*(mine or fitting), *candidates)))
        for listing in mine:
            kernel = with_listing(kernel, listing, issues)  # noqa: PLW2901
        disassembled = kernel.key.arch in archs and kernel.key.unit not in unread
        joined.append(_with_one_of(kernel, candidates, issues, disassembled=disassembled))
    codes = {_code(function) for function in functions if id(function) in paired}
    left = {id(item) for item in (*functions, *listings)} - paired
    left -= {id(each) for each in functions if codes and id(each) in left and _code(each) in codes}
    rest: list[SassFunction | FunctionUsage] = [item for item in items if id(item) in left]
    lost = any(is_filtered(kernel.key.symbol) and kernel.sass is None for kernel in joined)
    if joined and not lost and (unlogged := [item for item in rest if not is_helper(item.symbol)]):
        issues.append(_not_in_log(unlogged))
    return _with_copies([*joined, *alone(rest)], copies), issues


def _with_one_of(
    kernel: Kernel, candidates: Sequence[SassFunction], issues: list[Issue], *, disassembled: bool
) -> Kernel:
    """``kernel`` with the only candidate that it can be; an issue if there are several, or none where code of its arch
    was read."""
    if len(candidates) > 1:
        candidates = [each for each in candidates if may_be(each, kernel)] or candidates
        candidates = [each for each in candidates if agrees(each.stats.local, kernel)] or candidates
    callers = {function.caller for function in candidates}
    if len(candidates) == 1 or len({_contents(function) for function in candidates}) == 1:  # of an object, and linked
        joined = with_function(kernel, candidates[0], issues)
        return replace(joined, caller=candidates[0].caller) if len(callers) == 1 else joined
    if candidates and not _are_copies(kernel, candidates):
        places = ", ".join(str(function.stats.origin) for function in candidates)
        text = f"{count(len(candidates), 'function')} have this symbol and arch; none is used: "
        issues.append(contradiction("ambiguous-sass", kernel, text + places, candidates[0].stats.origin))
    elif kernel.role == "entry" and disassembled:
        text = f"in the build log, but not in the machine code for {kernel.key.arch}"
        text = "demangled in the build log; pass the log without c++filt" if is_filtered(kernel.key.symbol) else text
        issues.append(contradiction("not-in-dump", kernel, text, None))
    return kernel


def _not_in_log(unlogged: Sequence[SassFunction | FunctionUsage]) -> Issue:
    """Issue that no log reports these functions, naming their objects or disassembly."""
    places = dict.fromkeys(origin.input for item in unlogged if (origin := origin_of(item)))
    named = listed([*places][:_NAMED], len(places) - _NAMED) or "the disassembly"
    are, more = ("is", "") if len(unlogged) == 1 else ("are", ", …")
    message = f"{count(len(unlogged), 'function')} of {named} {are} in no build log: {unlogged[0].symbol}{more}"
    return Issue(code="not-in-log", message=message, severity="note", origin=origin_of(unlogged[0]))


def origin_of(item: SassFunction | FunctionUsage) -> Origin | None:
    """Location of the function in its listing or disassembly; ``None`` if unknown."""
    return item.origin if isinstance(item, FunctionUsage) else item.stats.origin


def _by_symbol(items: Iterable[_Item]) -> dict[str, list[_Item]]:
    groups: dict[str, list[_Item]] = {}
    for item in items:
        groups.setdefault(item.symbol, []).append(item)
    return groups


def _pick(kernel: Kernel, items: Sequence[_Item]) -> list[_Item]:
    """Items that match the kernel's arch and unit.

    The unit counts only if both sides name one and it is decisive. A unit that equals an input's path selects that
    file.
    """
    arch, unit = kernel.key.arch, kernel.key.unit
    fitting = [item for item in items if arch is None or item.arch is None or item.arch == arch]
    if not unit:
        return fitting
    if mine := [item for item in fitting if (origin := origin_of(item)) and origin.input == unit]:
        return mine
    same = [item for item in fitting if _stem(item.identifier.rpartition(":")[2]) == _stem(unit)]
    return same or fitting


def _stem(path: str) -> str:
    return PurePosixPath(path).name.split(".")[0]


def _contents(function: SassFunction) -> Hashable:
    """Key under which equal code compares equal."""
    stats, local = function.stats, function.stats.local
    return function.usage, function.final, stats.instructions, stats.opcodes, local.accesses


def _code(function: SassFunction) -> Hashable:
    """Key shared by a function of an object and its copy in a linked binary."""
    return function.symbol, function.arch, _contents(function)


def _with_archs(kernels: Iterable[Kernel], functions_of: Mapping[str, Sequence[SassFunction]]) -> Iterator[Kernel]:
    """``kernels`` with the archs of device functions for which the log names none: those in modules without kernels.

    Spills must pair the log's records with the machine code one to one. Records with equal spills must be equal, so
    that it does not matter which of them is for which arch; then, only their compile times are unknown.
    """
    kernels, known = list(kernels), dict[int, Kernel]()
    groups: dict[KernelKey, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.role == "function" and kernel.key.arch is None and kernel.key.symbol in functions_of:
            groups[kernel.key].append(kernel)
    for key, group in groups.items():
        spills = (
            (each.arch, each.stats.local.spills("function")) for each in _pick(group[0], functions_of[key.symbol])
        )
        coded = sorted({(own.pair, arch) for arch, own in spills if arch and own})
        group.sort(key=lambda kernel: kernel.usage.spills or ())
        distinct = {(each.usage, each.advisories, each.confidence) for each in group}
        own = [pair for pair, _ in coded]
        if own == [each.usage.spills for each in group] and len(distinct) == len({*own}):
            for kernel, (_, arch) in zip(group, coded, strict=True):
                time = kernel.compile_ms if len(distinct) == len(group) else None
                known[id(kernel)] = replace(kernel, key=replace(key, arch=arch), compile_ms=time)
    return (known.get(id(kernel), kernel) for kernel in kernels)


def _are_copies(kernel: Kernel, candidates: Sequence[SassFunction]) -> bool:
    """Whether ``candidates`` are copies of one device function with a single report in the log.

    Copies are in each kernel of a whole program, or one per arch, which the log does not print for device functions.
    """
    if kernel.role == "entry":
        return False
    return all(function.caller for function in candidates) or (
        kernel.key.arch is None and len({function.arch for function in candidates}) == len(candidates)
    )


# ---- copies of one function ------------------------------------------------------------------------------------------


def _folded(items: Iterable[_Item]) -> list[_Item]:
    """``items`` without repeated ptxas helpers, of which the linker leaves one in each object that needs it."""
    unique: dict[Hashable, _Item] = {}
    for item in items:
        helper = is_helper(item.symbol) and not (isinstance(item, SassFunction) and item.role == "entry")
        unique.setdefault((item.symbol.rpartition("$")[2], item.arch) if helper else id(item), item)
    return list(unique.values())


def _without_linked(functions: Sequence[SassFunction]) -> list[SassFunction]:
    """``functions`` without relocatable code that is linked into another of the binaries, whose values are final."""
    linked = {(item.symbol, item.arch) for item in functions if item.usage is not None and item.final is not False}
    return [item for item in functions if item.final is not False or (item.symbol, item.arch) not in linked]


_Copies = dict[Hashable, list[Origin]]
"""Further locations of identical code, by symbol, arch, caller and digest."""


def _without_copies(functions: list[SassFunction]) -> tuple[list[SassFunction], _Copies]:
    """Drop copies of code that was compiled once, and return where they were.

    Objects take precedence over archives, and both over the programs and libraries linked from them.
    """
    first: dict[Hashable, int] = {}
    for item in functions:
        code = _compiled(item)
        first[code] = min(first.get(code, _LINKED), _stage(item))
    left: list[SassFunction] = []
    copies: _Copies = {}
    for item in functions:
        code, origin = _compiled(item), item.stats.origin
        if origin is not None and item.stats.digest is not None and _stage(item) > first[code]:
            copies.setdefault(code, []).append(origin)
        else:
            left.append(item)
    return left, copies


def _compiled(item: SassFunction) -> Hashable:
    return item.symbol, item.arch, item.caller, item.stats.digest


_LINKED = 2


def _stage(item: SassFunction) -> int:
    """Build stage of the file that contains a function: 0 object, 1 archive, 2 linked binary."""
    path = item.stats.origin.input if item.stats.origin else ""
    return 0 if path.endswith(OBJECTS) else 1 if path.endswith(_ARCHIVES) else _LINKED


def _with_copies(kernels: list[Kernel], copies: _Copies) -> list[Kernel]:
    """``kernels`` with the locations of further copies of their code added to their origins."""
    codes = ((each.key.symbol, each.key.arch, each.caller, each.sass.digest if each.sass else None) for each in kernels)
    return [
        replace(each, origins=(*each.origins, *copies[code])) if code in copies else each
        for each, code in zip(kernels, codes, strict=True)
    ]


# ---- kernels without a log -------------------------------------------------------------------------------------------


def alone(items: Iterable[SassFunction | FunctionUsage]) -> Iterator[Kernel]:
    """Kernels named only by machine code and listings, one per symbol, arch and unit."""
    kernels: dict[tuple[str, str | None, str, str], Kernel] = {}
    copies: Counter[tuple[str, str | None, str, str]] = Counter()
    for item in items:
        caller = item.caller if isinstance(item, SassFunction) else ""
        first = place = item.symbol, item.arch, item.identifier, caller
        while (kernel := kernels.get(place)) and kernel.sass is not None and isinstance(item, SassFunction):
            copies[first] += 1  # the same symbol in another cubin
            place = item.symbol, item.arch, f"{item.identifier}#{copies[first]}", caller
        if kernel is None:
            kernel = Kernel(
                key=KernelKey(symbol=item.symbol, arch=item.arch, unit=place[2]), role="unknown", usage=Usage()
            )
        kernels[place] = _with_item(kernel, item)
    yield from kernels.values()


def _with_item(kernel: Kernel, item: SassFunction | FunctionUsage) -> Kernel:
    """``kernel`` with the values of one more input."""
    origin = origin_of(item)
    origins = (*kernel.origins, origin) if origin else kernel.origins
    if isinstance(item, FunctionUsage):
        return replace(kernel, usage=item.usage, origins=origins)
    usage = item.usage
    if usage is None:
        registers = kernel.usage.registers or item.stats.registers
        usage = _with_callees(replace(kernel.usage, registers=registers), item)
    return Kernel(
        key=kernel.key,
        role=item.role,
        usage=usage,
        final=item.final,
        origins=origins,
        sass=item.stats,
        launch_bounds=item.launch_bounds,
        dynamic_shared=item.dynamic_shared,
        caller=item.caller,
    )


def _with_callees(usage: Usage, item: SassFunction) -> Usage:
    """``usage`` with the callees' spills that ptxas annotated in its listing, unless it already has them."""
    local = item.stats.local
    if usage.cumulative_spills is not None or local.cumulative is None or local.evidence != "annotation":
        return usage
    stores, loads = local.cumulative.pair
    return replace(usage, cumulative_spill_store_bytes=stores, cumulative_spill_load_bytes=loads)


_LISTED = tuple(each for each in PRINTED if each.listed)

Bytes = tuple[int, int]
"""Bytes stored and loaded."""


def contradiction(code: str, kernel: Kernel, text: str, other: Origin | None) -> Issue:
    """Issue that the log and another input disagree about ``kernel``."""
    log = kernel.origins[0] if kernel.origins else None
    places = f" ({log}, {other})" if log and other else ""
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
    certain = kernel.confidence == "certain" and stats.instructions  # 0: the code was not analyzed
    if reported is not None and certain and (text := _spills_differ(stats.local, kernel, reported)):
        issues.append(contradiction("spill-mismatch", kernel, text, stats.origin))
    if function.usage is not None:
        kernel = _with_binary(kernel, function, function.usage, issues)
    elif None not in (stats.registers, kernel.usage.registers) and stats.registers != kernel.usage.registers:
        text = f"the log says {kernel.usage.registers} registers, the disassembly {stats.registers}"
        issues.append(contradiction("registers-mismatch", kernel, text, stats.origin))
    if stats.setmaxnreg and any(advisory.kind == LOST_SETTING for advisory in kernel.advisories):
        text = f"the log says that ptxas ignored setmaxnreg, but the code has {count(stats.setmaxnreg, 'USETMAXREG')}"
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
    least, most = local.own.bounds(kernel.role)
    if all(low <= each <= high for low, each, high in zip(least.pair, reported, most.pair, strict=True)):
        return ""
    logged = f"the log counts {reported[0]} B spill stores and {reported[1]} B spill loads, the machine code has "
    if least != most:
        return logged + f"{between(least.pair[0], most.pair[0])} and {between(least.pair[1], most.pair[1])}"
    stored, loaded = least.pair
    return logged + f"{stored} and {loaded} ({stored - reported[0]:+d}, {loaded - reported[1]:+d})"
