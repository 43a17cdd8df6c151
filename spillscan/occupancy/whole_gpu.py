"""What a launch makes of a whole GPU: the local memory that its stack reserves, and the clusters that are active."""

from __future__ import annotations

from msgspec import Struct

from spillscan.occupancy.devices import Device, Gpu
from spillscan.occupancy.model import Occupancy
from spillscan.output.errors import UsageError

INITIAL_STACK_BYTES = 1024
"""What the driver holds for each thread slot from the start (measured on an H200)."""
WORTH_SHOWING_BYTES = 64 * 1024 * 1024
"""Below this the footprint is left out of reports."""


class Footprint(Struct, frozen=True, kw_only=True):
    """Local memory that a launch makes the driver set aside, before its own rounding."""

    stack_bytes: int
    """Stack (with spills and local arrays), bytes per thread."""
    bytes_per_sm: int
    """Stack for every thread slot of one SM, bytes."""
    gpu: str | None
    """The GPU that the total is for; ``None`` where its number of SMs is not known."""
    multiprocessors: int | None
    """SMs of that GPU."""
    total_bytes: int | None
    """Stack for every thread slot of the GPU, bytes; ``None`` where the number of SMs is not known."""

    @property
    def matters(self) -> bool:
        """Whether reports show it: more than every context reserves anyway, and not little."""
        large = self.total_bytes is not None and self.total_bytes >= WORTH_SHOWING_BYTES
        return large and self.stack_bytes > INITIAL_STACK_BYTES


def footprint(device: Device, stack_bytes: int, gpu: Gpu | None = None) -> Footprint:
    """Stack times resident threads times SMs: 4,312 B reserve 1.1 GiB on an H100.

    Measured on an H200 to the byte for stacks of 1 to 64 KB. The driver holds 1 KB a thread from the start,
    so that a smaller stack takes nothing more.

    Without ``gpu``, the total is for the first GPU of the table with a known number of SMs.
    """
    if stack_bytes < 0:
        raise UsageError(f"stack must be at least 0 bytes per thread, not {stack_bytes:,}")
    if gpu is None:
        gpu = next((known for known in device.gpus if known.multiprocessors is not None), None)
    count = gpu.multiprocessors if gpu is not None else None
    per_sm = stack_bytes * device.max_threads_per_sm
    return Footprint(
        stack_bytes=stack_bytes,
        bytes_per_sm=per_sm,
        gpu=gpu.name if gpu is not None and count is not None else None,
        multiprocessors=count,
        total_bytes=None if count is None else per_sm * count,
    )


PORTABLE_BLOCKS = 8
"""Largest cluster without the non-portable attribute; over it a launch fails (error 912, measured on an H200)."""
LARGEST_BLOCKS = 16
"""Largest cluster with the attribute (measured on an H200)."""
COUNTED_BLOCKS_PER_SM = 8
"""``cudaOccupancyMaxActiveClusters`` never counts more blocks per SM (measured on an H200)."""


class Clusters(Struct, frozen=True, kw_only=True):
    """Clusters that a GPU holds at once."""

    cluster_blocks: int
    """Blocks per cluster."""
    portable: bool
    """Whether every GPU with clusters takes this size."""
    active: int | None
    """Clusters on the whole GPU; an upper bound unless ``exact``; ``None`` where its number of SMs is not known."""
    exact: bool
    """``False`` from 3 blocks on: the layout of the GPU's clusters of SMs decides, which no table gives."""


def clusters(occupancy: Occupancy, cluster_blocks: int, multiprocessors: int | None = None) -> Clusters:
    """What clusters of this size make of an occupancy. Raises :class:`~spillscan.UsageError` where
    there are none.

    Sizes 1 and 2 measured on one H200: ``min(8, blocks per SM) * SMs / size``.
    """
    device = occupancy.configuration.device
    if not device.clusters and cluster_blocks != 1:
        raise UsageError(f"{device.target} has no clusters", "they begin at sm_90")
    if not 1 <= cluster_blocks <= LARGEST_BLOCKS:
        raise UsageError(f"cluster must be 1 to {LARGEST_BLOCKS} blocks, not {cluster_blocks}")
    counted = min(COUNTED_BLOCKS_PER_SM, occupancy.resident_blocks)
    return Clusters(
        cluster_blocks=cluster_blocks,
        portable=cluster_blocks <= PORTABLE_BLOCKS,
        active=None if multiprocessors is None else counted * multiprocessors // cluster_blocks,
        exact=cluster_blocks <= 2,
    )
