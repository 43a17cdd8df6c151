"""What binds, in words: each limit that is reached, how to press less on it, and what that costs. Modest, since
occupancy is a means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from spillscan.occupancy.bounds import bounds_for_more_blocks
from spillscan.occupancy.headroom import Headroom, Resource, best_block_sizes, headroom
from spillscan.occupancy.model import LIMITERS, Limiter, Occupancy
from spillscan.output.nouns import count

LOW_FRACTION = 0.25
"""Below about this, low occupancy is worth a look where latency is not hidden otherwise."""

LABELS: Mapping[str, str] = {
    "warps": "warp slots",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "block slots",
    "barriers": "barriers",
    "virtual_resources": "virtual resources",
}


def limited_by(limiters: Iterable[str]) -> str:
    """``warp slots, registers``: what binds, in words; what is no limiter (``cannot launch``) stays as it is."""
    return ", ".join(LABELS.get(name, name) for name in limiters)


class Advice(Struct, frozen=True, kw_only=True):
    """One binding limit."""

    limiter: Limiter
    """The resource that allows no more blocks than are resident."""
    finding: str
    """What is so, in figures."""
    fix: str = ""
    """How to press less on it; empty where nothing is to be gained."""
    trade_off: str = ""
    """What that costs; empty where nothing is to be gained."""


def advice(occupancy: Occupancy) -> tuple[Advice, ...]:
    """One entry for each binding limit, in the order of ``LIMITERS``."""
    ways = {way.resource: way for way in headroom(occupancy)}
    return tuple(_ABOUT[name](occupancy, ways) for name in LIMITERS if name in occupancy.limiters)


def verdict(occupancy: Occupancy) -> str:
    """One plain sentence on what the figure is worth."""
    if not occupancy.can_launch:
        return "This launch fails."
    if occupancy.fraction >= 1:
        return "Every warp slot is in use; occupancy limits nothing here."
    if occupancy.fraction < LOW_FRACTION:
        return (
            "Below about 25 %: worth a look if the kernel waits on memory or other long latencies. A spill-free GEMM at"
            " low occupancy may be at its best."
        )
    return "Occupancy is a means: more resident warps help only where the present ones leave latency uncovered."


Ways = dict[Resource, Headroom]


def _warps(occupancy: Occupancy, ways: Ways) -> Advice:
    warps = occupancy.configuration.warps_per_block
    if occupancy.resident_blocks == 0 or occupancy.unused_warps == 0:
        return Advice(
            limiter="warps",
            finding=occupancy.reasons[0] if occupancy.reasons else f"all {occupancy.max_warps} warp slots are in use",
            fix="a smaller block" if occupancy.reasons else "",
            trade_off="",
        )
    best = best_block_sizes(occupancy.configuration)
    better = best.occupancy is not None and best.occupancy.active_warps > occupancy.active_warps
    return Advice(
        limiter="warps",
        finding=f"blocks of {count(warps, 'warp')} leave {occupancy.unused_warps} of {occupancy.max_warps} slots empty",
        fix=f"another block size: {best.threads_per_block} threads fill {best.occupancy.active_warps}"
        if better and best.occupancy
        else "",
        trade_off="the kernel must work with that block size" if better else "",
    )


def _registers(occupancy: Occupancy, ways: Ways) -> Advice:
    configuration = occupancy.configuration
    finding = (
        f"a block takes {occupancy.allocated_registers_per_block:,} of the SM's"
        f" {configuration.device.registers_per_sm:,} ({configuration.registers} a thread)"
    )
    bounds = bounds_for_more_blocks(occupancy)
    step = ways["registers"].more_blocks
    if step is None:
        return Advice(limiter="registers", finding=finding)
    fix = f"{step.after} registers give {count(step.blocks_after, 'block')}: fewer live values, smaller tiles"
    if bounds is not None:
        fix += f", or __launch_bounds__({bounds.threads}, {bounds.blocks})"
    return Advice(
        limiter="registers",
        finding=finding,
        fix=fix,
        trade_off="values that no longer fit are spilled to local memory; compare the spill bytes afterwards",
    )


def _shared(occupancy: Occupancy, ways: Ways) -> Advice:
    step = ways["shared"].more_blocks
    finding = (
        f"{occupancy.allocated_shared_bytes_per_block:,} B a block (with the driver's reserve) of"
        f" {occupancy.shared_bytes_per_sm:,} B an SM"
    )
    if step is None:
        return Advice(limiter="shared_memory", finding=finding)
    return Advice(
        limiter="shared_memory",
        finding=finding,
        fix=f"{step.before - step.after:,} B less a block give {count(step.blocks_after, 'block')}: smaller tiles,"
        f" fewer stages",
        trade_off="less reuse on chip, more traffic to L2 and memory",
    )


def _blocks(occupancy: Occupancy, ways: Ways) -> Advice:
    full = occupancy.unused_warps == 0
    return Advice(
        limiter="blocks",
        finding=f"all {occupancy.limit_blocks} block slots are in use, with"
        f" {count(occupancy.configuration.warps_per_block, 'warp')} each",
        fix="" if full else "larger blocks: each slot then holds more warps",
        trade_off="" if full else "barriers wait for more warps, and the last wave of blocks is coarser",
    )


def _barriers(occupancy: Occupancy, ways: Ways) -> Advice:
    used = occupancy.configuration.barriers
    step = ways["barriers"].more_blocks
    finding = f"{count(used, 'named barrier')} a block of {occupancy.configuration.device.barriers_per_sm} an SM"
    if step is None or occupancy.limit_barriers == occupancy.limit_blocks:
        return Advice(limiter="barriers", finding=finding)
    return Advice(
        limiter="barriers",
        finding=finding,
        fix=f"{count(step.after, 'barrier gives', 'barriers give')} {count(step.blocks_after, 'block')}:"
        " reuse barrier numbers, and name them by constants",
        trade_off="producers and consumers that shared no barrier may then wait for each other",
    )


def _virtual(occupancy: Occupancy, ways: Ways) -> Advice:
    return Advice(
        limiter="virtual_resources",
        finding=f"{occupancy.configuration.virtual_resources} virtual resources a block of"
        f" {occupancy.configuration.device.virtual_resources_per_sm} an SM",
    )


_ABOUT: dict[Limiter, Callable[[Occupancy, Ways], Advice]] = {
    "warps": _warps,
    "registers": _registers,
    "shared_memory": _shared,
    "blocks": _blocks,
    "barriers": _barriers,
    "virtual_resources": _virtual,
}
