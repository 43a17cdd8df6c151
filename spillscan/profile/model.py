"""What a profiler saw: frozen records of launches. ``None`` means that the profile does not say."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from spillscan.model import Issue, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Figures of one launch, in base units; each is ``None`` unless the profile gives it."""

    registers: int | None = None
    """Registers per thread that the driver set: never below 16, whatever the kernel was compiled with."""
    static_shared_bytes: int | None = None
    """Static shared memory, bytes per block, without the driver's."""
    dynamic_shared_bytes: int | None = None
    """Dynamic shared memory, bytes per block."""
    driver_shared_bytes: int | None = None
    """What the driver keeps of each block's shared memory, bytes."""
    shared_config_bytes: int | None = None
    """Shared memory per SM that the driver chose for this launch, bytes: its carve-out."""
    barriers: int | None = None
    """Named barriers per block."""
    cluster_blocks: int | None = None
    """Blocks per cluster; 0: launched without clusters."""
    block_threads: int | None = None
    """Threads per block."""
    capability_major: int | None = None
    """Major compute capability of the device."""
    capability_minor: int | None = None
    """Minor compute capability of the device."""
    waves: float | None = None
    """How often the grid fills the whole GPU."""
    theoretical_percent: float | None = None
    """Theoretical occupancy, as the profiler has it."""
    achieved_percent: float | None = None
    """Achieved occupancy: warps that were resident, of the warp slots."""
    limit_warps: int | None = None
    """Blocks per SM that the warp slots allow."""
    limit_blocks: int | None = None
    """Blocks per SM that the block slots allow."""
    limit_registers: int | None = None
    """Blocks per SM that the registers allow."""
    limit_shared_memory: int | None = None
    """Blocks per SM that shared memory allows *at the carve-out that the driver chose*, not at the largest."""
    limit_barriers: int | None = None
    """Blocks per SM that the barriers allow; without barriers, the block slots."""
    duration_ns: float | None = None
    """Time on the GPU under the profiler, nanoseconds."""
    compute_percent: float | None = None
    """Compute throughput, percent of the peak."""
    memory_percent: float | None = None
    """Memory throughput, percent of the peak, of whichever unit of the memory system is busiest."""
    instructions: float | None = None
    """Instructions that warps executed."""
    spill_instructions: float | None = None
    """Of these, loads and stores of spilled registers."""
    local_load_instructions: float | None = None
    """Of these, loads from local memory, spills or not."""
    local_store_instructions: float | None = None
    """Of these, stores to local memory, spills or not."""
    local_load_bytes: float | None = None
    """Local memory that L1 was asked for by loads, bytes."""
    local_store_bytes: float | None = None
    """Local memory that L1 was sent by stores, bytes."""
    global_load_bytes: float | None = None
    """Global memory that L1 was asked for by loads, bytes."""
    global_store_bytes: float | None = None
    """Global memory that L1 was sent by stores, bytes."""
    rounded: frozenset[str] = frozenset()
    """Names of figures that were printed with a prefix (``16.38 Kbyte``) and are therefore rounded."""

    @property
    def local_bytes(self) -> float | None:
        """Local-memory traffic, loads and stores, bytes."""
        return _sum(self.local_load_bytes, self.local_store_bytes)

    @property
    def global_bytes(self) -> float | None:
        """Global-memory traffic, loads and stores, bytes."""
        return _sum(self.global_load_bytes, self.global_store_bytes)

    @property
    def local_share(self) -> float | None:
        """Local-memory traffic of local and global traffic together, 0 to 1; ``None`` where there is none of both."""
        local, beside = self.local_bytes, self.global_bytes
        return None if local is None or beside is None or not local + beside else local / (local + beside)

    @property
    def local_instructions(self) -> float | None:
        """Instructions that access local memory, spills or not."""
        return _sum(self.local_load_instructions, self.local_store_instructions)

    @property
    def spill_instruction_share(self) -> float | None:
        """Spill instructions of all instructions executed, 0 to 1."""
        if self.spill_instructions is None or not self.instructions:
            return None
        return self.spill_instructions / self.instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLaunch:
    """One launch of one kernel."""

    number: str
    """The profiler's ID of the launch, unique in its process."""
    kernel: str
    """The kernel's name as the profiler printed it: mangled, demangled in NVIDIA's way, or the bare function."""
    process: str
    """Process ID, with the process's name where it is printed."""
    context: str
    """CUDA context."""
    stream: str
    """CUDA stream."""
    device: str
    """Device number."""
    block: tuple[int, ...] | None
    """Threads per block by dimension."""
    grid: tuple[int, ...] | None
    """Blocks by dimension."""
    capability: tuple[int, int] | None
    """Compute capability of the device."""
    measured: Measured
    """Its figures."""
    origin: Origin
    """Where it was read."""

    @property
    def arch(self) -> str | None:
        """The device's target: ``sm_90``."""
        return None if self.capability is None else "sm_{}{}".format(*self.capability)

    @property
    def threads(self) -> int | None:
        """Threads per block."""
        return self.measured.block_threads if self.block is None else prod(self.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """All launches of the inputs, in their order."""

    launches: tuple[ProfiledLaunch, ...] = ()
    """In the order of the inputs."""
    issues: tuple[Issue, ...] = field(default=())
    """What the profiler itself complained of."""


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
