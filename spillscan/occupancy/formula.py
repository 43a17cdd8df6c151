"""The occupancy rules in closed form, equal to NVIDIA's ``cuda_occupancy.h`` 13.5 (see ``deviations.py``).

Each function is one rule. "The header" is ``cuda_occupancy.h``; what was measured was measured on an H200.
"""

from __future__ import annotations

from collections.abc import Mapping

from spillscan.errors import UsageError
from spillscan.occupancy.devices import Device
from spillscan.occupancy.model import CachePreference, Configuration, GlobalCaching, Occupancy

NO_LIMIT = 2**31 - 1
"""What the header (and the table path) gives for a resource that does not limit: ``INT_MAX``."""


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of ``unit`` that holds ``value``."""
    return -(-value // unit) * unit


def registers_per_warp(device: Device, registers: int) -> int:
    """Registers that one warp takes: allocated per warp, in units of 256 (8 a thread) on every device."""
    return round_up(registers * 32, device.register_alloc_unit)


def checked_registers(device: Device) -> int:
    """The largest register count a thread may have in the header's check: 255 before 7.0, 256 from then on.

    The instruction set addresses 255 registers (63 on 3.0).
    """
    return 255 if device.version < (7, 0) else 256


def register_limit(configuration: Configuration, partitions: int) -> tuple[int, GlobalCaching]:
    """Blocks per SM by registers, and whether partitioned caching stays on.

    A block is checked as if its warps were spread over all partitions at once (the header: "hardware check").
    The SM then holds ``floor(partition's registers / warp's registers)`` warps in each partition.
    """
    device = configuration.device
    caching: GlobalCaching = configuration.global_caching if device.partitioned_global_caching else "off"
    warp = registers_per_warp(device, configuration.registers)
    warps = configuration.warps_per_block
    if warp * round_up(warps, partitions) > device.registers_per_block:
        return 0, caching
    if configuration.registers > checked_registers(device):
        return 0, caching
    if warp == 0:
        return NO_LIMIT, caching
    in_partition = device.registers_per_sm // partitions // warp
    blocks = 0
    if caching != "off":  # a block may use only half the SM
        blocks = in_partition * (partitions // 2) // warps * 2
    if blocks == 0 and caching != "strict":
        caching = "off"
        blocks = in_partition * partitions // warps
    return blocks, caching


def warp_limit(configuration: Configuration, caching: GlobalCaching) -> int:
    """Blocks per SM by warp slots; with partitioned caching a block uses only half the SM."""
    device = configuration.device
    if configuration.threads_per_block > device.max_threads_per_block:
        return 0
    if caching != "off":
        return device.max_warps_per_sm // 2 // configuration.warps_per_block * 2
    return device.max_warps_per_sm // configuration.warps_per_block


def carveout_step(device: Device, wanted_bytes: int) -> int:
    """The smallest carve-out step that holds ``wanted_bytes``."""
    return next(step for step in device.carveout_steps if wanted_bytes <= step)


def preferred_shared_bytes(device: Device, carveout_percent: int | None, preference: CachePreference) -> int:
    """Shared memory per SM that the preference asks for, bytes.

    From 7.0 on a percentage of the maximum, rounded down and then up to the next step; no preference means
    the maximum. On 3.x the cache preference picks a step. On 5.x and 6.x shared memory has its own array.
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


def shared_limit_per_block(device: Device, opted_in: bool, wanted_bytes: int) -> int:
    """Most shared memory that one block may allocate, bytes, with the driver's reserve.

    48 KB, or the opt-in limit where the kernel opted in and ``wanted_bytes`` (static + reserve + attribute)
    passes 48 KB. The header counts the reserve into that comparison (see ``deviations.py``).
    """
    limit = device.shared_bytes_per_block
    if device.version >= (7, 0) and opted_in and wanted_bytes > limit:
        limit = device.shared_bytes_per_block_optin
    return limit + (device.shared_bytes_reserved_per_block if device.version >= (8, 0) else 0)


def shared_allocation(configuration: Configuration) -> int:
    """Shared memory that one block takes, bytes: with the driver's reserve, in units of 256 B, from 8.0 of
    128 B."""
    device = configuration.device
    used = configuration.user_shared_bytes + device.shared_bytes_reserved_per_block
    return round_up(used, device.shared_alloc_unit)


def shared_limit(configuration: Configuration) -> tuple[int, int]:
    """Blocks per SM by shared memory, and the shared memory that the SM is set to, bytes."""
    device = configuration.device
    allocated = shared_allocation(configuration)
    preferred = preferred_shared_bytes(device, configuration.carveout_percent, configuration.cache_preference)
    attribute = configuration.max_dynamic_shared_bytes
    opted_in = attribute is not None
    wanted = configuration.static_shared_bytes + device.shared_bytes_reserved_per_block + (attribute or 0)
    if allocated > shared_limit_per_block(device, opted_in, wanted):
        return 0, preferred
    if attribute is not None and configuration.dynamic_shared_bytes > attribute:
        return 0, preferred
    if preferred < allocated:  # the preference is dropped rather than the launch
        preferred = carveout_step(device, allocated) if device.version >= (7, 0) else device.shared_bytes_per_sm
    return (preferred // allocated if allocated else NO_LIMIT), preferred


def barrier_limit(configuration: Configuration) -> int:
    """Blocks per SM by named barriers: from 9.0 on, and only where the kernel uses some.

    Confirmed by residency on the H200, where the runtime takes the kernel's own count (ptxas: "used N
    barriers").
    """
    device = configuration.device
    if device.version < (9, 0) or configuration.barriers <= 0 or device.barriers_per_sm is None:
        return NO_LIMIT
    return device.barriers_per_sm // configuration.barriers


def virtual_limit(configuration: Configuration) -> int:
    """Blocks per SM by virtual resources: 10.0 to 12.x; the converters of the header leave them at 0."""
    device = configuration.device
    if device.virtual_resources_per_sm is None or configuration.virtual_resources <= 0:
        return NO_LIMIT
    return device.virtual_resources_per_sm // configuration.virtual_resources


def resident(configuration: Configuration) -> Occupancy:
    """Resident blocks per SM, every limit, and what is allocated.

    Impossible figures (1,025 threads, 257 registers) give 0 blocks, as in the header; :func:`check`
    refuses them.
    """
    device = configuration.device
    registers, caching = register_limit(configuration, device.sub_partitions)
    if device.version == (6, 0) and registers and register_limit(configuration, 4)[0] == 0:
        registers = 0  # what could not run on 6.1 does not run on 6.0 either
    warps = warp_limit(configuration, caching)
    shared, shared_per_sm = shared_limit(configuration)
    barriers = barrier_limit(configuration)
    virtual = virtual_limit(configuration)
    blocks = min(registers, warps, shared, device.max_blocks_per_sm, barriers, virtual)
    return Occupancy(
        configuration=configuration,
        resident_blocks=blocks,
        limit_warps=warps,
        limit_registers=_finite(registers),
        limit_shared_memory=_finite(shared),
        limit_blocks=device.max_blocks_per_sm,
        limit_barriers=_finite(barriers),
        limit_virtual_resources=_finite(virtual),
        allocated_registers_per_block=registers_per_warp(device, configuration.registers)
        * configuration.warps_per_block,
        allocated_shared_bytes_per_block=shared_allocation(configuration),
        shared_bytes_per_sm=shared_per_sm,
        global_caching=caching,
        reasons=()
        if blocks
        else _reasons(
            configuration,
            {
                "warps": warps,
                "registers": registers,
                "shared": shared,
                "barriers": barriers,
                "virtual": virtual,
            },
        ),
    )


def _finite(limit: int) -> int | None:
    return None if limit == NO_LIMIT else limit


def _reasons(configuration: Configuration, limits: Mapping[str, int]) -> tuple[str, ...]:
    device = configuration.device
    found = []
    if limits["warps"] == 0:
        found.append(
            f"{configuration.threads_per_block:,} threads: a block has at most {device.max_threads_per_block:,}"
        )
    if limits["registers"] == 0:
        found.append(_register_reason(configuration))
    if limits["shared"] == 0:
        found.append(_shared_reason(configuration))
    if limits["barriers"] == 0:
        found.append(f"{configuration.barriers} barriers a block: an SM has {device.barriers_per_sm}")
    if limits["virtual"] == 0:
        found.append(
            f"{configuration.virtual_resources} virtual resources: an SM has {device.virtual_resources_per_sm}"
        )
    return tuple(found)


def _register_reason(configuration: Configuration) -> str:
    device = configuration.device
    if configuration.registers > checked_registers(device):
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
    if configuration.static_shared_bytes > device.shared_bytes_per_block:
        return f"{user:,} B shared memory: without opt-in a block has at most {device.shared_bytes_per_block:,} B"
    return (
        f"{user:,} B shared memory: a block has at most {device.shared_bytes_per_block:,} B unless the"
        f" kernel opts in"
        f" (MaxDynamicSharedMemorySize, up to {most - configuration.static_shared_bytes:,} B here)"
    )


# ---- what a launch cannot be at all ----------------------------------------------------------------------------------


def check(configuration: Configuration) -> Configuration:
    """The configuration itself, if its figures are possible; :class:`UsageError` names the first that is
    not.
    """
    device = configuration.device
    target = device.target
    _range("threads per block", configuration.threads_per_block, 1, device.max_threads_per_block, "a block")
    # 256 is what the header still accepts from 7.0 on; before 7.0 it answers 0 blocks.
    most = max(256, checked_registers(device))
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


def _range(what: str, value: int, least: int, most: int | None, unit: str) -> None:
    if value < least or (most is not None and value > most):
        bounds = f"at least {least:,}" if most is None else f"{least:,} to {most:,}"
        raise UsageError(f"{what} must be {bounds} ({unit}), not {value:,}")
