"""The occupancy rules in closed form, as in NVIDIA's ``cuda_occupancy.h`` 13.5.

``docs/occupancy.md`` lists deviations from it and from other releases and tools. "The header" is ``cuda_occupancy.h``;
measurements were made on an H200.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spillscan.occupancy.devices import WARP_THREADS, Device
from spillscan.occupancy.model import CachePreference, Configuration, GlobalCaching, Limiter, Occupancy
from spillscan.output.errors import UsageError

if TYPE_CHECKING:
    from spillscan.model import Launch


def round_up(value: int, unit: int) -> int:
    """Smallest multiple of ``unit`` that is at least ``value``."""
    return (value + unit - 1) // unit * unit


def registers_per_warp(device: Device, registers: int) -> int:
    """Registers allocated per warp, in units of 256 (8 per thread) on every device."""
    return round_up(registers * WARP_THREADS, device.register_alloc_unit)


def carveout_step(device: Device, wanted_bytes: int) -> int:
    """Smallest carve-out size of at least ``wanted_bytes``."""
    steps = device.carveout_steps_kb
    return 1024 * steps[bisect_left(steps, -(-wanted_bytes // 1024))]


def step_without_preference(device: Device, wanted_bytes: int) -> int:
    """Shared memory of the SM if the preference is too small for a block: from 7.0 on the smallest that fits, before
    all."""
    return carveout_step(device, wanted_bytes) if device.version >= (7, 0) else device.shared_bytes_per_sm


def preferred_shared_bytes(device: Device, carveout_percent: int | None, preference: CachePreference) -> int:
    """Shared memory per SM that the preference asks for, bytes.

    From 7.0 on a percentage of the maximum, rounded down and then up to the next carve-out size; no preference means
    the maximum. On 3.x the cache preference selects a size. On 5.x and 6.x shared memory has its own array.
    """
    most = device.shared_bytes_per_sm
    major = device.version[0]
    if major >= 7:
        if carveout_percent is None:
            carveout_percent = {"none": None, "shared": 100, "l1": 0, "equal": 50}[preference]
        return most if carveout_percent is None else carveout_step(device, carveout_percent * most // 100)
    if major == 3:
        least = most - 32 * 1024
        return {"none": most, "shared": most, "l1": least, "equal": (most + least) // 2}[preference]
    return most


DEEPEST_BLOCK = 64
"""Largest z dimension of a block on every device (CUDA C++ Programming Guide); x and y may have all threads."""


# ---- the formula --------------------------------------------------------------------------------------------------


def resident(configuration: Configuration) -> Occupancy:
    """Resident blocks per SM, every limit, and allocated resources.

    Impossible values (1,025 threads, 257 registers) give 0 blocks, as in the header; :func:`check` rejects them.
    """
    device, warps = configuration.device, configuration.warps_per_block
    by_registers, caching = _register_limit(configuration)
    by_warps = device.max_warps_per_sm // warps
    if caching != "off":  # partitioned caching: a block uses only half the SM
        by_warps = device.max_warps_per_sm // 2 // warps * 2
    if configuration.threads_per_block > device.max_threads_per_block or configuration.depth > DEEPEST_BLOCK:
        by_warps = 0
    by_shared, allocated, per_sm = _shared_limit(configuration)
    limits: dict[Limiter, int | None] = {
        "warps": by_warps,
        "registers": by_registers,
        "shared_memory": by_shared,
        "blocks": device.max_blocks_per_sm,
        "barriers": _share(device.limiting_barriers_per_sm, configuration.barriers),
        "virtual_resources": _share(device.limiting_virtual_resources_per_sm, configuration.virtual_resources),
    }
    blocks = min(limit for limit in limits.values() if limit is not None)
    return Occupancy(
        configuration=configuration,
        resident_blocks=blocks,
        limit_warps=by_warps,
        limit_registers=by_registers,
        limit_shared_memory=by_shared,
        limit_blocks=device.max_blocks_per_sm,
        limit_barriers=limits["barriers"],
        limit_virtual_resources=limits["virtual_resources"],
        allocated_registers_per_block=registers_per_warp(device, configuration.registers) * warps,
        allocated_shared_bytes_per_block=allocated,
        shared_bytes_per_sm=per_sm,
        global_caching=caching,
        reasons=() if blocks else _reasons(configuration, limits),
    )


def _register_limit(configuration: Configuration) -> tuple[int | None, GlobalCaching]:
    """Blocks per SM by registers, and the partitioned caching in effect."""
    device = configuration.device
    caching = configuration.global_caching if device.partitioned_global_caching else "off"
    limit, caching = _in_partitions(configuration, device.sub_partitions, caching)
    if device.fits_as_6_1 and _in_partitions(configuration, 4, caching)[0] == 0:
        return 0, caching
    return limit, caching


def _in_partitions(
    configuration: Configuration, partitions: int, caching: GlobalCaching
) -> tuple[int | None, GlobalCaching]:
    """Register limit of an SM with ``partitions`` partitions.

    A block is checked as if its warps were spread over all partitions at once (the header: "hardware check"). Each
    partition of the SM then has room for ``floor(partition's registers / warp's registers)`` warps.
    """
    device, warps = configuration.device, configuration.warps_per_block
    warp = registers_per_warp(device, configuration.registers)
    refused = warp * round_up(warps, partitions) > device.registers_per_block
    refused |= configuration.registers > device.checked_registers
    in_partition = device.registers_per_sm // partitions // max(warp, 1)
    blocks = in_partition * partitions // warps
    if caching != "off":  # a block may use only half the SM; if it cannot, caching is dropped unless it is strict
        halves = in_partition * (partitions // 2) // warps * 2
        if halves or caching == "strict":
            blocks = halves
        elif not refused and warp:
            caching = "off"
    if refused:
        return 0, caching
    return (blocks if warp else None), caching


def _shared_limit(configuration: Configuration) -> tuple[int | None, int, int]:
    """Blocks per SM by shared memory; bytes allocated per block; bytes configured for the SM.

    A block's allocation includes the driver's reserve, in units of 256 B, from 8.0 on of 128 B. The driver opts in code
    with more than 48 KB static shared memory (measured): ptxas refuses to compile it from sources, other compilers do
    not.
    """
    device, attribute = configuration.device, configuration.max_dynamic_shared_bytes
    static, reserve = configuration.static_shared_bytes, device.shared_bytes_reserved_per_block
    allocated = round_up(configuration.user_shared_bytes + reserve, device.shared_alloc_unit)
    opted_in = attribute is not None and static + reserve + attribute > device.shared_bytes_per_block
    large = static > device.shared_bytes_per_block
    limit = device.shared_limit_per_block_optin if opted_in or large else device.shared_limit_per_block
    refused = allocated > limit or (attribute is not None and configuration.dynamic_shared_bytes > attribute)
    per_sm = preferred_shared_bytes(device, configuration.carveout_percent, configuration.cache_preference)
    if per_sm < allocated and not refused:  # the preference is dropped, not the launch
        per_sm = step_without_preference(device, min(allocated, device.shared_bytes_per_sm))
    if refused:
        return 0, allocated, per_sm
    return (per_sm // allocated if allocated else None), allocated, per_sm


def _share(available: int, used: int) -> int | None:
    """Blocks that a resource allows; ``None`` if the device has none of it, or the kernel uses none."""
    return available // used if available and used else None


def _reasons(configuration: Configuration, limits: Mapping[Limiter, int | None]) -> tuple[str, ...]:
    device = configuration.device
    reasons = []
    if configuration.depth > DEEPEST_BLOCK:
        reasons.append(f"{configuration.depth:,} threads in z: a block has at most {DEEPEST_BLOCK}")
    elif limits["warps"] == 0:
        reasons.append(
            f"{configuration.threads_per_block:,} threads: a block has at most {device.max_threads_per_block:,}"
        )
    if limits["registers"] == 0:
        reasons.append(_register_reason(configuration))
    if limits["shared_memory"] == 0:
        reasons.append(_shared_reason(configuration))
    if limits["barriers"] == 0:
        reasons.append(f"{configuration.barriers} barriers per block: an SM has {device.barriers_per_sm}")
    if limits["virtual_resources"] == 0:
        reasons.append(
            f"{configuration.virtual_resources} virtual resources: an SM has {device.virtual_resources_per_sm}"
        )
    return tuple(reasons)


def _register_reason(configuration: Configuration) -> str:
    device = configuration.device
    if configuration.registers > device.checked_registers:
        return f"{configuration.registers} registers: a thread has at most {device.max_registers_per_thread}"
    warp = registers_per_warp(device, configuration.registers)
    partitions = 4 if device.version == (6, 0) else device.sub_partitions
    need = warp * configuration.warps_per_block
    if need > device.registers_per_block:
        taken = "" if warp == WARP_THREADS * configuration.registers else f" ({warp // WARP_THREADS} allocated)"
        threads = WARP_THREADS * configuration.warps_per_block
        whole = "" if threads == configuration.threads_per_block else f" ({configuration.warps_per_block} whole warps)"
        product = f"{configuration.registers} registers{taken} × {threads:,} threads{whole}"
        return f"{product} = {need:,} > {device.registers_per_block:,}"
    fit = device.registers_per_sm // partitions // warp * partitions
    return (
        f"{configuration.warps_per_block} warps of {warp:,} registers: only {fit} fit in {partitions} SM partitions"
        if fit < configuration.warps_per_block
        else f"{need:,} registers do not fit in the partitions available to a block"
    )


def _shared_reason(configuration: Configuration) -> str:
    device = configuration.device
    attribute = configuration.max_dynamic_shared_bytes
    dynamic = configuration.dynamic_shared_bytes
    if attribute is not None and dynamic > attribute:
        return f"{dynamic:,} B dynamic shared memory: the kernel's attribute allows {attribute:,} B"
    user = configuration.user_shared_bytes
    most = device.shared_bytes_per_block_optin
    if user > most:
        return f"{user:,} B shared memory: a block has at most {most:,} B"
    return (
        f"{user:,} B shared memory: a block has at most {device.shared_bytes_per_block:,} B unless the"
        f" kernel opts in"
        f" (MaxDynamicSharedMemorySize, up to {most - configuration.static_shared_bytes:,} B here)"
    )


# ---- validation of configurations -----------------------------------------------------------------------------------


def check(configuration: Configuration) -> Configuration:
    """``configuration``, if its values are possible. Raises :class:`UsageError` that names the first that is not."""
    _range("threads per block", configuration.threads_per_block, 1, configuration.device.max_threads_per_block)
    return _check_resources(configuration)


def _check_resources(configuration: Configuration) -> Configuration:
    device = configuration.device
    # The header still accepts 256 from 7.0 on; before 7.0 it returns 0 blocks.
    _range("registers", configuration.registers, 0, max(256, device.checked_registers))
    _range("static shared memory", configuration.static_shared_bytes, 0, None, " bytes")
    _range("dynamic shared memory", configuration.dynamic_shared_bytes, 0, None, " bytes")
    _range("MaxDynamicSharedMemorySize", configuration.max_dynamic_shared_bytes or 0, 0, None, " bytes")
    _range("carve-out", configuration.carveout_percent or 0, 0, 100, " percent")
    _range("barriers per block", configuration.barriers, 0, device.barriers_per_block)
    _range("virtual resources per block", configuration.virtual_resources, 0, None)
    return configuration


def launched(
    device: Device, launch: Launch, *, registers: int, static_shared_bytes: int, barriers: int = 1
) -> Configuration:
    """Configuration of a kernel's launch, validated. Unknown dynamic shared memory counts as none.

    A block beyond the device's largest, as ``.reqntid`` may require, is accepted and cannot launch.
    """
    return _check_resources(
        Configuration(
            device=device,
            registers=registers,
            threads_per_block=launch.threads_per_block,
            depth=launch.depth,
            static_shared_bytes=static_shared_bytes,
            dynamic_shared_bytes=launch.dynamic_shared_bytes or 0,
            max_dynamic_shared_bytes=launch.max_dynamic_shared_bytes,
            carveout_percent=launch.carveout_percent,
            barriers=barriers,
        )
    )


def _range(what: str, value: int, least: int, most: int | None, unit: str = "") -> None:
    if value < least or (most is not None and value > most):
        bounds = f"at least {least:,}" if most is None else f"{least:,} to {most:,}"
        raise UsageError(f"{what} must be {bounds}{unit}, not {value:,}")
