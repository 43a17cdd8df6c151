"""Join records of one kernel from several inputs: the linker's registers, machine code, sidecars.

Pure functions from records to records and issues. Nothing is overwritten: if two inputs disagree, both values stay and
an issue names both places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from spillscan.model import Issue, Kernel, KernelKey, Launch, LinkRecord, Reading, Sidecar, Usage, agreement
from spillscan.model.gaps import unread
from spillscan.model.metrics import PRINTED
from spillscan.reading.inputs.paths import place_of


def joined(reading: Reading) -> tuple[list[Kernel], list[Issue]]:
    """Kernels with everything that other inputs report about them, and the issues of ``reading`` with contradictions
    added."""
    kernels, issues = merge_links(reading.kernels, reading.links), list(reading.issues)
    if reading.functions:
        from spillscan.reading.join.code import attach_code

        kernels, contradictions = attach_code(kernels, reading.functions, unread(issues))
        issues += contradictions
    kernels, contradictions = attach_sidecars(kernels, reading.sidecars)
    return kernels, issues + contradictions


# Link records: the linker's registers of relocatable code are final.


def merge_links(kernels: Iterable[Kernel], links: Iterable[LinkRecord]) -> list[Kernel]:
    """``kernels`` with the linker's final values if ``links`` has them.

    In relocatable code ptxas's registers are not final, because only the linker knows the kernel's callees. A link
    record without arch is used only if it cannot belong to another arch.
    """
    records: dict[str, list[LinkRecord]] = defaultdict(list)
    for link in links:
        records[link.symbol].append(link)
    kernels = list(kernels)
    arches: dict[str, set[str | None]] = defaultdict(set)
    for kernel in kernels:
        if kernel.role == "entry" and kernel.key.symbol in records:
            arches[kernel.key.symbol].add(kernel.key.arch)
    merged: list[Kernel] = []
    for kernel in kernels:
        symbol = kernel.key.symbol
        is_linked = kernel.role == "entry" and symbol in records
        merged.append(_linked(kernel, records[symbol], len(arches[symbol])) if is_linked else kernel)
    for symbol, left in records.items():
        if symbol not in arches:
            merged.extend(map(_link_only, left))
    return merged


def _linked(kernel: Kernel, links: list[LinkRecord], arches: int) -> Kernel:
    mine = [link for link in links if link.arch == kernel.key.arch]
    nameless = [link for link in links if link.arch is None]
    candidates = mine or nameless
    if not candidates:
        return kernel
    usages = list({link.usage: None for link in candidates})
    origins = kernel.origins + tuple(link.origin for link in candidates)
    usage = _final(kernel.usage, agreement(usages))
    if len(usages) == 1 and (mine or arches == 1 or len(nameless) >= arches):
        return replace(kernel, usage=usage, final=True, origins=origins)
    why = "the linker names no arch" if not mine and arches > 1 else "several links disagree"
    reasons = (*kernel.reasons, f"{why}; {len(candidates)} sets of final values are possible")
    return replace(kernel, usage=usage, confidence="ambiguous", reasons=reasons, final=True, origins=origins)


def _final(compiled: Usage, linked: Usage) -> Usage:
    """``compiled`` with the linker's values. The linker's stack is the whole call tree's, the compiler's is the
    kernel's own."""
    return replace(
        compiled,
        **{each.name: getattr(linked, each.linker) for each in PRINTED if each.linker},
        unknown_clauses=tuple(dict.fromkeys(compiled.unknown_clauses + linked.unknown_clauses)),
    )


def _link_only(link: LinkRecord) -> Kernel:
    usage = replace(link.usage, stack_bytes=None, cumulative_stack_bytes=link.usage.stack_bytes)
    return Kernel(
        key=KernelKey(symbol=link.symbol, arch=link.arch), role="entry", usage=usage, final=True, origins=(link.origin,)
    )


# Sidecars: launches and configurations that compilers write next to their output.


def attach_sidecars(kernels: Iterable[Kernel], sidecars: Sequence[Sidecar]) -> tuple[list[Kernel], list[Issue]]:
    """``kernels`` with the values of their sidecars, and an issue for each contradiction with the code."""
    by_place: dict[tuple[str, str], list[Sidecar]] = {}
    for each in sidecars:
        by_place.setdefault((each.place, each.symbol), []).append(each)
    if not by_place:
        return list(kernels), []
    attached, issues = list[Kernel](), list[Issue]()
    for kernel in kernels:
        origin = None if kernel.sass is None else kernel.sass.origin
        place = "" if origin is None else place_of(origin.input)
        own = [*by_place.get((place, kernel.key.symbol), ()), *by_place.get((place, ""), ())] if place else []
        attached.append(_with_sidecars(kernel, own, issues) if own and kernel.role != "function" else kernel)
    return attached, issues


def _with_sidecars(kernel: Kernel, own: Sequence[Sidecar], issues: list[Issue]) -> Kernel:
    bounds = kernel.launch_bounds
    threads = _agreed(each.threads_per_block for each in own)
    dynamic = _agreed(each.dynamic_shared_bytes for each in own)
    origins = tuple(dict.fromkeys(each.origin for each in own))
    configuration = dict(pair for each in own if each.symbol for pair in each.configuration)
    kernel = replace(
        kernel,
        origins=(*kernel.origins, *origins),
        configuration=tuple(sorted(configuration.items(), key=lambda pair: pair[0] != "tile")),
    )
    required = None if bounds is None else bounds.required_threads
    most = None if bounds is None else bounds.threads
    if threads is not None and (threads != required if required else most is not None and threads > most):
        what = f"{kernel.short_name}: {threads} threads per block in {origins[0]}; the code allows {required or most}"
        issues.append(Issue(code="launch-mismatch", message=what, origin=origins[0], symbol=kernel.key.symbol))
        return kernel
    threads = threads or required
    if threads is None or (dynamic is None and kernel.dynamic_shared is not False):
        return kernel
    launch = Launch(
        threads_per_block=threads,
        dynamic_shared_bytes=dynamic or 0,
        max_dynamic_shared_bytes=dynamic or None,
        cluster_blocks=_agreed(each.cluster_blocks for each in own) or 1,
        source="sidecar",
    )
    return replace(kernel, launch=launch)


def _agreed(values: Iterable[int | None]) -> int | None:
    """The one value that all known values share; ``None`` if none is known or they differ."""
    known = {value for value in values if value is not None}
    return known.pop() if len(known) == 1 else None
