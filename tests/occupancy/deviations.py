"""Where ``cuda_occupancy.h``, the driver, other tools and this model differ, each with its reason, in one place.

The model equals the header 13.5 in every figure. The limiters are its own: the header's mask is not what it says.
``docs/internals/published-occupancy.md`` prints the table.
"""

from __future__ import annotations

from dataclasses import dataclass

from spillscan.occupancy.formula import carveout_step, round_up
from spillscan.occupancy.model import LIMITERS, Configuration, Limiter, Occupancy


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """A known difference."""

    name: str
    """Stable short name."""
    where: str
    """Who says otherwise: ``header``, ``driver``, or the name of a tool."""
    what: str
    """What differs."""
    here: str
    """What this model does, and why."""


DEVIATIONS = (
    Deviation(
        name="limiter mask with barriers",
        where="header (all versions that know barriers)",
        what="sets the bits of the other limits before barriers lower the result, so that limits that"
        " do not bind stay"
        " in the mask",
        here="a limiter binds if its limit equals the resident blocks",
    ),
    Deviation(
        name="48 KB comparison",
        where="header",
        what="compares static + driver's reserve + attribute with 48 KB when it decides whether the"
        " opt-in limit"
        " applies, so that it applies from 47 KB + 1 B of user memory on (8.0 and later)",
        here="the same: it changes no answer, since an attribute below what is used refuses the launch anyway",
    ),
    Deviation(
        name="attribute below 48 KB",
        where="driver (CUDA 13.0, H200)",
        what="cudaOccupancyMaxActiveBlocksPerMultiprocessor takes a MaxDynamicSharedMemorySize below 48"
        " KB - static as"
        " if it were 48 KB - static; the launch itself obeys the attribute and fails",
        here="obeys the attribute, as the header and the launch do",
    ),
    Deviation(
        name="static shared memory above 48 KB",
        where="header",
        what="0 blocks unless the kernel opts in, as for dynamic shared memory",
        here="opted in, as the driver has it (CUDA 13.0, H200: 68,608 B static have 3 blocks, 73,728 B static an"
        " attribute of 158,720 B from the start): ptxas refuses so much in sources, cuTile's compiler does not",
    ),
    Deviation(
        name="barriers of 10.3",
        where="header up to 13.0, Nsight Compute 2025.3",
        what="64 named barriers per SM; header 13.5 has 32",
        here="32, as the newest header",
    ),
    Deviation(
        name="barrier count",
        where="header's C++ converter",
        what="assumes 1 named barrier for every kernel; the runtime uses the kernel's own count",
        here="the count that ptxas prints; 1 only where the input does not say",
    ),
    Deviation(
        name="free dynamic shared memory",
        where="header up to 13.0, driver of CUDA 13.0",
        what="cudaOccupancyAvailableDynamicSMemPerBlock forgets the reserve of 1 KB a block: for 5"
        " blocks on 9.0 it"
        " gives 46,592 B, with which 4 blocks are resident",
        here="the rule of header 13.5: 45,568 B",
    ),
    Deviation(
        name="real carve-out",
        where="driver (CUDA 13.0, H200)",
        what="takes a carve-out preference as user memory and adds the reserve on top, so that more"
        " blocks can be"
        " resident than header and API say",
        here="header and API, a lower bound; `driver_blocks` is the rule that reproduces what was measured",
    ),
    Deviation(
        name="launch bounds not checked",
        where="header, driver",
        what="the occupancy question ignores __launch_bounds__: a block larger than the bound has an"
        " answer above 0, but"
        " its launch fails (cudaErrorInvalidValue)",
        here="the same; the bound is not an input",
    ),
    Deviation(
        name="256 registers",
        where="header",
        what="accepts 256 registers a thread from 7.0 on, and 64 to 255 on 3.0, where ptxas gives at most 255 and 63",
        here="the same",
    ),
    Deviation(
        name="unknown minors",
        where="header",
        what="answers for compute capabilities that do not exist (8.1 as 8.6, 9.5 as 9.0)",
        here="refused: only what the device table has",
    ),
    Deviation(
        name="registers per block of 5.2 and 6.2",
        where="Nsight Compute 2025.3",
        what="32 K on 5.2 and 64 K on 6.2; drivers print 64 K and 32 K",
        here="what drivers print",
    ),
)


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
