"""Answers of NVIDIA's header and of a driver where they differ from this model.

``docs/internals/published-occupancy.md`` lists all differences, each with its reason.
"""

from __future__ import annotations

from spillscan.occupancy.formula import carveout_step, round_up
from spillscan.occupancy.model import LIMITERS, Configuration, Limiter, Occupancy


def header_mask(occupancy: Occupancy) -> set[Limiter]:
    """The limiters as the header's mask has them: see "limiter mask with barriers"."""
    limits = {name: limit for name, limit in occupancy.limits.items() if name != "barriers"}
    without = min(limit for limit in limits.values() if limit is not None)
    mask: set[Limiter] = {name for name, limit in limits.items() if limit == without}
    if occupancy.limit_barriers is not None and occupancy.limit_barriers == occupancy.resident_blocks:
        mask.add("barriers")
    assert mask <= set(LIMITERS)
    return mask


def driver_blocks(occupancy: Occupancy) -> int:
    """Resident blocks with a carve-out preference as one driver really set it: see "real carve-out".

    Reproduces every residency measured on one H200 (driver 580, CUDA 13.0); not documented, other drivers
    unknown.
    """
    configuration: Configuration = occupancy.configuration
    device = configuration.device
    if configuration.carveout_percent is None or not occupancy.can_launch or device.version < (8, 0):
        return occupancy.resident_blocks
    allocated = occupancy.allocated_shared_bytes_per_block
    wanted = configuration.carveout_percent * device.shared_bytes_per_sm // 100
    user = round_up(configuration.user_shared_bytes, device.shared_alloc_unit)
    need = wanted // user * allocated if user else device.shared_bytes_per_sm
    step = carveout_step(device, max(wanted, min(need, device.shared_bytes_per_sm), allocated))
    others = [limit for name, limit in occupancy.limits.items() if limit is not None and name != "shared_memory"]
    return min(step // allocated, *others)
