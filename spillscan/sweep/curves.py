"""Outcomes of compilations into curves: the log says registers and spills, the machine code loops and stack. Pure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from spillscan import binary
from spillscan import logs as buildlog
from spillscan.errors import UsageError
from spillscan.inputs.source import Stream
from spillscan.join import attach_code
from spillscan.model import Kernel, KernelKey, Launch, LaunchBounds, Usage
from spillscan.model.code import SassFunction
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.summary import Summary, summarise
from spillscan.patterns import matches
from spillscan.sweep import advice
from spillscan.sweep.compilers import Compiled
from spillscan.sweep.model import AS_IS, Curve, Depth, Point, Setting
from spillscan.sweep.ptx import PtxEntry

_NAME = "ptxas -v"
_REMARKS = (
    *("register_floor", "register_cap_ignored"),
    *("min_blocks_out_of_range", "min_blocks_ignored", "register_mismatch", "insufficient_registers"),
)
"""Kinds of messages about registers and bounds that name the kernel, and are more than that a cap is obeyed."""


def kernels_of(outcome: Compiled) -> dict[str, Kernel]:
    """Every entry that was compiled, by symbol."""
    logged = buildlog.read(Stream(io.BytesIO(outcome.log), _NAME), _NAME).kernels
    functions = [item for item in binary.items(outcome.cubin, _NAME) if isinstance(item, SassFunction)]
    joined, _ = attach_code(logged, functions)
    unlinked = {item.symbol for item in functions if item.final is False}
    entries = (kernel for kernel in joined if kernel.role == "entry")
    return {
        kernel.key.symbol: replace(kernel, final=False) if kernel.key.symbol in unlinked else kernel
        for kernel in entries
    }


def stand_in(entry: PtxEntry, arch: str) -> Kernel:
    """What patterns and launches are held against: the kernel as its PTX declares it."""
    bounds = None
    if entry.threads is not None:
        bounds = LaunchBounds(max_threads=entry.max_threads, required_threads=entry.required_threads)
    return Kernel(
        key=KernelKey(symbol=entry.symbol, arch=arch),
        role="entry",
        usage=Usage(),
        launch_bounds=bounds,
        dynamic_shared=entry.dynamic_shared,
    )


def launch_at(setting: Setting, entry: PtxEntry, arch: str, launches: Launches) -> Launch | None:
    """How the kernel is launched at a setting: blocks are as large as bounds under trial say."""
    known = launches.launch_of(stand_in(entry, arch))
    if setting.kind != "bounds" or setting.threads is None:
        return known
    if known is None:
        return Launch(threads_per_block=setting.threads, source="bounds")
    return replace(known, threads_per_block=setting.threads)


def point(
    setting: Setting, entry: PtxEntry, arch: str, outcome: Compiled, kernel: Kernel | None, launches: Launches
) -> Point:
    """One kernel at one setting."""
    if outcome.failure:
        return Point(setting=setting, failure=outcome.failure)
    if kernel is None:
        return Point(setting=setting, failure="ptxas says nothing of it")
    launch = launch_at(setting, entry, arch, launches)
    summary = _summary(kernel, arch, launch)
    occupancy = summary.occupancy if summary else None
    known = occupancy is not None and summary is not None and not summary.at_most
    spills = kernel.spills
    return Point(
        setting=setting,
        registers=kernel.usage.registers,
        spill_store_bytes=spills[0] if spills else None,
        spill_load_bytes=spills[1] if spills else None,
        stack_bytes=kernel.usage.stack_bytes,
        shared_bytes=kernel.usage.shared_bytes,
        depths=_depths(kernel),
        threads=launch.threads_per_block if launch and known else None,
        blocks=occupancy.resident_blocks if occupancy and known else None,
        warps=occupancy.active_warps if occupancy else None,
        max_warps=occupancy.max_warps if occupancy else None,
        limiters=_limiters(summary),
        overridden=entry.overrides_cap if setting.kind == "cap" else "",
        remarks=tuple(advisory.text for advisory in kernel.advisories if advisory.kind in _REMARKS),
        final=kernel.final,
    )


def _summary(kernel: Kernel, arch: str, launch: Launch | None) -> Summary | None:
    try:
        return summarise(kernel.usage, arch, launch)
    except UsageError:
        return None


def _limiters(summary: Summary | None) -> tuple[str, ...]:
    if summary is None or summary.occupancy is None:
        return ()
    return summary.limiters if summary.occupancy.can_launch else ("cannot launch",)


def _depths(kernel: Kernel) -> tuple[Depth, ...] | None:
    if kernel.sass is None:
        return None
    found: dict[int | None, tuple[int, int]] = {}
    for group, count in kernel.sass.local.groups.items():
        if group.kind == "spill":
            instructions, moved = found.get(group.depth, (0, 0))
            found[group.depth] = instructions + count, moved + count * group.bytes
    order = sorted(found, key=lambda depth: -1 if depth is None else depth, reverse=True)
    return tuple(Depth(depth=depth, instructions=found[depth][0], bytes=found[depth][1]) for depth in order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One input for one arch by one release of ptxas, at every setting."""

    input: str
    """The file, as the user named it."""
    arch: str
    """Real arch."""
    toolkit: str
    """Release of ptxas."""
    entries: tuple[PtxEntry, ...]
    """Its kernels, as its PTX declares them."""
    own_cap: int | None
    """``-maxrregcount`` of its build."""
    outcomes: tuple[tuple[Setting, Compiled], ...]
    """What came of each setting, in their order."""


def curves_of(series: Series, launches: Launches, globs: Sequence[str] = ()) -> list[Curve]:
    """A curve for each kernel that one of ``globs`` names (all, without any), in the order of the PTX."""
    chosen = [entry for entry in series.entries if is_chosen(entry, series.arch, globs)]
    found = [(setting, outcome, {} if outcome.failure else kernels_of(outcome)) for setting, outcome in series.outcomes]
    return [
        _curve(
            series,
            entry,
            launches,
            tuple(
                point(setting, entry, series.arch, outcome, kernels.get(entry.symbol), launches)
                for setting, outcome, kernels in found
            ),
        )
        for entry in chosen
    ]


def is_chosen(entry: PtxEntry, arch: str, globs: Sequence[str]) -> bool:
    """Whether one of ``globs`` names the kernel; without globs, every one is."""
    kernel = stand_in(entry, arch)
    return not globs or any(matches(kernel, pattern) for pattern in globs)


def damage(curve: Curve) -> tuple[object, ...]:
    """Sort key: most spilled bytes as it is, then most registers, first."""
    point = curve.as_is
    return -(point.spill_bytes or 0), -(point.registers or 0)


def _curve(series: Series, entry: PtxEntry, launches: Launches, points: tuple[Point, ...]) -> Curve:
    marked = advice.mark(points)
    as_is = next((point for point in marked if point.setting == AS_IS), marked[0])
    swept = any(point.setting.kind == "cap" for point in marked)
    return Curve(
        input=series.input,
        symbol=entry.symbol,
        arch=series.arch,
        toolkit=series.toolkit,
        launch=launch_at(AS_IS, entry, series.arch, launches),
        points=marked,
        facts=advice.facts(marked),
        flags=tuple(advice.flags(entry, series.arch, as_is, series.own_cap, swept)),
    )
