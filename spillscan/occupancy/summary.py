"""The occupancy of one kernel of a log: true where the launch is known, an honest range where it is not."""

from __future__ import annotations

from dataclasses import dataclass

from spillscan.errors import UsageError
from spillscan.model import Usage
from spillscan.occupancy.advice import Advice, advice
from spillscan.occupancy.checks import check
from spillscan.occupancy.clusters import Clusters, clusters
from spillscan.occupancy.curves import best_block_sizes
from spillscan.occupancy.devices import resolve
from spillscan.occupancy.footprint import Footprint, footprint
from spillscan.occupancy.headroom import with_threads
from spillscan.occupancy.model import Configuration, Launch, Limiter, Occupancy
from spillscan.occupancy.rules import resident

ASSUMED_THREADS = (128, 256, 512)
"""Block sizes that a summary shows where the launch is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a kernel's resources mean on its device."""

    occupancy: Occupancy | None
    """At the known launch; at the best block size where the launch is not known; ``None``: see
    ``unknown``.
    """
    assumed: bool
    """``True``: nobody said how the kernel is launched. ``occupancy`` is then the best case, without dynamic
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
    def limiters(self) -> tuple[Limiter, ...]:
        """What binds; empty where there is no occupancy. An assumed barrier count binds nothing."""
        if self.occupancy is None:
            return ()
        return tuple(name for name in self.occupancy.limiters if not (name == "barriers" and self.barriers_assumed))

    @property
    def advice(self) -> tuple[Advice, ...]:
        """How to press less on what binds; empty where the launch is not known."""
        if self.occupancy is None or self.assumed:
            return ()
        return tuple(entry for entry in advice(self.occupancy) if entry.limiter in self.limiters)

    @property
    def cells(self) -> dict[str, str]:
        """Cells for a table: ``blocks``, ``warps``, ``occupancy``, ``limiter``; ``≤`` marks what is
        assumed.
        """
        if self.occupancy is None:
            return {"blocks": "", "warps": "", "occupancy": "", "limiter": ""}
        mark = "≤" if self.assumed else ""
        blocks = "" if self.assumed else f"{self.occupancy.resident_blocks}"
        return {
            "blocks": blocks,
            "warps": f"{mark}{self.occupancy.active_warps}",
            "occupancy": f"{mark}{100 * self.occupancy.fraction:.0f} %",
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
            bound = self.launch is not None and self.launch.source == "maxntid"
            return (
                f"{self.occupancy.resident_blocks} blocks/SM, {self.occupancy.active_warps} of"
                f" {self.occupancy.max_warps} warps ({_percent(self.occupancy)}), limited by"
                f" {'+'.join(self.limiters)}" + (" (block size from its launch bounds)" if bound else "")
            )
        sizes = ", ".join(f"{threads}: {_percent(found)}" for threads, found in self.at_threads)
        return (
            f"at most {_percent(self.occupancy)} over all block sizes, by threads per block {sizes}"
            " (assumed: launch not known, no dynamic shared memory)"
        )


def summarise(usage: Usage, arch: str | None, launch: Launch | None = None) -> Summary:
    """Occupancy and local-memory footprint of one kernel.

    Static shared memory that the input does not print counts as none, since ptxas prints it only where there
    is some. Without ``launch``, or with one whose source is ``assumed``, the answer is a range and says so.

    Never raises for what a log may hold: an unknown arch or missing registers give a :class:`Summary` with
    ``unknown``. A launch that is impossible raises :class:`~spillscan.errors.UsageError`: it comes from the
    user, not from a log.
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
    configuration = check(
        Configuration(
            device=device,
            registers=usage.registers,
            threads_per_block=known.threads_per_block,
            static_shared_bytes=static,
            dynamic_shared_bytes=known.dynamic_shared_bytes,
            max_dynamic_shared_bytes=known.max_dynamic_shared_bytes,
            carveout_percent=known.carveout_percent,
            barriers=barriers,
        )
    )
    assumed = known.source == "assumed"
    at: tuple[tuple[int, Occupancy], ...] = ()
    occupancy: Occupancy | None = resident(configuration)
    if assumed:
        at = tuple((threads, resident(with_threads(configuration, threads))) for threads in ASSUMED_THREADS)
        occupancy = best_block_sizes(configuration).occupancy or occupancy
    grouped = None
    if known.cluster_blocks != 1 and occupancy is not None:
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


def _percent(occupancy: Occupancy) -> str:
    return f"{100 * occupancy.fraction:.4g} %"
