"""Limiters of occupancy in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from spillscan.occupancy.model import LIMITERS, Limiter, Occupancy
from spillscan.output.nouns import count

LOW_FRACTION = 0.25
"""Below about this, low occupancy may matter unless latency is hidden in other ways."""

LABELS: Mapping[str, str] = {
    "warps": "warp slots",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "block slots",
    "barriers": "barriers",
    "virtual_resources": "virtual resources",
}


def limited_by(limiters: Iterable[str]) -> str:
    """Limiters in words, such as ``warp slots, registers``; other words (``cannot launch``) are unchanged."""
    return ", ".join(LABELS.get(name, name) for name in limiters)


def findings(occupancy: Occupancy) -> tuple[tuple[Limiter, str], ...]:
    """(limiter, its values) of each limiter, in the order of ``LIMITERS``."""
    return tuple((name, _ABOUT[name](occupancy)) for name in LIMITERS if name in occupancy.limiters)


def verdict(occupancy: Occupancy) -> str:
    """One sentence that rates the occupancy."""
    if not occupancy.can_launch:
        return "This launch fails."
    if occupancy.fraction >= 1:
        return "Every warp slot is in use: occupancy cannot increase."
    if occupancy.fraction < LOW_FRACTION:
        return (
            "Below about 25%: worth a look if the kernel waits on memory or other long latencies. A spill-free GEMM at"
            " low occupancy may be at its best."
        )
    return "Higher occupancy helps only if the resident warps do not already hide latency."


def _warps(occupancy: Occupancy) -> str:
    warps = occupancy.configuration.warps_per_block
    if occupancy.resident_blocks == 0:
        return occupancy.reasons[0]
    if occupancy.unused_warps == 0:
        return f"all {occupancy.max_warps} warp slots are in use"
    return f"blocks of {count(warps, 'warp')} leave {occupancy.unused_warps} of {occupancy.max_warps} slots empty"


def _registers(occupancy: Occupancy) -> str:
    configuration = occupancy.configuration
    return (
        f"{occupancy.allocated_registers_per_block:,} per block ({configuration.registers} per thread) of"
        f" {configuration.device.registers_per_sm:,} per SM"
    )


def _shared(occupancy: Occupancy) -> str:
    return (
        f"{occupancy.allocated_shared_bytes_per_block:,} B per block (including the driver's) of"
        f" {occupancy.shared_bytes_per_sm:,} B per SM"
    )


def _blocks(occupancy: Occupancy) -> str:
    warps = count(occupancy.configuration.warps_per_block, "warp")
    return f"all {occupancy.limit_blocks} block slots are in use, with {warps} each"


def _barriers(occupancy: Occupancy) -> str:
    configuration = occupancy.configuration
    used = count(configuration.barriers, "named barrier")
    return f"{used} per block of {configuration.device.barriers_per_sm} per SM"


def _virtual(occupancy: Occupancy) -> str:
    configuration = occupancy.configuration
    return (
        f"{configuration.virtual_resources} virtual resources per block of"
        f" {configuration.device.virtual_resources_per_sm} per SM"
    )


_ABOUT: dict[Limiter, Callable[[Occupancy], str]] = {
    "warps": _warps,
    "registers": _registers,
    "shared_memory": _shared,
    "blocks": _blocks,
    "barriers": _barriers,
    "virtual_resources": _virtual,
}
