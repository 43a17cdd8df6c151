"""How far the next step is in each direction: what one block more costs, and what is free until one block
less."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from spillscan.occupancy.devices import Device
from spillscan.occupancy.model import Configuration, Occupancy
from spillscan.occupancy.rules import (
    carveout_step,
    preferred_shared_bytes,
    registers_per_warp,
    resident,
    shared_limit_per_block,
)

Resource = Literal["registers", "shared", "barriers"]
RESOURCES: tuple[Resource, ...] = ("registers", "shared", "barriers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """One resource alone, both ways; everything else stays."""

    resource: Resource
    """Which resource."""
    more_blocks: Step | None
    """The least reduction that brings a block more; ``None``: reducing this alone brings none."""
    free: int
    """How much more may be used at no cost in blocks; 0 where it cannot launch."""
    fewer_blocks: Step | None
    """The least increase that costs a block; ``None``: the device allows no figure that does."""


def headroom(occupancy: Occupancy) -> tuple[Headroom, ...]:
    """Headroom by registers, shared memory and barriers. Resident blocks never rise with any of them."""
    configuration = occupancy.configuration
    device = configuration.device
    top_shared = device.shared_bytes_per_block_optin + 1
    found = [
        _along("registers", occupancy, configuration.registers, device.max_registers_per_thread, with_registers),
        _along("shared", occupancy, configuration.user_shared_bytes, top_shared, with_shared),
    ]
    if device.version >= (9, 0):
        found.append(_along("barriers", occupancy, configuration.barriers, device.barriers_per_block, with_barriers))
    return tuple(found)


def with_registers(configuration: Configuration, registers: int) -> Configuration:
    """The same with another register count."""
    return replace(configuration, registers=registers)


def with_shared(configuration: Configuration, user_bytes: int) -> Configuration:
    """The same with another amount of static + dynamic shared memory; an opted-in kernel stays opted in for
    it.

    Dynamic shared memory changes where there is some, else static.
    """
    static = configuration.static_shared_bytes
    if configuration.dynamic_shared_bytes == 0 or user_bytes < static:
        static = min(user_bytes, configuration.device.shared_bytes_per_block)
    attribute = configuration.max_dynamic_shared_bytes
    if attribute is not None and user_bytes - static > configuration.dynamic_shared_bytes:
        attribute = max(attribute, configuration.device.shared_bytes_per_block_optin - static)
    return replace(
        configuration,
        static_shared_bytes=static,
        dynamic_shared_bytes=user_bytes - static,
        max_dynamic_shared_bytes=attribute,
    )


def with_barriers(configuration: Configuration, barriers: int) -> Configuration:
    """The same with another barrier count."""
    return replace(configuration, barriers=barriers)


def with_threads(configuration: Configuration, threads: int) -> Configuration:
    """The same with another block size."""
    return replace(configuration, threads_per_block=threads)


def _along(
    resource: Resource,
    occupancy: Occupancy,
    now: int,
    most: int,
    changed: Callable[[Configuration, int], Configuration],
) -> Headroom:
    blocks = occupancy.resident_blocks

    def blocks_at(figure: int) -> int:
        return resident(changed(occupancy.configuration, figure)).resident_blocks

    def step(figure: int) -> Step:
        return Step(resource=resource, before=now, after=figure, blocks_before=blocks, blocks_after=blocks_at(figure))

    fewer = last(0, now, lambda figure: blocks_at(figure) > blocks)
    more = None if fewer is None else step(fewer)
    if blocks == 0:
        return Headroom(resource=resource, more_blocks=more, free=0, fewer_blocks=None)
    highest = last(now, max(now, most), lambda figure: blocks_at(figure) >= blocks)
    assert highest is not None
    free = highest - now
    return Headroom(
        resource=resource,
        more_blocks=more,
        free=free,
        fewer_blocks=step(now + free + 1) if now + free < most else None,
    )


def last(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The largest of low..high for which ``holds``, where it holds up to some point and not after; else
    ``None``."""
    if not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


@dataclass(frozen=True, slots=True, kw_only=True)
class Cliff:
    """The most of a resource that leaves so many warps or blocks on an SM."""

    count: int
    """Resident warps (registers) or blocks (shared memory) per SM."""
    most: int
    """Largest registers a thread, or user shared bytes a block, that allow it."""


def register_cliffs(device: Device) -> tuple[Cliff, ...]:
    """Warps per SM against the largest register count for them, from all warp slots down.

    Sub-partitions round down, so that there is nothing between: on 64 K registers 48 warps, then 40.
    """
    cliffs: dict[int, int] = {}
    for registers in range(1, device.max_registers_per_thread + 1):
        in_partition = device.registers_per_sm // device.sub_partitions // registers_per_warp(device, registers)
        cliffs[min(in_partition * device.sub_partitions, device.max_warps_per_sm)] = registers
    return tuple(Cliff(count=warps, most=registers) for warps, registers in cliffs.items())


def shared_cliffs(device: Device, carveout_percent: int | None = None) -> tuple[Cliff, ...]:
    """Blocks per SM against the largest user shared memory (static + dynamic) for them, opted in, in
    bytes.
    """
    step = preferred_shared_bytes(device, carveout_percent, "none")
    limit = shared_limit_per_block(device, True, 2**31)
    step = step or carveout_step(device, 1)
    found = []
    for blocks in range(1, device.max_blocks_per_sm + 1):
        whole = max(step, limit) if blocks == 1 else step
        allocated = min(whole // blocks // device.shared_alloc_unit * device.shared_alloc_unit, limit)
        user = allocated - device.shared_bytes_reserved_per_block
        if user >= 0:
            found.append(Cliff(count=blocks, most=user))
    return tuple(found)
