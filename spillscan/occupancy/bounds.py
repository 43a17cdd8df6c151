"""``__launch_bounds__`` both ways: the register cap it makes, and the bounds that would buy one block
more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from spillscan.errors import UsageError
from spillscan.occupancy.devices import WARP_THREADS, Device
from spillscan.occupancy.model import Occupancy
from spillscan.occupancy.rules import resident

PARTITIONS = 4
"""ptxas counts with four partitions on every target, also on 6.0, whose SM has two (probed, 23 targets)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterCap:
    """What ptxas makes of ``__launch_bounds__(threads, blocks)``."""

    threads: int
    """Largest block size promised."""
    blocks: int
    """Least blocks per SM asked for."""
    registers: int
    """Most registers per thread that ptxas then allocates."""
    ignored: str = ""
    """Why ptxas ignores the number of blocks (it warns); ``registers`` is then the cap by ``threads`` alone,
    and a heuristic of ptxas may well choose less. Empty where it honours the number."""


def register_cap(device: Device, threads: int, blocks: int = 1) -> RegisterCap:
    """The register cap that ptxas derives from ``__launch_bounds__(threads, blocks)``.

    ``floor(registers of a partition / (32 * warps of a partition))``, rounded down to 8: (256, 6) gives 40,
    not 42. A block must also fit its own limit (32 K registers on 3.2, 5.3 and 6.2). More threads or blocks
    than the SM holds: ptxas warns and ignores ``blocks``. Probed with ptxas 11.8, 12.9, 13.0 and 13.5 on 23
    targets. With one argument only, ptxas has heuristics besides and may use less. Raises
    :class:`~spillscan.errors.UsageError` for impossible bounds.
    """
    if not 1 <= threads <= device.max_threads_per_block:
        raise UsageError(f"launch bounds: threads must be 1 to {device.max_threads_per_block:,}, not {threads:,}")
    if blocks < 1:
        raise UsageError(f"launch bounds: blocks must be at least 1, not {blocks}")
    ignored = ""
    if blocks * threads > device.max_threads_per_sm:
        ignored = f"{blocks} x {threads:,} threads exceed the {device.max_threads_per_sm:,} of an SM"
    elif blocks > device.max_blocks_per_sm:
        ignored = f"{blocks} blocks exceed the {device.max_blocks_per_sm} of an SM"
    warps = -(-threads // WARP_THREADS)
    resident_warps = min(warps * (1 if ignored else blocks), device.max_warps_per_sm)
    unit = max(device.register_alloc_unit // WARP_THREADS, 1)
    partitions = 1 if device.sub_partitions == 1 else PARTITIONS  # 1 only where an assumption takes them away
    by_sm = device.registers_per_sm // partitions // (WARP_THREADS * -(-resident_warps // partitions))
    by_block = device.registers_per_block // partitions // (WARP_THREADS * -(-warps // partitions))
    cap = min(by_sm, by_block) // unit * unit
    most = device.max_registers_per_thread
    return RegisterCap(threads=threads, blocks=blocks, registers=min(cap, most), ignored=ignored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Launch bounds that would bring more blocks, if registers are what binds."""

    threads: int
    """First argument of ``__launch_bounds__``."""
    blocks: int
    """Second argument."""
    registers: int
    """The cap they make."""
    shed: int
    """Registers per thread that ptxas would have to do without; it spills what it cannot."""


def bounds_for_more_blocks(occupancy: Occupancy) -> Bounds | None:
    """The launch bounds that bring the next block; ``None`` where fewer registers bring none."""
    configuration = occupancy.configuration
    device = configuration.device
    threads = configuration.threads_per_block
    blocks = occupancy.resident_blocks + 1
    if threads > device.max_threads_per_block or blocks > device.max_blocks_per_sm:
        return None
    cap = register_cap(device, threads, blocks)
    if cap.ignored or not 8 <= cap.registers < configuration.registers:
        return None
    reached = resident(replace(configuration, registers=cap.registers)).resident_blocks
    if reached < blocks:
        return None
    most = register_cap(device, threads, reached)  # the same cap may bring several
    return Bounds(
        threads=threads,
        blocks=blocks if most.ignored or most.registers != cap.registers else reached,
        registers=cap.registers,
        shed=configuration.registers - cap.registers,
    )
