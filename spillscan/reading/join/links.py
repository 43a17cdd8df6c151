"""What the linker made of relocatable code: it has the last word on registers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, LinkRecord, Usage, agreement
from spillscan.model.usage import PRINTED


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
