"""Headroom: how far the next step is in each direction, what one more block needs, and the best block sizes."""

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
"""Which figure of a :class:`Configuration` is meant."""


class BlockStep(Struct, frozen=True, kw_only=True):
    """A change of one resource that changes the resident blocks."""

    resource: Resource
    """``registers`` a thread, ``shared`` bytes a block (static + dynamic), ``barriers`` a block."""
    before: int
    """The figure now."""
    after: int
    """The nearest figure with another number of blocks."""
    blocks_before: int
    """Resident blocks now."""
    blocks_after: int
    """Resident blocks then; 0: cannot launch."""


class Headroom(Struct, frozen=True, kw_only=True):
    """One resource alone, both ways; everything else stays."""

    resource: Resource
    """The resource that alone is changed."""
    more_blocks: BlockStep | None
    """The least reduction that brings a block more; ``None``: reducing this alone brings none."""
    free: int
    """How much more may be used at no cost in blocks; 0 where it cannot launch."""
    fewer_blocks: BlockStep | None
    """The least increase that costs a block; ``None``: the device allows no figure that does."""


def headroom(occupancy: Occupancy) -> tuple[Headroom, ...]:
    """Headroom by registers, shared memory and barriers. Resident blocks never rise with any of them."""
    configuration = occupancy.configuration
    device = configuration.device
    top_shared = device.shared_bytes_per_block_optin + 1
    most = {"registers": device.max_registers_per_thread, "shared": top_shared}
    if device.version >= (9, 0):
        most["barriers"] = device.barriers_per_block
    return tuple(_along(resource, occupancy, most[resource]) for resource in RESOURCES if resource in most)


def changed(configuration: Configuration, varied: Varied, figure: int) -> Configuration:
    """The same with another figure; shared memory is static + dynamic, bytes."""
    return (
        with_shared(configuration, figure) if varied == "shared" else replace(configuration, **{_FIELD[varied]: figure})
    )


def current(configuration: Configuration, varied: Varied) -> int:
    """The figure that varies, as it is now; shared memory is static + dynamic, bytes."""
    figure: int = getattr(configuration, _FIELD[varied])
    return figure


def with_shared(configuration: Configuration, user_bytes: int) -> Configuration:
    """The same with another amount of static + dynamic shared memory; an opted-in kernel stays opted in for it.

    Dynamic shared memory changes where there is some, else static.
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

    def blocks_at(figure: int) -> int:
        return resident(changed(occupancy.configuration, resource, figure)).resident_blocks

    def step(figure: int) -> BlockStep:
        return BlockStep(
            resource=resource, before=now, after=figure, blocks_before=blocks, blocks_after=blocks_at(figure)
        )

    fewer = last(0, now, lambda figure: blocks_at(figure) > blocks)
    more = None if fewer is None else step(fewer)
    if blocks == 0:
        return Headroom(resource=resource, more_blocks=more, free=0, fewer_blocks=None)
    highest = last(now, max(now, most), lambda figure: blocks_at(figure) >= blocks)
    assert highest is not None
    free = highest - now
    return Headroom(
        resource=resource, more_blocks=more, free=free, fewer_blocks=step(now + free + 1) if now + free < most else None
    )


class NextBlock(Struct, frozen=True, kw_only=True):
    """What one more resident block needs of everything that stands in its way, together."""

    blocks: int
    """Resident blocks then."""
    threads: int | None = None
    """Most threads a block, in whole warps; ``None``: as many as now."""
    registers: int | None = None
    """Most registers per thread; ``None``: as many as now."""
    shared: int | None = None
    """Most static and dynamic shared memory a block, bytes; ``None``: as much as now."""
    barriers: int | None = None
    """Most named barriers a block; ``None``: as many as now."""


_IN_THE_WAY: tuple[tuple[Varied, Limiter], ...] = (
    ("threads", "warps"),
    ("registers", "registers"),
    ("shared", "shared_memory"),
    ("barriers", "barriers"),
)
"""Fewer threads also take fewer registers: they come first."""


def next_block(occupancy: Occupancy) -> NextBlock | None:
    """What one more block needs; ``None`` where nothing brings it: no free block slot, or no figure small enough. A
    kernel that cannot be launched needs it for its first."""
    target = occupancy.resident_blocks + 1
    configuration = occupancy.configuration
    needs: dict[str, int] = {}
    for varied, limiter in _IN_THE_WAY:

        def fits(
            figure: int, varied: Varied = varied, limiter: Limiter = limiter, here: Configuration = configuration
        ) -> bool:
            size = figure * WARP_THREADS if varied == "threads" else figure
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
    """The largest of low..high for which ``holds``, where it holds up to some point and not after; else ``None``."""
    if not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


class BlockSizes(Struct, frozen=True, kw_only=True):
    """The block sizes that fill an SM best."""

    threads_per_block: int
    """The largest of the best, as ``cudaOccupancyMaxPotentialBlockSize`` suggests; 0: no size can launch."""
    resident_blocks: int
    """Blocks per SM of that size."""
    alternatives: tuple[int, ...]
    """Every block size, by whole warps, with as many threads per SM; descending."""
    occupancy: Occupancy | None
    """Occupancy at the suggested size."""


def best_block_sizes(configuration: Configuration, max_threads: int | None = None) -> BlockSizes:
    """The block sizes with the most resident threads, dynamic shared memory held as it is.

    The rule of ``cudaOccMaxPotentialOccupancyBlockSize``: try sizes from the largest down by one warp, keep
    the first with the most threads per SM. ``max_threads`` is the kernel's launch bound, where it has one.
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
    """Dynamic shared memory per block, bytes, that still leaves ``blocks`` resident; ``None``: they do not fit at all.

    The rule of ``cudaOccAvailableDynamicSMemPerBlock`` of header 13.5, which takes the driver's reserve off; headers up
    to 13.0 and the driver of CUDA 13.0 forget it. Capped by the kernel's attribute; a kernel that is not opted in has
    48 KB less static.
    """
    device = configuration.device
    if blocks < 1 or resident(replace(configuration, dynamic_shared_bytes=0)).resident_blocks < blocks:
        return None
    attribute = configuration.max_dynamic_shared_bytes
    large = configuration.static_shared_bytes > device.shared_bytes_per_block
    limit = device.shared_limit_per_block_optin if large or attribute is not None else device.shared_limit_per_block
    whole = limit
    if blocks > 1:
        whole = preferred_shared_bytes(device, configuration.carveout_percent, configuration.cache_preference)
        whole = whole or carveout_step(device, 1)
    share = min(whole // blocks // device.shared_alloc_unit * device.shared_alloc_unit, limit)
    free = share - configuration.static_shared_bytes
    if device.version >= (8, 0):
        free -= device.shared_bytes_reserved_per_block
    if attribute is None:
        most = device.shared_bytes_per_block_optin if large else device.shared_bytes_per_block
        attribute = max(most - configuration.static_shared_bytes, 0)
    return min(free, attribute)
