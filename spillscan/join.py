"""Records of one kernel from several inputs become one kernel; contradictions become issues, never overwrites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from spillscan.model import Issue, Kernel, KernelKey, Usage
from spillscan.readers import LinkRecord

_LINKED = ("registers", "barriers", "shared_bytes", "local_bytes", "constant_bytes", "textures", "surfaces", "samplers")


def merge_links(kernels: Iterable[Kernel], links: Iterable[LinkRecord]) -> tuple[list[Kernel], list[Issue]]:
    """``kernels`` with the linker's final figures where ``links`` has them.

    In relocatable code ptxas's registers are not final: the linker knows what the kernel calls. A link record without
    arch is taken only where it cannot be another arch's.
    """
    records: dict[str, list[LinkRecord]] = defaultdict(list)
    for link in links:
        records[link.symbol].append(link)
    if not records:
        return list(kernels), []
    merged: list[Kernel] = []
    issues: list[Issue] = []
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
    return merged, issues


def _linked(kernel: Kernel, links: list[LinkRecord], arches: int) -> Kernel:
    mine = [link for link in links if link.arch == kernel.key.arch]
    nameless = [link for link in links if link.arch is None]
    candidates = mine or nameless
    if not candidates:
        return kernel
    usages = {link.usage for link in candidates}
    origins = kernel.origins + tuple(link.origin for link in candidates)
    sure = len(usages) == 1 and (bool(mine) or arches == 1 or len(nameless) >= arches)
    if not sure:
        usage = replace(kernel.usage, **dict.fromkeys((*_LINKED, "stack_bytes"), None))  # type: ignore[arg-type]
        why = "the linker names no arch" if not mine and arches > 1 else "it was linked several times, differently"
        reasons = (*kernel.reasons, f"{why}: its final figures are one of {len(candidates)}")
        return replace(kernel, usage=usage, confidence="ambiguous", reasons=reasons, origins=origins)
    return replace(kernel, usage=_final(kernel.usage, usages.pop()), final=True, origins=origins)


def _final(compiled: Usage, linked: Usage) -> Usage:
    """The linker's figures where it has them; its stack is the whole call tree's, the compiler's the kernel's own."""
    figures = {name: value for name in _LINKED if (value := getattr(linked, name)) is not None}
    if linked.stack_bytes is not None:
        figures["cumulative_stack_bytes"] = linked.stack_bytes
    return replace(
        compiled,
        **figures,
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
