"""Kernels that no log names: dumps, binaries and resource listings do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Origin, Usage
from spillscan.model.code import FunctionUsage, SassFunction


def alone(items: Iterable[SassFunction | FunctionUsage]) -> Iterator[Kernel]:
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
    """The usage with what ptxas marked as spills of a kernel's callees in its listing, where nothing else says it."""
    local = item.stats.local
    if usage.cumulative_spills is not None or local.cumulative is None or local.evidence != "annotation":
        return usage
    stores, loads = local.cumulative.pair
    return replace(usage, cumulative_spill_store_bytes=stores, cumulative_spill_load_bytes=loads)


def origin_of(item: SassFunction | FunctionUsage) -> Origin | None:
    """Where a listing or a dump has it; ``None`` where that is not known."""
    return item.origin if isinstance(item, FunctionUsage) else item.stats.origin
