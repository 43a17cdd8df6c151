"""The occupancy rules in closed form, equal to NVIDIA's ``cuda_occupancy.h`` 13.5.

``docs/occupancy.md`` lists the known deviations of other releases and tools.

:func:`block_limits` is the one formula: for one configuration of whole numbers (:func:`resident`), and for columns of
them (``table.py``). "The header" is ``cuda_occupancy.h``; what was measured was measured on an H200.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

from spillscan.occupancy.devices import WARP_THREADS, Device
from spillscan.occupancy.model import LIMITERS, CachePreference, Configuration, GlobalCaching, Occupancy
from spillscan.output.errors import UsageError

if TYPE_CHECKING:
    from spillscan.model import Launch

NO_LIMIT = 2**31 - 1
"""What the header (and the formula) gives for a resource that does not limit: ``INT_MAX``."""
NOT_SET = -1
"""No carve-out preference, or not opted in."""
CACHING: tuple[GlobalCaching, ...] = ("off", "on", "strict")
PREFERENCES: tuple[CachePreference, ...] = ("none", "shared", "l1", "equal")


def round_up(value: Any, unit: Any) -> Any:
    """The smallest multiple of ``unit`` that holds ``value``."""
    return (value + unit - 1) // unit * unit


def registers_per_warp(device: Device, registers: int) -> int:
    """Registers that one warp takes: allocated per warp, in units of 256 (8 a thread) on every device."""
    warp: int = round_up(registers * 32, device.register_alloc_unit)
    return warp


def carveout_step(device: Device, wanted_bytes: int) -> int:
    """The smallest carve-out step that holds ``wanted_bytes``."""
    steps = device.carveout_steps_kb
    return 1024 * steps[bisect_left(steps, -(-wanted_bytes // 1024))]


def step_without_preference(device: Device, wanted_bytes: int) -> int:
    """What the SM is set to where the preference does not hold a block: from 7.0 on as little as does, before all."""
    return carveout_step(device, wanted_bytes) if device.version >= (7, 0) else device.shared_bytes_per_sm


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


# ---- the formula --------------------------------------------------------------------------------------------------

Figure: TypeAlias = Any
"""A whole number, or an array of them with one for each row: the formula is the same."""


class Arithmetic(Struct, frozen=True, kw_only=True):
    """The operations that numbers and arrays write in different ways."""

    where: Callable[[Figure, Figure, Figure], Figure]
    """(condition, where it holds, elsewhere); both are worked out."""
    minimum: Callable[[Figure, Figure], Figure]
    """The lesser of two."""
    maximum: Callable[[Figure, Figure], Figure]
    """The greater of two."""
    some: Callable[[Figure], bool]
    """Whether it holds anywhere."""


NUMBERS = Arithmetic(where=lambda holds, yes, no: yes if holds else no, minimum=min, maximum=max, some=bool)


class BlockLimits(NamedTuple):
    """What the formula makes of a configuration: blocks per SM that each resource allows, and what a block takes."""

    warps: Figure
    registers: Figure
    shared_memory: Figure
    blocks: Figure
    barriers: Figure
    virtual_resources: Figure
    allocated_registers: Figure
    allocated_shared_bytes: Figure
    shared_bytes_per_sm: Figure
    caching: Figure


def block_limits(
    have: Any,
    how: Arithmetic,
    *,
    registers: Figure,
    threads: Figure,
    static_bytes: Figure,
    dynamic_bytes: Figure,
    attribute: Figure,
    preferred_bytes: Figure,
    step: Callable[[Figure], Figure],
    barriers: Figure,
    virtual_resources: Figure,
    caching: Figure,
) -> BlockLimits:
    """Every limit in blocks per SM, ``NO_LIMIT`` where a resource does not limit.

    ``have``: a device, or what has its figures as arrays with one for each row.
    ``attribute``: ``MaxDynamicSharedMemorySize``, or :data:`NOT_SET`. ``preferred_bytes``: what the carve-out asks for;
    ``step``: the carve-out that holds so many bytes. ``caching``: the place in :data:`CACHING`.
    """
    where, some = how.where, how.some
    warps = (threads + 31) // 32
    # Registers are allocated per warp: `registers_per_warp`.
    warp = round_up(registers * 32, have.register_alloc_unit)
    wanted = where(have.partitioned_global_caching, caching, 0)
    by_registers, left = _register_limit(have, how, have.sub_partitions, registers, warp, warps, wanted)
    if some(have.held_to_61):
        on_61, _ = _register_limit(have, how, 4, registers, warp, warps, wanted)
        by_registers = where(have.held_to_61 & (on_61 == 0), 0, by_registers)

    # Warp slots; with partitioned caching a block uses only half the SM.
    by_warps = have.max_warps_per_sm // warps
    if some(left):
        by_warps = where(left, have.max_warps_per_sm // 2 // warps * 2, by_warps)
    by_warps = where(threads > have.max_threads_per_block, 0, by_warps)

    # Shared memory: with the driver's reserve, in units of 256 B, from 8.0 of 128 B. Code with more than 48 KB static
    # is opted in by the driver (measured): ptxas refuses to make it of sources, other compilers do not.
    reserve = have.shared_bytes_reserved_per_block
    allocated = round_up(static_bytes + dynamic_bytes + reserve, have.shared_alloc_unit)
    opted_in = attribute >= 0
    large = static_bytes > have.shared_bytes_per_block
    wide = opted_in & (static_bytes + reserve + attribute > have.shared_bytes_per_block)
    limit = where(wide | large, have.shared_limit_per_block_optin, have.shared_limit_per_block)
    refused = (allocated > limit) | (opted_in & (dynamic_bytes > attribute))
    per_sm = preferred_bytes
    dropped = (preferred_bytes < allocated) & (refused == 0)
    if some(dropped):  # the preference rather than the launch
        per_sm = where(dropped, step(how.minimum(allocated, have.shared_bytes_per_sm)), preferred_bytes)
    by_shared = where(allocated > 0, per_sm // how.maximum(allocated, 1), NO_LIMIT)

    return BlockLimits(
        warps=by_warps,
        registers=by_registers,
        shared_memory=where(refused, 0, by_shared),
        blocks=have.max_blocks_per_sm,
        barriers=_share(how, have.limiting_barriers_per_sm, barriers),
        virtual_resources=_share(how, have.limiting_virtual_resources_per_sm, virtual_resources),
        allocated_registers=warp * warps,
        allocated_shared_bytes=allocated,
        shared_bytes_per_sm=per_sm,
        caching=left,
    )


def _register_limit(
    have: Any, how: Arithmetic, partitions: Figure, registers: Figure, warp: Figure, warps: Figure, caching: Figure
) -> tuple[Figure, Figure]:
    """Blocks per SM by registers, and the partitioned caching that stays on.

    A block is checked as if its warps were spread over all partitions at once (the header: "hardware check").
    The SM then holds ``floor(partition's registers / warp's registers)`` warps in each partition.
    """
    spread = warp * round_up(warps, partitions)
    refused = (spread > have.registers_per_block) | (registers > have.checked_registers)
    in_partition = have.registers_per_sm // partitions // how.maximum(warp, 1)
    blocks = in_partition * partitions // warps
    if how.some(caching):  # a block may use only half the SM; where it cannot, caching is dropped unless it is strict
        halves = how.where(caching, in_partition * (partitions // 2) // warps * 2, 0)
        kept = (halves > 0) | (caching == CACHING.index("strict"))
        blocks = how.where(kept, halves, blocks)
        caching = how.where(kept | refused | (warp == 0), caching, 0)
    return how.where(refused, 0, how.where(warp == 0, NO_LIMIT, blocks)), caching


def _share(how: Arithmetic, available: Figure, used: Figure) -> Figure:
    """Blocks that a resource allows, where there is any and the kernel uses some."""
    if not how.some(used):
        return used + NO_LIMIT
    return how.where((available > 0) & (used > 0), available // how.maximum(used, 1), NO_LIMIT)


def resident(configuration: Configuration) -> Occupancy:
    """Resident blocks per SM, every limit, and what is allocated.

    Impossible figures (1,025 threads, 257 registers) give 0 blocks, as in the header; :func:`check` refuses them.
    """
    device = configuration.device
    attribute, carveout = configuration.max_dynamic_shared_bytes, configuration.carveout_percent
    preference = configuration.cache_preference
    plain = carveout is None and preference == "none"
    found = block_limits(
        device,
        NUMBERS,
        registers=configuration.registers,
        threads=configuration.threads_per_block,
        static_bytes=configuration.static_shared_bytes,
        dynamic_bytes=configuration.dynamic_shared_bytes,
        attribute=NOT_SET if attribute is None else attribute,
        preferred_bytes=device.shared_bytes_per_sm if plain else preferred_shared_bytes(device, carveout, preference),
        step=lambda wanted: step_without_preference(device, wanted),
        barriers=configuration.barriers,
        virtual_resources=configuration.virtual_resources,
        caching=CACHING.index(configuration.global_caching),
    )
    blocks = min(found[: len(LIMITERS)])
    return Occupancy(
        configuration=configuration,
        resident_blocks=blocks,
        limit_warps=found.warps,
        limit_registers=_finite(found.registers),
        limit_shared_memory=_finite(found.shared_memory),
        limit_blocks=found.blocks,
        limit_barriers=_finite(found.barriers),
        limit_virtual_resources=_finite(found.virtual_resources),
        allocated_registers_per_block=found.allocated_registers,
        allocated_shared_bytes_per_block=found.allocated_shared_bytes,
        shared_bytes_per_sm=found.shared_bytes_per_sm,
        global_caching=CACHING[found.caching],
        reasons=() if blocks else _reasons(configuration, found),
    )


def _finite(limit: int) -> int | None:
    return None if limit == NO_LIMIT else limit


def _reasons(configuration: Configuration, found: BlockLimits) -> tuple[str, ...]:
    device = configuration.device
    reasons = []
    if found.warps == 0:
        reasons.append(
            f"{configuration.threads_per_block:,} threads: a block has at most {device.max_threads_per_block:,}"
        )
    if found.registers == 0:
        reasons.append(_register_reason(configuration))
    if found.shared_memory == 0:
        reasons.append(_shared_reason(configuration))
    if found.barriers == 0:
        reasons.append(f"{configuration.barriers} barriers a block: an SM has {device.barriers_per_sm}")
    if found.virtual_resources == 0:
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
