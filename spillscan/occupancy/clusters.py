"""Thread block clusters, as far as a compute capability tells: the blocks per SM stay, the number of clusters
may not."""

from __future__ import annotations

from dataclasses import dataclass

from spillscan.errors import UsageError
from spillscan.occupancy.model import Occupancy

PORTABLE_BLOCKS = 8
"""Largest cluster without the non-portable attribute; over it a launch fails (error 912, measured on an
H200)."""
LARGEST_BLOCKS = 16
"""Largest cluster with the attribute (measured on an H200)."""
COUNTED_BLOCKS_PER_SM = 8
"""``cudaOccupancyMaxActiveClusters`` never counts more blocks per SM (measured on an H200)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """Clusters that a GPU holds at once."""

    cluster_blocks: int
    """Blocks per cluster."""
    portable: bool
    """Whether every GPU with clusters takes this size."""
    active: int | None
    """Clusters on the whole GPU; an upper bound unless ``exact``; ``None`` where its number of SMs is not
    known."""
    exact: bool
    """``False`` from 3 blocks on: the layout of the GPU's clusters of SMs decides, which no table gives."""


def clusters(occupancy: Occupancy, cluster_blocks: int, multiprocessors: int | None = None) -> Clusters:
    """What clusters of this size make of an occupancy. Raises :class:`~spillscan.errors.UsageError` where
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
