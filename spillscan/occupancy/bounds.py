"""Launch bounds: the register limit that ptxas derives from them, and bounds for more blocks or more registers."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from spillscan.occupancy.devices import WARP_THREADS, Device
from spillscan.occupancy.formula import resident
from spillscan.occupancy.model import Configuration, Occupancy
from spillscan.output.errors import UsageError

REGISTER_STEP = 8
"""Allocation granularity of registers per thread."""
PARTITIONS = 4
"""ptxas assumes four partitions on every target, also on 6.0, whose SM has two (probed, 23 targets)."""


def least_limit(device: Device) -> int:
    """Smallest register limit that ptxas obeys in ``-maxrregcount`` and ``__maxnreg__``.

    It raises smaller ones ("adjusting … to lower bound of 24"). Probed with ptxas 12.9 and 13.0 on sm_50 to sm_120.
    """
    return 24 if device.version >= (7, 0) else 16


class RegisterLimit(Struct, frozen=True, kw_only=True):
    """Register limit that ptxas derives from ``__launch_bounds__(threads, blocks)``."""

    threads: int
    """Largest block size promised."""
    blocks: int
    """Minimum blocks per SM requested."""
    registers: int
    """Resulting register limit per thread."""
    ignored: str = ""
    """Why ptxas ignores the number of blocks, with a warning; empty if it does not.

    ``registers`` is then the limit by ``threads`` alone, and a heuristic of ptxas may choose fewer.
    """


def register_limit(device: Device, threads: int, blocks: int = 1) -> RegisterLimit:
    """Register limit that ptxas derives from ``__launch_bounds__(threads, blocks)``.

    ``floor(registers of a partition / (32 * warps of a partition))``, rounded down to 8: (256, 6) gives 40, not 42. A
    block must also fit its own limit (32 K registers on 3.2, 5.3 and 6.2). If the bounds exceed the SM's threads or
    blocks, ptxas warns and ignores ``blocks``. Probed with ptxas 11.8, 12.9, 13.0 and 13.5 on 23 targets. With one
    argument only, ptxas also has heuristics and may use fewer. Raises :class:`~spillscan.UsageError` for impossible
    bounds.
    """
    if not 1 <= threads <= device.max_threads_per_block:
        raise UsageError(f"launch bounds: threads must be 1 to {device.max_threads_per_block:,}, not {threads:,}")
    if blocks < 1:
        raise UsageError(f"launch bounds: blocks must be at least 1, not {blocks}")
    ignored = ""
    if blocks * threads > device.max_threads_per_sm:
        ignored = f"{blocks} x {threads:,} threads exceed the SM's limit of {device.max_threads_per_sm:,}"
    elif blocks > device.max_blocks_per_sm:
        ignored = f"{blocks} blocks exceed the SM's limit of {device.max_blocks_per_sm}"
    warps = -(-threads // WARP_THREADS)
    resident_warps = min(warps * (1 if ignored else blocks), device.max_warps_per_sm)
    unit = max(device.register_alloc_unit // WARP_THREADS, 1)
    partitions = 1 if device.sub_partitions == 1 else PARTITIONS  # 1 only if an assumption removes partitions
    by_sm = device.registers_per_sm // partitions // (WARP_THREADS * -(-resident_warps // partitions))
    by_block = device.registers_per_block // partitions // (WARP_THREADS * -(-warps // partitions))
    limit = min(by_sm, by_block) // unit * unit
    most = device.max_registers_per_thread
    return RegisterLimit(threads=threads, blocks=blocks, registers=min(limit, most), ignored=ignored)


class Bounds(Struct, frozen=True, kw_only=True):
    """Launch bounds that would add resident blocks, if registers are the limiter."""

    threads: int
    """First argument of ``__launch_bounds__``."""
    blocks: int
    """Second argument."""
    registers: int
    """Register limit that results."""
    shed: int
    """Registers per thread to save; ptxas spills those that it cannot save."""


def bounds_for_more_blocks(occupancy: Occupancy) -> Bounds | None:
    """Launch bounds for one more resident block; ``None`` if fewer registers do not add one."""
    configuration = occupancy.configuration
    device = configuration.device
    threads = configuration.threads_per_block
    blocks = occupancy.resident_blocks + 1
    if threads > device.max_threads_per_block or blocks > device.max_blocks_per_sm:
        return None
    limit = register_limit(device, threads, blocks)
    if limit.ignored or not 8 <= limit.registers < configuration.registers:
        return None
    reached = resident(replace(configuration, registers=limit.registers)).resident_blocks
    if reached < blocks:
        return None
    most = register_limit(device, threads, reached)  # the same limit may add several blocks
    return Bounds(
        threads=threads,
        blocks=blocks if most.ignored or most.registers != limit.registers else reached,
        registers=limit.registers,
        shed=configuration.registers - limit.registers,
    )


def bounds_for_more_registers(configuration: Configuration) -> tuple[RegisterLimit, ...]:
    """Launch bounds that allow more registers than the kernel uses, lowest limit first, each with the most blocks."""
    device, threads = configuration.device, configuration.threads_per_block
    most = min(device.max_threads_per_sm // threads, device.max_blocks_per_sm)
    if not 0 < threads <= device.max_threads_per_block:
        return ()
    limits: dict[int, RegisterLimit] = {}
    for blocks in range(most, 0, -1):
        limit = register_limit(device, threads, blocks)
        if limit.registers > configuration.registers:
            limits.setdefault(limit.registers, limit)
    return tuple(limits.values())


def largest_block(device: Device, registers: int) -> int:
    """Most threads per block, in whole warps, at ``registers`` per thread; 0 if none fits."""
    sizes = range(device.max_threads_per_block, 0, -WARP_THREADS)
    return next((size for size in sizes if register_limit(device, size).registers >= registers), 0)
