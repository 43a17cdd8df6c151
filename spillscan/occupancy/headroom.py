"""Headroom: distance to the next change in blocks in each direction, needs of one more block, best block sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from spillscan.occupancy.devices import WARP_THREADS
from spillscan.occupancy.formula import carveout_step, preferred_shared_bytes, resident
from spillscan.occupancy.model import Configuration, Limiter, Occupancy

Resource = Literal["registers", "shared", "barriers"]
RESOURCES: tuple[Resource, ...] = ("registers", "shared", "barriers")
Varied = Literal["threads", "registers", "shared", "barriers"]
_FIELD: dict[Varied, str] = {
    "threads": "threads_per_block",
    "registers": "registers",
    "shared": "user_shared_bytes",
    "barriers": "barriers",
}
"""Field of :class:`Configuration` per varied resource."""


class BlockStep(Struct, frozen=True, kw_only=True):
    """A change of one resource that changes the resident blocks."""

    resource: Resource
    """``registers`` per thread, ``shared`` bytes per block (static + dynamic), ``barriers`` per block."""
    before: int
    """Current value."""
    after: int
    """Nearest value with another number of blocks."""
    blocks_before: int
    """Resident blocks now."""
    blocks_after: int
    """Resident blocks after the change; 0: cannot launch."""


class Headroom(Struct, frozen=True, kw_only=True):
    """Headroom of one resource in both directions, with all others unchanged."""

    resource: Resource
    """The resource that changes."""
    more_blocks: BlockStep | None
    """Smallest reduction that adds a block; ``None`` if reducing it alone adds none."""
    free: int
    """Additional amount at no cost in blocks; 0 if the kernel cannot launch."""
    fewer_blocks: BlockStep | None
    """Smallest increase that costs a block; ``None`` if no value that the device allows does."""


def headroom(occupancy: Occupancy) -> tuple[Headroom, ...]:
    """Headroom by registers, shared memory and barriers. More of any of them never adds resident blocks."""
    configuration = occupancy.configuration
    device = configuration.device
    top_shared = device.shared_bytes_per_block_optin + 1
    most = {"registers": device.max_registers_per_thread, "shared": top_shared}
    if device.version >= (9, 0):
        most["barriers"] = device.barriers_per_block
    return tuple(_along(resource, occupancy, most[resource]) for resource in RESOURCES if resource in most)


def changed(configuration: Configuration, varied: Varied, amount: int) -> Configuration:
    """``configuration`` with another value; shared memory is static + dynamic, bytes."""
    return (
        with_shared(configuration, amount) if varied == "shared" else replace(configuration, **{_FIELD[varied]: amount})
    )


def current(configuration: Configuration, varied: Varied) -> int:
    """Current value of the varied resource; shared memory is static + dynamic, bytes."""
    amount: int = getattr(configuration, _FIELD[varied])
    return amount


def with_shared(configuration: Configuration, user_bytes: int) -> Configuration:
    """``configuration`` with another amount of static + dynamic shared memory; an opted-in kernel stays opted in.

    Changes dynamic shared memory if there is any, else static.
    """
    static = configuration.static_shared_bytes
    if configuration.dynamic_shared_bytes == 0 or user_bytes < static:
        device = configuration.device
        large = static > device.shared_bytes_per_block
        static = min(user_bytes, device.shared_bytes_per_block_optin if large else device.shared_bytes_per_block)
    attribute = configuration.max_dynamic_shared_bytes
    if attribute is not None and user_bytes - static > configuration.dynamic_shared_bytes:
        attribute = max(attribute, configuration.device.shared_bytes_per_block_optin - static)
    return replace(
        configuration,
        static_shared_bytes=static,
        dynamic_shared_bytes=user_bytes - static,
        max_dynamic_shared_bytes=attribute,
    )


def _along(resource: Resource, occupancy: Occupancy, most: int) -> Headroom:
    now = current(occupancy.configuration, resource)
    blocks = occupancy.resident_blocks

    def blocks_at(amount: int) -> int:
        return resident(changed(occupancy.configuration, resource, amount)).resident_blocks

    def step(amount: int) -> BlockStep:
        return BlockStep(
            resource=resource, before=now, after=amount, blocks_before=blocks, blocks_after=blocks_at(amount)
        )

    fewer = last(0, now, lambda amount: blocks_at(amount) > blocks)
    more = None if fewer is None else step(fewer)
    if blocks == 0:
        return Headroom(resource=resource, more_blocks=more, free=0, fewer_blocks=None)
    highest = last(now, max(now, most), lambda amount: blocks_at(amount) >= blocks)
    assert highest is not None
    free = highest - now
    return Headroom(
        resource=resource, more_blocks=more, free=free, fewer_blocks=step(now + free + 1) if now + free < most else None
    )


class NextBlock(Struct, frozen=True, kw_only=True):
    """Upper limits that together allow one more resident block."""

    blocks: int
    """Resident blocks within these limits."""
    threads: int | None = None
    """Most threads per block, in whole warps; ``None``: unchanged."""
    registers: int | None = None
    """Most registers per thread; ``None``: unchanged."""
    shared: int | None = None
    """Most static + dynamic shared memory per block, bytes; ``None``: unchanged."""
    barriers: int | None = None
    """Most named barriers per block; ``None``: unchanged."""


_IN_THE_WAY: tuple[tuple[Varied, Limiter], ...] = (
    ("threads", "warps"),
    ("registers", "registers"),
    ("shared", "shared_memory"),
    ("barriers", "barriers"),
)
"""Varied resources and their limiters. Threads come first because fewer threads also need fewer registers."""


def next_block(occupancy: Occupancy) -> NextBlock | None:
    """Upper limits for one more resident block; ``None`` if no free block slot is left, or no value is small enough.

    For a kernel that cannot launch, it is the first block.
    """
    target = occupancy.resident_blocks + 1
    configuration = occupancy.configuration
    needs: dict[str, int] = {}
    for varied, limiter in _IN_THE_WAY:

        def fits(
            amount: int, varied: Varied = varied, limiter: Limiter = limiter, here: Configuration = configuration
        ) -> bool:
            size = amount * WARP_THREADS if varied == "threads" else amount
            limit = resident(changed(here, varied, size)).limits[limiter]
            return limit is None or limit >= target

        now = current(configuration, varied)
        if varied == "threads":
            now = -(-now // WARP_THREADS)
        if fits(now):
            continue
        most = last(1 if varied in ("threads", "registers") else 0, now, fits)
        if most is None:
            return None
        needs[varied] = most * WARP_THREADS if varied == "threads" else most
        configuration = changed(configuration, varied, needs[varied])
    reached = resident(configuration).resident_blocks >= target
    return NextBlock(blocks=target, **needs) if reached else None


def last(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """Largest value in low..high for which ``holds`` is true, if it is true up to some point and false after; else
    ``None``."""
    if not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


class BlockSizes(Struct, frozen=True, kw_only=True):
    """Block sizes with the highest occupancy."""

    threads_per_block: int
    """Largest of the best sizes, as ``cudaOccupancyMaxPotentialBlockSize`` suggests; 0: no size can launch."""
    resident_blocks: int
    """Blocks per SM at that size."""
    alternatives: tuple[int, ...]
    """All block sizes, by whole warps, with as many threads per SM; descending."""
    occupancy: Occupancy | None
    """Occupancy at the suggested size."""


def best_block_sizes(configuration: Configuration, max_threads: int | None = None) -> BlockSizes:
    """Block sizes with the most resident threads, at unchanged dynamic shared memory.

    The rule of ``cudaOccMaxPotentialOccupancyBlockSize``: try sizes from the largest down by one warp, keep the first
    with the most threads per SM. ``max_threads`` is the kernel's launch bound, if it has one.
    """
    limit = min(configuration.device.max_threads_per_block, max_threads or configuration.device.max_threads_per_block)
    sizes = [min(limit, size) for size in range(-(-limit // 32) * 32, 0, -32)]
    answers = [resident(replace(configuration, threads_per_block=size)) for size in sizes]
    threads = [size * answer.resident_blocks for size, answer in zip(sizes, answers, strict=True)]
    most = max(threads)
    if most == 0:
        return BlockSizes(threads_per_block=0, resident_blocks=0, alternatives=(), occupancy=None)
    place = threads.index(most)
    return BlockSizes(
        threads_per_block=sizes[place],
        resident_blocks=answers[place].resident_blocks,
        alternatives=tuple(size for size, count in zip(sizes, threads, strict=True) if count == most),
        occupancy=answers[place],
    )


def available_dynamic_shared_bytes(configuration: Configuration, blocks: int) -> int | None:
    """Most dynamic shared memory per block, bytes, with ``blocks`` resident; ``None`` if they do not fit at all.

    The rule of ``cudaOccAvailableDynamicSMemPerBlock`` of header 13.5, which subtracts the driver's reserve; headers up
    to 13.0 and the driver of CUDA 13.0 omit that. Limited by the kernel's attribute; a kernel that is not opted in has
    48 KB minus its static shared memory.
    """
    device = configuration.device
    if blocks < 1 or resident(replace(configuration, dynamic_shared_bytes=0)).resident_blocks < blocks:
        return None
    attribute = configuration.max_dynamic_shared_bytes
    large = configuration.static_shared_bytes > device.shared_bytes_per_block
    limit = device.shared_limit_per_block_optin if large or attribute is not None else device.shared_limit_per_block
    of_sm = preferred_shared_bytes(device, configuration.carveout_percent, configuration.cache_preference)
    whole = limit if blocks == 1 else of_sm or carveout_step(device, 1)
    share = min(whole // blocks // device.shared_alloc_unit * device.shared_alloc_unit, limit)
    free = share - configuration.static_shared_bytes - (device.shared_limit_per_block - device.shared_bytes_per_block)
    if attribute is None:
        most = device.shared_bytes_per_block_optin if large else device.shared_bytes_per_block
        attribute = max(most - configuration.static_shared_bytes, 0)
    return min(free, attribute)
