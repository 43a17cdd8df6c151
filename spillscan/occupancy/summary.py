"""The occupancy of one kernel of a log: true where the launch is known, an honest range where it is not; what its stack
reserves, what clusters make of it, and what binds in words. Modest: occupancy is a means."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from msgspec import Struct

from spillscan.model import Launch, Usage
from spillscan.occupancy.devices import Device, Gpu, resolve
from spillscan.occupancy.formula import launched, resident
from spillscan.occupancy.headroom import (
    Headroom,
    Resource,
    best_block_sizes,
    bounds_for_more_blocks,
    changed,
    headroom,
)
from spillscan.occupancy.model import LIMITERS, Limiter, Occupancy
from spillscan.output.errors import UsageError

# ---- local memory ----------------------------------------------------------------------------------------------------


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


# ---- clusters --------------------------------------------------------------------------------------------------------


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


# ---- advice ----------------------------------------------------------------------------------------------------------


LOW_FRACTION = 0.25
"""Below about this, low occupancy is worth a look where latency is not hidden otherwise."""

LABELS: dict[Limiter, str] = {
    "warps": "warp slots",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "block slots",
    "barriers": "named barriers",
    "virtual_resources": "virtual resources",
}


class Advice(Struct, frozen=True, kw_only=True):
    """One binding limit."""

    limiter: Limiter
    """The resource that allows no more blocks than are resident."""
    finding: str
    """What is so, in figures."""
    remedy: str = ""
    """How to press less on it; empty where nothing is to be gained."""
    trade_off: str = ""
    """What that costs; empty where nothing is to be gained."""


def count(number: int, what: str = "block") -> str:
    """``1 block``, ``2 blocks``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def advice(occupancy: Occupancy) -> tuple[Advice, ...]:
    """One entry for each binding limit, in the order of ``LIMITERS``."""
    ways = {way.resource: way for way in headroom(occupancy)}
    return tuple(_ABOUT[name](occupancy, ways) for name in LIMITERS if name in occupancy.limiters)


def verdict(occupancy: Occupancy) -> str:
    """One plain sentence on what the figure is worth."""
    if not occupancy.can_launch:
        return "This launch fails."
    if occupancy.fraction >= 1:
        return "Every warp slot is in use; occupancy limits nothing here."
    if occupancy.fraction < LOW_FRACTION:
        return (
            "Below about 25 %: worth a look if the kernel waits on memory or other long latencies. A spill-free GEMM at"
            " low occupancy may be at its best."
        )
    return "Occupancy is a means: more resident warps help only where the present ones leave latency uncovered."


Ways = dict[Resource, Headroom]


def _warps(occupancy: Occupancy, ways: Ways) -> Advice:
    warps = occupancy.configuration.warps_per_block
    if occupancy.resident_blocks == 0 or occupancy.unused_warps == 0:
        return Advice(
            limiter="warps",
            finding=occupancy.reasons[0] if occupancy.reasons else f"all {occupancy.max_warps} warp slots are in use",
            remedy="a smaller block" if occupancy.reasons else "",
            trade_off="",
        )
    best = best_block_sizes(occupancy.configuration)
    better = best.occupancy is not None and best.occupancy.active_warps > occupancy.active_warps
    return Advice(
        limiter="warps",
        finding=f"blocks of {warps} warps leave {occupancy.unused_warps} of {occupancy.max_warps} slots empty",
        remedy=f"another block size: {best.threads_per_block} threads fill {best.occupancy.active_warps}"
        if better and best.occupancy
        else "",
        trade_off="the kernel must work with that block size" if better else "",
    )


def _registers(occupancy: Occupancy, ways: Ways) -> Advice:
    configuration = occupancy.configuration
    finding = (
        f"a block takes {occupancy.allocated_registers_per_block:,} of the SM's"
        f" {configuration.device.registers_per_sm:,} ({configuration.registers} a thread)"
    )
    bounds = bounds_for_more_blocks(occupancy)
    step = ways["registers"].more_blocks
    if step is None:
        return Advice(limiter="registers", finding=finding)
    remedy = f"{step.after} registers give {count(step.blocks_after)}: fewer live values, smaller tiles"
    if bounds is not None:
        remedy += f", or __launch_bounds__({bounds.threads}, {bounds.blocks})"
    return Advice(
        limiter="registers",
        finding=finding,
        remedy=remedy,
        trade_off="values that no longer fit are spilled to local memory; compare the spill bytes afterwards",
    )


def _shared(occupancy: Occupancy, ways: Ways) -> Advice:
    step = ways["shared"].more_blocks
    finding = (
        f"{occupancy.allocated_shared_bytes_per_block:,} B a block (with the driver's reserve) of"
        f" {occupancy.shared_bytes_per_sm:,} B an SM"
    )
    if step is None:
        return Advice(limiter="shared_memory", finding=finding)
    return Advice(
        limiter="shared_memory",
        finding=finding,
        remedy=f"{step.before - step.after:,} B less a block give {count(step.blocks_after)}: smaller tiles,"
        f" fewer stages",
        trade_off="less reuse on chip, more traffic to L2 and memory",
    )


def _blocks(occupancy: Occupancy, ways: Ways) -> Advice:
    full = occupancy.unused_warps == 0
    return Advice(
        limiter="blocks",
        finding=f"all {occupancy.limit_blocks} block slots are in use, with"
        f" {occupancy.configuration.warps_per_block} warps each",
        remedy="" if full else "larger blocks: each slot then holds more warps",
        trade_off="" if full else "barriers wait for more warps, and the last wave of blocks is coarser",
    )


def _barriers(occupancy: Occupancy, ways: Ways) -> Advice:
    used = occupancy.configuration.barriers
    step = ways["barriers"].more_blocks
    finding = f"{used} named barriers a block of {occupancy.configuration.device.barriers_per_sm} an SM"
    if step is None or occupancy.limit_barriers == occupancy.limit_blocks:
        return Advice(limiter="barriers", finding=finding)
    return Advice(
        limiter="barriers",
        finding=finding,
        remedy=f"{step.after} barriers give {count(step.blocks_after)}: reuse barrier numbers, and name them"
        f" by constants",
        trade_off="producers and consumers that shared no barrier may then wait for each other",
    )


def _virtual(occupancy: Occupancy, ways: Ways) -> Advice:
    return Advice(
        limiter="virtual_resources",
        finding=f"{occupancy.configuration.virtual_resources} virtual resources a block of"
        f" {occupancy.configuration.device.virtual_resources_per_sm} an SM",
    )


_ABOUT: dict[Limiter, Callable[[Occupancy, Ways], Advice]] = {
    "warps": _warps,
    "registers": _registers,
    "shared_memory": _shared,
    "blocks": _blocks,
    "barriers": _barriers,
    "virtual_resources": _virtual,
}


# ---- one kernel ------------------------------------------------------------------------------------------------------


ASSUMED_THREADS = (128, 256, 512)
"""Block sizes that a summary shows where the launch is not known."""


class Summary(Struct, frozen=True, kw_only=True):
    """What a kernel's resources mean on its device."""

    occupancy: Occupancy | None
    """At the known launch; at the best block size where the launch is not known; ``None``: see ``unknown``."""
    assumed: bool
    """``True``: it is not known how the kernel is launched. ``occupancy`` is then the best case, without dynamic
    shared memory, and never a fact."""
    launch: Launch | None = None
    """The launch that ``occupancy`` is for; ``None`` where it is not known."""
    at_threads: tuple[tuple[int, Occupancy], ...] = ()
    """(threads per block, occupancy) at 128, 256 and 512 threads, where the launch is not known."""
    local_memory: Footprint | None = None
    """What its stack reserves on the GPU; ``None`` where the input gives no stack, or it is 0."""
    clusters: Clusters | None = None
    """What the launch's clusters make of it; ``None`` where it has none."""
    barriers_assumed: bool = False
    """``True``: the input did not give the barriers; 1 was taken."""
    unknown: str = ""
    """Why there is no occupancy, one line; empty where there is one."""

    @property
    def at_most(self) -> bool:
        """Whether ``occupancy`` is no more than a bound: nothing says how it is launched, or with how much dynamic
        shared memory. What cannot be launched without any cannot be launched with some."""
        if self.launch is None or self.occupancy is None:
            return self.assumed
        return self.launch.dynamic_shared_bytes is None and self.occupancy.can_launch

    @property
    def by_bounds(self) -> bool:
        """Whether the block size is only what its launch bounds promise."""
        return self.launch is not None and self.launch.source == "bounds"

    @property
    def mark(self) -> str:
        """What tables put before its figures: ``~`` a block size of launch bounds, ``≤`` a bound."""
        return ("~" if self.by_bounds else "") + ("≤" if self.at_most else "")

    @property
    def limiters(self) -> tuple[Limiter, ...]:
        """What binds; empty where there is no occupancy. An assumed barrier count binds nothing."""
        if self.occupancy is None:
            return ()
        return tuple(name for name in self.occupancy.limiters if not (name == "barriers" and self.barriers_assumed))

    @property
    def advice(self) -> tuple[Advice, ...]:
        """How to press less on what binds; empty where the launch is not known."""
        if self.occupancy is None or self.at_most:
            return ()
        return tuple(entry for entry in advice(self.occupancy) if entry.limiter in self.limiters)

    @property
    def cells(self) -> dict[str, str]:
        """Cells for a table: ``blocks``, ``warps``, ``occupancy``, ``limiter``, with their :attr:`mark`."""
        if self.occupancy is None:
            return {"blocks": "", "warps": "", "occupancy": "", "limiter": ""}
        return {
            "blocks": "" if self.assumed else f"{self.mark}{self.occupancy.resident_blocks}",
            "warps": f"{self.mark}{self.occupancy.active_warps}",
            "occupancy": f"{self.mark}{whole(100 * self.occupancy.fraction, self.at_most)} %",
            "limiter": "+".join(self.limiters) if self.occupancy.can_launch else "cannot launch",
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
                f"{'at most ' if self.at_most else ''}{self.occupancy.resident_blocks} blocks/SM,"
                f" {self.occupancy.active_warps} of {self.occupancy.max_warps} warps"
                f" ({percent(self.occupancy.fraction, self.at_most)}),"
                f" limited by {'+'.join(self.limiters)}"
                + (" or its dynamic shared memory, which is not known" if self.at_most else "")
                + (" (block size from its launch bounds)" if self.by_bounds else "")
            )
        sizes = ", ".join(f"{threads}: {percent(found.fraction)}" for threads, found in self.at_threads)
        most = percent(self.occupancy.fraction, at_most=True)
        return (
            f"at most {most} over all block sizes, by threads per block {sizes}"
            " (assumed: launch not known, no dynamic shared memory)"
        )


def summarise(usage: Usage, arch: str | None, launch: Launch | None = None) -> Summary:
    """Occupancy and local-memory footprint of one kernel.

    Static shared memory that the input does not print counts as none, since ptxas prints it only where there is some.
    Without ``launch``, or with one whose source is ``assumed``, the answer is a range and says so.

    Never raises for what a log may hold: an unknown arch or missing registers give a :class:`Summary` with ``unknown``.
    A launch that is impossible raises :class:`~spillscan.UsageError`: it comes from the user, not from a log.
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
        occupancy = resident(
            launched(device, known, registers=usage.registers, static_shared_bytes=static, barriers=barriers)
        )
    grouped = None
    if known.cluster_blocks != 1 and (device.clusters or known.source in ("given", "policy")):
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


@lru_cache(maxsize=4096)
def _over_block_sizes(
    arch: str, launch: Launch, registers: int, static_shared_bytes: int, barriers: int
) -> tuple[Occupancy, tuple[tuple[int, Occupancy], ...]]:
    """At the best block size; and at those that are assumed. Dozens of sizes are tried, and very many kernels have the
    same figures."""
    configuration = launched(
        resolve(arch)[0], launch, registers=registers, static_shared_bytes=static_shared_bytes, barriers=barriers
    )
    at = tuple((threads, resident(changed(configuration, "threads", threads))) for threads in ASSUMED_THREADS)
    return best_block_sizes(configuration).occupancy or resident(configuration), at


def percent(fraction: float, at_most: bool = False) -> str:
    """``75 %``, ``31.25 %``: occupancies are sums of powers of two or three, four digits say enough. A bound is never
    below what it bounds."""
    share = 100 * fraction
    return f"{math.ceil(100 * share) / 100 if at_most else share:.4g} %"


def whole(amount: float, at_most: bool) -> int:
    """The nearest whole number; of a bound the next one up."""
    return math.ceil(amount) if at_most else round(amount)
