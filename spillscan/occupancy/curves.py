"""Occupancy as one figure varies, the best block sizes, and the dynamic shared memory that is still free."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from spillscan.occupancy.headroom import with_barriers, with_registers, with_shared, with_threads
from spillscan.occupancy.model import Configuration, Occupancy
from spillscan.occupancy.rules import carveout_step, preferred_shared_bytes, resident, shared_limit_per_block

Varied = Literal["threads", "registers", "shared", "barriers"]
VARIED: tuple[Varied, ...] = ("threads", "registers", "shared", "barriers")

_CHANGE: dict[Varied, Callable[[Configuration, int], Configuration]] = {
    "threads": with_threads,
    "registers": with_registers,
    "shared": with_shared,
    "barriers": with_barriers,
}


def current(configuration: Configuration, varied: Varied) -> int:
    """The figure that varies, as it is now; shared memory is static + dynamic, bytes."""
    return {
        "threads": configuration.threads_per_block,
        "registers": configuration.registers,
        "shared": configuration.user_shared_bytes,
        "barriers": configuration.barriers,
    }[varied]


def curve(configuration: Configuration, varied: Varied) -> tuple[tuple[int, Occupancy], ...]:
    """(figure, occupancy) over all that the device allows, the current figure among them.

    Threads go by whole warps, shared memory by the allocation unit (static + dynamic, up to what the kernel's
    opt-in allows), registers and barriers by one.
    """
    device = configuration.device
    opted_in = configuration.max_dynamic_shared_bytes is not None
    most_shared = shared_limit_per_block(device, opted_in, 2**31)
    if device.version >= (8, 0):
        most_shared -= device.shared_bytes_reserved_per_block
    figures = {
        "threads": range(32, device.max_threads_per_block + 1, 32),
        "registers": range(1, device.max_registers_per_thread + 1),
        "shared": range(0, most_shared + 1, device.shared_alloc_unit),
        "barriers": range(device.barriers_per_block + 1),
    }[varied]
    change = _CHANGE[varied]
    points = sorted({*figures, current(configuration, varied)})
    return tuple((figure, resident(change(configuration, figure))) for figure in points)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSizes:
    """The block sizes that fill an SM best."""

    threads_per_block: int
    """The largest of the best, as ``cudaOccupancyMaxPotentialBlockSize`` suggests; 0: no size can launch."""
    resident_blocks: int
    """Blocks per SM of that size."""
    alternatives: tuple[int, ...]
    """Every block size, by whole warps, with as many threads per SM; descending."""
    occupancy: Occupancy | None
    """Occupancy at the suggested size."""

    def min_grid(self, multiprocessors: int) -> int:
        """Blocks that fill a GPU of so many SMs once."""
        return self.resident_blocks * multiprocessors


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
    """Dynamic shared memory per block, bytes, that still leaves ``blocks`` resident; ``None``: they do not
    fit at all.

    The rule of ``cudaOccAvailableDynamicSMemPerBlock`` of header 13.5, which takes the driver's reserve off;
    headers up to 13.0 and the driver of CUDA 13.0 forget it (see ``deviations.py``). Capped by the kernel's
    attribute; a kernel that is not opted in has 48 KB less static.
    """
    device = configuration.device
    if blocks < 1 or resident(replace(configuration, dynamic_shared_bytes=0)).resident_blocks < blocks:
        return None
    attribute = configuration.max_dynamic_shared_bytes
    limit = shared_limit_per_block(device, attribute is not None, device.shared_bytes_per_sm)
    whole = limit
    if blocks > 1:
        whole = preferred_shared_bytes(device, configuration.carveout_percent, configuration.cache_preference)
        whole = whole or carveout_step(device, 1)
    share = min(whole // blocks // device.shared_alloc_unit * device.shared_alloc_unit, limit)
    free = share - configuration.static_shared_bytes
    if device.version >= (8, 0):
        free -= device.shared_bytes_reserved_per_block
    if attribute is None:
        attribute = max(device.shared_bytes_per_block - configuration.static_shared_bytes, 0)
    return min(free, attribute)
