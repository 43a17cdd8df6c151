"""Occupancy of one kernel of a log: exact if the launch is known, otherwise a range."""

from __future__ import annotations

import math
from functools import lru_cache

from msgspec import Struct

from spillscan.model import Launch, Usage
from spillscan.occupancy.devices import Device, Gpu, resolve
from spillscan.occupancy.formula import launched, resident
from spillscan.occupancy.model import Limiter, Occupancy, findings, limited_by
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count

# Effects of a launch on a whole GPU: local memory reserved for its stack, and active clusters.

INITIAL_STACK_BYTES = 1024
"""Stack that the driver reserves initially per thread slot (measured on an H200)."""
WORTH_SHOWING_BYTES = 64 * 1024 * 1024
"""Reports omit a smaller footprint."""


class Footprint(Struct, frozen=True, kw_only=True):
    """Local memory that the driver reserves for a launch, before its own rounding."""

    stack_bytes: int
    """Stack (with spills and local arrays), bytes per thread."""
    bytes_per_sm: int
    """Stack, at least 1 KB, for every thread slot of one SM, bytes."""
    gpu: str | None
    """GPU of the total; ``None`` if its number of SMs is unknown."""
    multiprocessors: int | None
    """SMs of that GPU."""
    total_bytes: int | None
    """The same for the GPU; ``None`` if the number of SMs is unknown."""

    @property
    def matters(self) -> bool:
        """Whether reports show it: it is large, and more than every context reserves anyway."""
        large = self.total_bytes is not None and self.total_bytes >= WORTH_SHOWING_BYTES
        return large and self.stack_bytes > INITIAL_STACK_BYTES


def footprint(device: Device, stack_bytes: int, gpu: Gpu | None = None) -> Footprint:
    """Stack times resident threads times SMs: 4,312 B reserve 1.1 GiB on an H100.

    Measured on an H200 to the byte for stacks of 1 to 64 KB. The driver reserves 1 KB per thread initially, so a
    smaller stack counts as 1 KB. Without ``gpu``, the total is for the first GPU of the table with a known number
    of SMs. Raises UsageError for a negative stack.
    """
    if stack_bytes < 0:
        raise UsageError(f"stack must be at least 0 bytes per thread, not {stack_bytes:,}")
    if gpu is None:
        gpu = next((known for known in device.gpus if known.multiprocessors is not None), None)
    count = gpu.multiprocessors if gpu is not None else None
    per_sm = max(stack_bytes, INITIAL_STACK_BYTES) * device.max_threads_per_sm
    return Footprint(
        stack_bytes=stack_bytes,
        bytes_per_sm=per_sm,
        gpu=gpu.name if gpu is not None and count is not None else None,
        multiprocessors=count,
        total_bytes=None if count is None else per_sm * count,
    )


PORTABLE_BLOCKS = 8
"""Largest cluster without the non-portable attribute; a larger one fails to launch (error 912, measured on an H200)."""
LARGEST_BLOCKS = 16
"""Largest cluster with the attribute (measured on an H200)."""
COUNTED_BLOCKS_PER_SM = 8
"""``cudaOccupancyMaxActiveClusters`` never counts more blocks per SM (measured on an H200)."""


class Clusters(Struct, frozen=True, kw_only=True):
    """Number of clusters active on a GPU at once."""

    cluster_blocks: int
    """Blocks per cluster."""
    portable: bool
    """Whether every GPU with clusters supports this size."""
    active: int | None
    """Clusters on the whole GPU, an upper bound unless ``exact``; ``None`` if its number of SMs is unknown."""
    exact: bool
    """``False`` from 3 blocks on, where the unpublished layout of the GPU's processing clusters decides."""


def clusters(occupancy: Occupancy, cluster_blocks: int, multiprocessors: int | None = None) -> Clusters:
    """Active clusters of this size at an occupancy. Raises :class:`~spillscan.UsageError` for an impossible size.

    Sizes 1 and 2 measured on one H200: ``min(8, blocks per SM) * SMs / size``.
    """
    device = occupancy.configuration.device
    if not device.clusters and cluster_blocks != 1:
        raise UsageError(f"{device.target} has no clusters", "clusters need sm_90 or later")
    if not 1 <= cluster_blocks <= LARGEST_BLOCKS:
        raise UsageError(f"cluster must be 1 to {LARGEST_BLOCKS} blocks, not {cluster_blocks}")
    counted = min(COUNTED_BLOCKS_PER_SM, occupancy.resident_blocks)
    return Clusters(
        cluster_blocks=cluster_blocks,
        portable=cluster_blocks <= PORTABLE_BLOCKS,
        active=None if multiprocessors is None else counted * multiprocessors // cluster_blocks,
        exact=cluster_blocks <= 2,
    )


ASSUMED_THREADS = (128, 256, 512)
"""Block sizes that a summary shows if the launch is unknown."""


class Summary(Struct, frozen=True, kw_only=True):
    """Occupancy and local memory of a kernel on its device."""

    occupancy: Occupancy | None
    """Occupancy at the known launch, or at the best block size if it is unknown; ``None``: see ``unknown``."""
    assumed: bool
    """Whether the launch is unknown. ``occupancy`` is then the best case, without dynamic shared memory."""
    launch: Launch | None = None
    """Launch that ``occupancy`` is for; ``None`` if unknown."""
    at_threads: tuple[tuple[int, Occupancy], ...] = ()
    """(threads per block, occupancy) at 128, 256 and 512 threads, if the launch is unknown."""
    local_memory: Footprint | None = None
    """Local memory that its stack reserves on the GPU; ``None`` without stack in the input, or if it is 0."""
    clusters: Clusters | None = None
    """Active clusters of the launch; ``None`` if it has none."""
    barriers_assumed: bool = False
    """Whether the input lacks the number of barriers and 1 is assumed."""
    unknown: str = ""
    """One line that explains a missing occupancy; empty if there is one."""

    @property
    def at_most(self) -> bool:
        """Whether ``occupancy`` is only an upper bound, because the launch or its dynamic shared memory is unknown.

        A kernel that cannot launch at the best block size, or without dynamic shared memory, never can: that is exact.
        """
        if self.occupancy is None:
            return self.assumed
        return self.occupancy.can_launch and (self.launch is None or self.launch.dynamic_shared_bytes is None)

    @property
    def by_bounds(self) -> bool:
        """Whether the block size is only an upper limit from launch bounds."""
        return self.launch is not None and self.launch.source == "bounds"

    @property
    def mark(self) -> str:
        """Prefix of its values in tables: ``≤`` for an upper bound, ``~`` for a block size from launch bounds, else
        empty."""
        return "≤" if self.at_most else "~" if self.by_bounds else ""

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """Limiting resources; empty without occupancy. An assumed barrier count is never one."""
        if self.occupancy is None:
            return ()
        return tuple(name for name in self.occupancy.limiters if not (name == "barriers" and self.barriers_assumed))

    @property
    def findings(self) -> tuple[tuple[Limiter, str], ...]:
        """(limiter, its values) of each limiter; empty if the launch is unknown."""
        if self.occupancy is None or self.at_most:
            return ()
        return tuple(each for each in findings(self.occupancy) if each[0] in self.limiters)

    @property
    def cells(self) -> dict[str, str]:
        """Cells for a table: ``blocks``, ``warps``, ``occupancy``, ``limiter``, with their :attr:`mark`."""
        if self.occupancy is None:
            return {"blocks": "", "warps": "", "occupancy": "", "limiter": ""}
        return {
            "blocks": "" if self.assumed else f"{self.mark}{self.occupancy.resident_blocks}",
            "warps": f"{self.mark}{self.occupancy.active_warps}",
            "occupancy": f"{self.mark}{percent(self.occupancy.fraction, self.at_most)}",
            "limiter": limited_by(self.limiters) if self.occupancy.can_launch else "cannot launch",
        }

    @property
    def line(self) -> str:
        """One line in words, for a report on one kernel."""
        if self.occupancy is None:
            return f"occupancy unknown: {self.unknown}"
        if not self.assumed:
            if not self.occupancy.can_launch:
                return "cannot launch: " + "; ".join(self.occupancy.reasons)
            return (
                f"{'at most ' if self.at_most else ''}{count(self.occupancy.resident_blocks, 'block')}/SM,"
                f" {self.occupancy.active_warps} of {count(self.occupancy.max_warps, 'warp')}"
                f" ({percent(self.occupancy.fraction, self.at_most)}),"
                f" limited by {limited_by(self.limiters)}"
                + (" or its dynamic shared memory, which is unknown" if self.at_most else "")
                + (" (block size from its launch bounds)" if self.by_bounds else "")
            )
        sizes = ", ".join(f"{percent(result.fraction)} at {threads} threads" for threads, result in self.at_threads)
        most = percent(self.occupancy.fraction, at_most=True)
        return f"at most {most} occupancy, launch unknown; without dynamic shared memory: {sizes}"


def summarise(usage: Usage, arch: str | None, launch: Launch | None = None) -> Summary:
    """Occupancy and local-memory footprint of one kernel.

    Missing static shared memory counts as none, because ptxas prints it only if there is some. Without ``launch``, or
    with an ``assumed`` one, the result is a range marked as such.

    Never raises for content of a log: an unknown arch or missing registers give a :class:`Summary` with ``unknown``. An
    impossible launch raises :class:`~spillscan.UsageError`, because it comes from the user.
    """
    if arch is None:
        return Summary(occupancy=None, assumed=launch is None, unknown="the input names no arch")
    try:
        device, gpu = resolve(arch)
    except UsageError as error:
        return Summary(occupancy=None, assumed=launch is None, unknown=error.what)
    stack = usage.cumulative_stack_bytes or usage.stack_bytes
    reserved = footprint(device, stack, gpu) if stack else None
    if usage.registers is None or usage.registers > 256:
        unknown = "no registers in the input" if usage.registers is None else f"{usage.registers} registers"
        return Summary(occupancy=None, assumed=launch is None, local_memory=reserved, unknown=unknown)
    barriers = 1 if usage.barriers is None else min(usage.barriers, device.barriers_per_block)
    known = launch or Launch(threads_per_block=ASSUMED_THREADS[0], source="assumed")
    static = usage.shared_bytes or 0
    assumed = known.source == "assumed"
    at: tuple[tuple[int, Occupancy], ...] = ()
    if assumed:
        occupancy, at = _over_block_sizes(arch, known, usage.registers, static, barriers)
    else:
        occupancy = _at_launch(arch, known, usage.registers, static, barriers)
    grouped = None
    if known.cluster_blocks != 1 and (device.clusters or known.source in ("given", "policy", "override")):
        grouped = clusters(occupancy, known.cluster_blocks, gpu.multiprocessors if gpu else None)
    return Summary(
        occupancy=occupancy,
        assumed=assumed,
        clusters=grouped,
        launch=None if assumed else launch,
        at_threads=at,
        local_memory=reserved,
        barriers_assumed=usage.barriers is None,
    )


@lru_cache(maxsize=16384)
def _at_launch(arch: str, launch: Launch, registers: int, static_shared_bytes: int, barriers: int) -> Occupancy:
    """Occupancy of a launch; cached, because many kernels have equal values."""
    configuration = launched(
        resolve(arch)[0], launch, registers=registers, static_shared_bytes=static_shared_bytes, barriers=barriers
    )
    return resident(configuration)


@lru_cache(maxsize=4096)
def _over_block_sizes(
    arch: str, launch: Launch, registers: int, static_shared_bytes: int, barriers: int
) -> tuple[Occupancy, tuple[tuple[int, Occupancy], ...]]:
    """Occupancy at the best block size, and at each of the assumed sizes; cached, because dozens of sizes are tried."""
    from spillscan.occupancy.headroom import best_block_sizes, changed  # a known launch needs no other size

    configuration = _at_launch(arch, launch, registers, static_shared_bytes, barriers).configuration
    at = tuple((threads, resident(changed(configuration, "threads", threads))) for threads in ASSUMED_THREADS)
    return best_block_sizes(configuration).occupancy or resident(configuration), at


def percent(fraction: float, at_most: bool = False) -> str:
    """Percentage with four digits, such as ``75%`` or ``31.25%``; ``at_most`` rounds up, as for an upper bound.

    Occupancies are sums of powers of two or three, so four digits suffice.
    """
    share = 100 * fraction
    return f"{math.ceil(100 * share) / 100 if at_most else share:.4g}%"


def whole(amount: float, at_most: bool) -> int:
    """Nearest whole number; ``at_most`` rounds up, as for an upper bound."""
    return math.ceil(amount) if at_most else round(amount)
