"""What goes into an occupancy question and what comes out: frozen records, nothing that acts."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from spillscan.occupancy.devices import WARP_THREADS, Device

Limiter = Literal["warps", "registers", "shared_memory", "blocks", "barriers", "virtual_resources"]
LIMITERS: tuple[Limiter, ...] = ("warps", "registers", "shared_memory", "blocks", "barriers", "virtual_resources")
"""What can bound the blocks per SM; ``limit_<name>`` is the field and column of each."""

CachePreference = Literal["none", "shared", "l1", "equal"]
GlobalCaching = Literal["off", "on", "strict"]
PREFERENCES: tuple[CachePreference, ...] = get_args(CachePreference)
CACHING: tuple[GlobalCaching, ...] = get_args(GlobalCaching)


class Configuration(Struct, frozen=True, kw_only=True):
    """One occupancy question: a kernel's resources and a launch on a device."""

    device: Device
    """Where it runs."""
    registers: int
    """32-bit registers per thread."""
    threads_per_block: int
    """Threads per block."""
    static_shared_bytes: int = 0
    """Static shared memory, bytes per block, without the driver's reserve."""
    dynamic_shared_bytes: int = 0
    """Dynamic shared memory, bytes per block."""
    max_dynamic_shared_bytes: int | None = None
    """The kernel's ``MaxDynamicSharedMemorySize`` attribute, bytes; ``None``: not opted in."""
    carveout_percent: int | None = None
    """Preferred shared memory, percent of the SM's maximum (7.0 and later); ``None``: no preference."""
    cache_preference: CachePreference = "none"
    """The older preference between L1 and shared memory; used where no carve-out is set."""
    barriers: int = 1
    """Named barriers per block. Limits residency from 9.0 on."""
    virtual_resources: int = 0
    """Virtual resources per block (10.0 and later); nothing public says how many a kernel uses."""
    global_caching: GlobalCaching = "off"
    """Partitioned global caching (5.2, 5.3, 6.1, 6.2): off, preferred, or forced."""

    @property
    def warps_per_block(self) -> int:
        """Warps of one block; a started warp counts whole."""
        return -(-self.threads_per_block // WARP_THREADS)

    @property
    def user_shared_bytes(self) -> int:
        """Static and dynamic shared memory of one block, bytes, without the driver's reserve."""
        return self.static_shared_bytes + self.dynamic_shared_bytes


class Occupancy(Struct, frozen=True, kw_only=True):
    """What the hardware makes of one configuration. Theoretical: warps resident if enough blocks are launched."""

    configuration: Configuration
    """The question."""
    resident_blocks: int
    """Blocks per SM; 0: cannot launch."""
    limit_warps: int
    """Blocks per SM that the warp slots allow."""
    limit_registers: int | None
    """Blocks per SM that the register file allows; ``None``: it does not limit (no registers used)."""
    limit_shared_memory: int | None
    """Blocks per SM that shared memory allows; ``None``: it does not limit (none allocated)."""
    limit_blocks: int
    """Block slots per SM."""
    limit_barriers: int | None
    """Blocks per SM that named barriers allow; ``None``: they do not limit (before 9.0, or none used)."""
    limit_virtual_resources: int | None
    """Blocks per SM that virtual resources allow; ``None``: they do not limit."""
    allocated_registers_per_block: int
    """Registers that one block takes."""
    allocated_shared_bytes_per_block: int
    """Shared memory that one block takes, bytes, with the driver's reserve, rounded to the unit."""
    shared_bytes_per_sm: int
    """Shared memory that the SM is set to by the carve-out, bytes. With no preference it is the maximum;
    a driver may set less where that changes nothing."""
    global_caching: GlobalCaching
    """Partitioned global caching in effect."""
    reasons: tuple[str, ...] = ()
    """Why it cannot launch; empty where it can."""

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
        """Every limit in blocks per SM, ``None`` where a resource does not limit."""
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
        """Every limit that binds, that is, equals the resident blocks."""
        return tuple(name for name, limit in self.limits.items() if limit == self.resident_blocks)

    @property
    def can_launch(self) -> bool:
        """Whether at least one block fits."""
        return self.resident_blocks > 0

    @property
    def unused_registers(self) -> int:
        """Registers per SM that no resident block holds."""
        return self.configuration.device.registers_per_sm - self.resident_blocks * self.allocated_registers_per_block

    @property
    def unused_shared_bytes(self) -> int:
        """Shared memory per SM that no resident block holds, bytes, out of what the SM is set to."""
        return self.shared_bytes_per_sm - self.resident_blocks * self.allocated_shared_bytes_per_block

    @property
    def unused_warps(self) -> int:
        """Empty warp slots per SM."""
        return self.max_warps - self.active_warps
