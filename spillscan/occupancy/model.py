"""Input and result of an occupancy calculation, and its limiters in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, get_args

from msgspec import Struct

from spillscan.occupancy.devices import WARP_THREADS, Device
from spillscan.output.nouns import count

Limiter = Literal["warps", "registers", "shared_memory", "blocks", "barriers", "virtual_resources"]
LIMITERS: tuple[Limiter, ...] = ("warps", "registers", "shared_memory", "blocks", "barriers", "virtual_resources")
"""Resources that may limit the blocks per SM; ``limit_<name>`` is the field and column of each."""

CachePreference = Literal["none", "shared", "l1", "equal"]
GlobalCaching = Literal["off", "on", "strict"]
PREFERENCES: tuple[CachePreference, ...] = get_args(CachePreference)
CACHING: tuple[GlobalCaching, ...] = get_args(GlobalCaching)


class Configuration(Struct, frozen=True, kw_only=True):
    """Input of an occupancy calculation: a kernel's resources and a launch on a device."""

    device: Device
    """Device of the launch."""
    registers: int
    """32-bit registers per thread."""
    threads_per_block: int
    """Threads per block."""
    depth: int = 1
    """Depth (z) of the block."""
    static_shared_bytes: int = 0
    """Static shared memory, bytes per block, without the driver's reserve."""
    dynamic_shared_bytes: int = 0
    """Dynamic shared memory, bytes per block."""
    max_dynamic_shared_bytes: int | None = None
    """The kernel's ``MaxDynamicSharedMemorySize`` attribute, bytes; ``None``: not opted in."""
    carveout_percent: int | None = None
    """Preferred shared memory, percent of the SM's maximum (7.0 and later); ``None``: no preference."""
    cache_preference: CachePreference = "none"
    """The older preference between L1 and shared memory; used if no carve-out is set."""
    barriers: int = 1
    """Named barriers per block. They limit residency from 9.0 on."""
    virtual_resources: int = 0
    """Virtual resources per block (10.0 and later); no public source says how many a kernel uses."""
    global_caching: GlobalCaching = "off"
    """Partitioned global caching (5.2, 5.3, 6.1, 6.2): off, preferred, or forced."""

    @property
    def warps_per_block(self) -> int:
        """Warps per block; a partial warp counts as one."""
        return -(-self.threads_per_block // WARP_THREADS)

    @property
    def user_shared_bytes(self) -> int:
        """Static and dynamic shared memory of one block, bytes, without the driver's reserve."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


class Occupancy(Struct, frozen=True, kw_only=True):
    """Result of an occupancy calculation. Theoretical: warps resident if enough blocks are launched."""

    configuration: Configuration
    """The input."""
    resident_blocks: int
    """Blocks per SM; 0: cannot launch."""
    limit_warps: int
    """Blocks per SM that the warp slots allow."""
    limit_registers: int | None
    """Blocks per SM that the register file allows; ``None`` if it does not limit (no registers used)."""
    limit_shared_memory: int | None
    """Blocks per SM that shared memory allows; ``None`` if it does not limit (none allocated)."""
    limit_blocks: int
    """Block slots per SM."""
    limit_barriers: int | None
    """Blocks per SM that named barriers allow; ``None`` if they do not limit (before 9.0, or none used)."""
    limit_virtual_resources: int | None
    """Blocks per SM that virtual resources allow; ``None`` if they do not limit."""
    allocated_registers_per_block: int
    """Registers allocated per block."""
    allocated_shared_bytes_per_block: int
    """Shared memory allocated per block, bytes, with the driver's reserve, rounded up to the granularity."""
    shared_bytes_per_sm: int
    """Shared memory of the SM by its carve-out, bytes; the maximum without a preference.

    A driver may set less if that changes nothing.
    """
    global_caching: GlobalCaching
    """Partitioned global caching in effect."""
    reasons: tuple[str, ...] = ()
    """Why the kernel cannot launch; empty if it can."""

    @property
    def active_warps(self) -> int:
        """Resident warps per SM."""
        return self.resident_blocks * self.configuration.warps_per_block

    @property
    def max_warps(self) -> int:
        """Warp slots per SM."""
        return self.configuration.device.max_warps_per_sm

    @property
    def fraction(self) -> float:
        """Theoretical occupancy, 0 to 1: active warps over warp slots."""
        return self.active_warps / self.max_warps

    @property
    def limits(self) -> dict[Limiter, int | None]:
        """All limits in blocks per SM; ``None`` if a resource does not limit."""
        return {
            "warps": self.limit_warps,
            "registers": self.limit_registers,
            "shared_memory": self.limit_shared_memory,
            "blocks": self.limit_blocks,
            "barriers": self.limit_barriers,
            "virtual_resources": self.limit_virtual_resources,
        }

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """Resources whose limit equals the resident blocks."""
        return tuple(name for name, limit in self.limits.items() if limit == self.resident_blocks)

    @property
    def can_launch(self) -> bool:
        """Whether at least one block fits."""
        return self.resident_blocks > 0

    @property
    def unused_registers(self) -> int:
        """Registers per SM not allocated to resident blocks."""
        return self.configuration.device.registers_per_sm - self.resident_blocks * self.allocated_registers_per_block

    @property
    def unused_shared_bytes(self) -> int:
        """Shared memory per SM not allocated to resident blocks, bytes, of the configured amount."""
        return self.shared_bytes_per_sm - self.resident_blocks * self.allocated_shared_bytes_per_block

    @property
    def unused_warps(self) -> int:
        """Empty warp slots per SM."""
        return self.max_warps - self.active_warps


# ---- in words -----------------------------------------------------------------------------------------------------

LOW_FRACTION = 0.25
"""Below about this, low occupancy may matter unless latency is hidden in other ways."""

LABELS: Mapping[str, str] = {
    "warps": "warp slots",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "block slots",
    "barriers": "barriers",
    "virtual_resources": "virtual resources",
}


def limited_by(limiters: Iterable[str]) -> str:
    """Limiters in words, such as ``warp slots, registers``; other words (``cannot launch``) are unchanged."""
    return ", ".join(LABELS.get(name, name) for name in limiters)


def findings(occupancy: Occupancy) -> tuple[tuple[Limiter, str], ...]:
    """(limiter, its values) of each limiter, in the order of ``LIMITERS``."""
    return tuple((name, _ABOUT[name](occupancy)) for name in LIMITERS if name in occupancy.limiters)


def verdict(occupancy: Occupancy) -> str:
    """One sentence that rates the occupancy."""
    if not occupancy.can_launch:
        return "This launch fails."
    if occupancy.fraction >= 1:
        return "Every warp slot is in use: occupancy cannot increase."
    if occupancy.fraction < LOW_FRACTION:
        return (
            "Occupancy below about 25% is worth a look if the kernel waits on memory or other long latencies. A"
            " spill-free GEMM at low occupancy may already be optimal."
        )
    return "Higher occupancy helps only if the resident warps do not already hide latency."


def _warps(occupancy: Occupancy) -> str:
    warps = occupancy.configuration.warps_per_block
    if occupancy.resident_blocks == 0:
        return occupancy.reasons[0]
    if occupancy.unused_warps == 0:
        return f"all {occupancy.max_warps} warp slots are in use"
    return f"blocks of {count(warps, 'warp')} leave {occupancy.unused_warps} of {occupancy.max_warps} slots empty"


def _registers(occupancy: Occupancy) -> str:
    configuration = occupancy.configuration
    return (
        f"{occupancy.allocated_registers_per_block:,} per block ({configuration.registers} per thread) of"
        f" {configuration.device.registers_per_sm:,} per SM"
    )


def _shared(occupancy: Occupancy) -> str:
    return (
        f"{occupancy.allocated_shared_bytes_per_block:,} B per block (including the driver's share) of"
        f" {occupancy.shared_bytes_per_sm:,} B per SM"
    )


def _blocks(occupancy: Occupancy) -> str:
    warps = count(occupancy.configuration.warps_per_block, "warp")
    return f"all {occupancy.limit_blocks} block slots are in use, with {warps} each"


def _barriers(occupancy: Occupancy) -> str:
    configuration = occupancy.configuration
    used = count(configuration.barriers, "named barrier")
    return f"{used} per block of {configuration.device.barriers_per_sm} per SM"


def _virtual(occupancy: Occupancy) -> str:
    configuration = occupancy.configuration
    return (
        f"{configuration.virtual_resources} virtual resources per block of"
        f" {configuration.device.virtual_resources_per_sm} per SM"
    )


_ABOUT: dict[Limiter, Callable[[Occupancy], str]] = {
    "warps": _warps,
    "registers": _registers,
    "shared_memory": _shared,
    "blocks": _blocks,
    "barriers": _barriers,
    "virtual_resources": _virtual,
}
