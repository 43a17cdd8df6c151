"""The occupancy rules in closed form, equal to NVIDIA's ``cuda_occupancy.h`` 13.5.

``docs/occupancy.md`` lists the known deviations of other releases and tools. "The header" is ``cuda_occupancy.h``; what
was measured was measured on an H200.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING

from spillscan.occupancy.devices import Device
from spillscan.occupancy.model import Configuration, Limiter, Occupancy
from spillscan.output.errors import UsageError

if TYPE_CHECKING:
    from spillscan.model import Launch


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of ``unit`` that holds ``value``."""
    return (value + unit - 1) // unit * unit


def registers_per_warp(device: Device, registers: int) -> int:
    """Registers that one warp takes: allocated per warp, in units of 256 (8 a thread) on every device."""
    return round_up(registers * 32, device.register_alloc_unit)


def carveout_step(device: Device, wanted_bytes: int) -> int:
    """The smallest carve-out step that holds ``wanted_bytes``."""
    steps = device.carveout_steps_kb
    return 1024 * steps[bisect_left(steps, -(-wanted_bytes // 1024))]


def step_without_preference(device: Device, wanted_bytes: int) -> int:
    """What the SM is set to where the preference does not hold a block: from 7.0 on as little as does, before all."""
    return carveout_step(device, wanted_bytes) if device.version >= (7, 0) else device.shared_bytes_per_sm


def preferred_shared_bytes(device: Device, carveout_percent: int | None) -> int:
    """Shared memory per SM that the preference asks for, bytes.

    From 7.0 on a percentage of the maximum, rounded down and then up to the next step; no preference means the maximum.
    Before 7.0 there is no such choice.
    """
    most = device.shared_bytes_per_sm
    if carveout_percent is None or device.version < (7, 0):
        return most
    return carveout_step(device, carveout_percent * most // 100)


# ---- the formula --------------------------------------------------------------------------------------------------


def resident(configuration: Configuration) -> Occupancy:
    """Resident blocks per SM, every limit, and what is allocated.

    Impossible figures (1,025 threads, 257 registers) give 0 blocks, as in the header; :func:`check` refuses them.
    """
    device, registers = configuration.device, configuration.registers
    warps, threads = configuration.warps_per_block, configuration.threads_per_block
    allocated, per_sm, by_shared = _shared_limit(configuration)
    by_registers = _register_limit(device, device.sub_partitions, registers, warps)
    if device.held_to_61 and _register_limit(device, 4, registers, warps) == 0:
        by_registers = 0
    limits: dict[Limiter, int | None] = {
        "warps": device.max_warps_per_sm // warps if threads <= device.max_threads_per_block else 0,
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
        limits=limits,
        allocated_registers_per_block=registers_per_warp(device, registers) * warps,
        allocated_shared_bytes_per_block=allocated,
        shared_bytes_per_sm=per_sm,
        reasons=() if blocks else _reasons(configuration, limits),
    )


def _register_limit(device: Device, partitions: int, registers: int, warps: int) -> int | None:
    """Blocks per SM by registers; ``None`` where none are used.

    A block is checked as if its warps were spread over all partitions at once (the header: "hardware check").
    The SM then holds ``floor(partition's registers / warp's registers)`` warps in each partition.
    """
    warp = registers_per_warp(device, registers)
    if warp * round_up(warps, partitions) > device.registers_per_block or registers > device.checked_registers:
        return 0
    return device.registers_per_sm // partitions // warp * partitions // warps if warp else None


def _shared_limit(configuration: Configuration) -> tuple[int, int, int | None]:
    """(bytes that a block takes, bytes that the SM is set to, blocks per SM by shared memory).

    With the driver's reserve, in units of 256 B, from 8.0 of 128 B. Code with more than 48 KB static is opted in by the
    driver (measured): ptxas refuses to make it of sources, other compilers do not.
    """
    device, static = configuration.device, configuration.static_shared_bytes
    attribute, reserve = configuration.max_dynamic_shared_bytes, device.shared_bytes_reserved_per_block
    allocated = round_up(configuration.user_shared_bytes + reserve, device.shared_alloc_unit)
    large = static > device.shared_bytes_per_block
    wide = attribute is not None and static + reserve + attribute > device.shared_bytes_per_block
    limit = device.shared_limit_per_block_optin if wide or large else device.shared_limit_per_block
    per_sm = preferred_shared_bytes(device, configuration.carveout_percent)
    if allocated > limit or (attribute is not None and configuration.dynamic_shared_bytes > attribute):
        return allocated, per_sm, 0
    if per_sm < allocated:  # the preference rather than the launch is dropped
        per_sm = step_without_preference(device, min(allocated, device.shared_bytes_per_sm))
    return allocated, per_sm, per_sm // allocated if allocated else None


def _share(available: int, used: int) -> int | None:
    """Blocks that a resource allows, where there is any and the kernel uses some."""
    return available // used if available and used else None


def _reasons(configuration: Configuration, limits: Mapping[Limiter, int | None]) -> tuple[str, ...]:
    device = configuration.device
    reasons = []
    if limits["warps"] == 0:
        reasons.append(
            f"{configuration.threads_per_block:,} threads: a block has at most {device.max_threads_per_block:,}"
        )
    if limits["registers"] == 0:
        reasons.append(_register_reason(configuration))
    if limits["shared_memory"] == 0:
        reasons.append(_shared_reason(configuration))
    if limits["barriers"] == 0:
        reasons.append(f"{configuration.barriers} barriers a block: an SM has {device.barriers_per_sm}")
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
        return f"{need:,} registers: a block has at most {device.registers_per_block:,}"
    fit = device.registers_per_sm // partitions // warp * partitions
    return (
        f"{configuration.warps_per_block} warps of {warp:,} registers: the {partitions} partitions hold {fit} of them"
        if fit < configuration.warps_per_block
        else f"{need:,} registers: not spread over {partitions} partitions within"
        f" {device.registers_per_block:,} a block"
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


# ---- what a launch cannot be at all ----------------------------------------------------------------------------------


def check(configuration: Configuration) -> Configuration:
    """The configuration itself, if its figures are possible; :class:`UsageError` names the first that is not."""
    device = configuration.device
    target = device.target
    _range("threads per block", configuration.threads_per_block, 1, device.max_threads_per_block, "a block")
    # 256 is what the header still accepts from 7.0 on; before 7.0 it answers 0 blocks.
    most = max(256, device.checked_registers)
    if not 0 <= configuration.registers <= most:
        raise UsageError(
            f"registers must be 0 to {device.max_registers_per_thread} on {target}, not {configuration.registers:,}"
        )
    _range("static shared memory", configuration.static_shared_bytes, 0, None, "bytes")
    _range("dynamic shared memory", configuration.dynamic_shared_bytes, 0, None, "bytes")
    if configuration.max_dynamic_shared_bytes is not None:
        _range("MaxDynamicSharedMemorySize", configuration.max_dynamic_shared_bytes, 0, None, "bytes")
    if configuration.carveout_percent is not None:
        _range("carve-out", configuration.carveout_percent, 0, 100, "percent")
    _range("barriers per block", configuration.barriers, 0, device.barriers_per_block, "named barriers")
    _range("virtual resources", configuration.virtual_resources, 0, None, "per block")
    return configuration


def launched(
    device: Device, launch: Launch, *, registers: int, static_shared_bytes: int, barriers: int = 1
) -> Configuration:
    """A kernel as it is launched, checked; dynamic shared memory that is not known counts as none."""
    return check(
        Configuration(
            device=device,
            registers=registers,
            threads_per_block=launch.threads_per_block,
            static_shared_bytes=static_shared_bytes,
            dynamic_shared_bytes=launch.dynamic_shared_bytes or 0,
            max_dynamic_shared_bytes=launch.max_dynamic_shared_bytes,
            carveout_percent=launch.carveout_percent,
            barriers=barriers,
        )
    )


def _range(what: str, value: int, least: int, most: int | None, unit: str) -> None:
    if value < least or (most is not None and value > most):
        bounds = f"at least {least:,}" if most is None else f"{least:,} to {most:,}"
        raise UsageError(f"{what} must be {bounds} ({unit}), not {value:,}")
