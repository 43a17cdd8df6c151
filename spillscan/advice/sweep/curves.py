"""Outcomes of compilations into curves (the log says registers and spills, the machine code loops and stack), and what
a curve shows: its best points, its trade-off in a sentence, bounds that do not do what they seem to. Facts of residency
and spills, not of speed. Pure.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from spillscan.advice.sweep.compilers import Compiled
from spillscan.advice.sweep.loops import grown, loops_of
from spillscan.advice.sweep.model import AS_IS, Advice, Curve, Depth, Point, Ran, Setting
from spillscan.advice.sweep.proposals import Proposal
from spillscan.advice.sweep.ptx import PtxEntry
from spillscan.model import Kernel, KernelKey, Launch, LaunchBounds, Usage
from spillscan.model.code import SassFunction
from spillscan.model.patterns import matches
from spillscan.occupancy.bounds import largest_block, register_cap
from spillscan.occupancy.devices import Device, device
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.summary import Summary, summarise
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.reading import logs as buildlog
from spillscan.reading.binary import records
from spillscan.reading.inputs.source import Stream
from spillscan.reading.join import attach_code

_NAME = "ptxas -v"
_REMARKS = (
    *("register_floor", "register_cap_ignored"),
    *("min_blocks_out_of_range", "min_blocks_ignored", "register_mismatch", "insufficient_registers"),
)
"""Kinds of messages about registers and bounds that name the kernel, and are more than that a cap is obeyed."""


def kernels_of(outcome: Compiled) -> dict[str, Kernel]:
    """Every entry that was compiled, by symbol."""
    logged = buildlog.read(Stream(io.BytesIO(outcome.log), _NAME), _NAME).kernels
    functions = [item for item in records.items(outcome.cubin, _NAME) if isinstance(item, SassFunction)]
    joined, _ = attach_code(logged, functions)
    unlinked = {item.symbol for item in functions if item.final is False}
    entries = (kernel for kernel in joined if kernel.role == "entry")
    return {
        kernel.key.symbol: structs.replace(kernel, final=False) if kernel.key.symbol in unlinked else kernel
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
    return structs.replace(known, threads_per_block=setting.threads)


def point(
    setting: Setting, entry: PtxEntry, arch: str, outcome: Compiled, kernel: Kernel | None, launches: Launches
) -> Point:
    """One kernel at one setting."""
    if outcome.failure:
        return Point(setting=setting, failure=outcome.failure, ran=Ran(status=outcome.status))
    if kernel is None:
        return Point(setting=setting, failure="there is no such kernel at this point", ran=Ran(status=outcome.status))
    launch = launch_at(setting, entry, arch, launches)
    summary = _summary(kernel, arch, launch)
    occupancy = summary.occupancy if summary else None
    known = occupancy is not None and summary is not None and not summary.at_most
    spills = kernel.spills
    return Point(
        setting=setting,
        ran=Ran(status=outcome.status, in_ptx=outcome.in_ptx),
        registers=kernel.usage.registers,
        spill_store_bytes=spills[0] if spills else None,
        spill_load_bytes=spills[1] if spills else None,
        stack_bytes=kernel.usage.stack_bytes,
        code_bytes=kernel.sass.code_bytes if kernel.sass else None,
        shared_bytes=kernel.usage.shared_bytes,
        depths=_depths(kernel),
        threads=launch.threads_per_block if launch and known else None,
        blocks=occupancy.resident_blocks if occupancy and known else None,
        warps=occupancy.active_warps if occupancy else None,
        max_warps=occupancy.max_warps if occupancy else None,
        limiters=_limiters(summary),
        overridden=entry.overrides_cap if setting.kind == "cap" and not setting.knobs else "",
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
    for group, number in kernel.sass.local.groups.items():
        if group.kind == "spill":
            instructions, moved = found.get(group.depth, (0, 0))
            found[group.depth] = instructions + number, moved + number * group.bytes
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
            dict(series.outcomes),
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


def _curve(
    series: Series, entry: PtxEntry, launches: Launches, points: tuple[Point, ...], outcomes: Mapping[Setting, Compiled]
) -> Curve:
    marked = mark(points)
    as_is = next((point for point in marked if point.setting == AS_IS), marked[0])
    swept = any(point.setting.kind == "cap" for point in marked)
    return Curve(
        input=series.input,
        symbol=entry.symbol,
        arch=series.arch,
        toolkit=series.toolkit,
        launch=launch_at(AS_IS, entry, series.arch, launches),
        points=marked,
        facts=facts(marked),
        loops=grown(marked, lambda point: loops_of(outcomes[point.setting].cubin, entry.symbol)),
        flags=tuple(flags(entry, series.arch, as_is, series.own_cap, swept)),
    )


_MOST_STEPS = 4
"""Points that the sentence names."""


def mark(points: Sequence[Point]) -> tuple[Point, ...]:
    """``points``, the best of them marked.

    A point is best where no other has at least as many resident warps, no more bytes of spills in loops and no more
    bytes of spills, and is better in one of them. Of equal points the kernel as it is is marked: it needs no change;
    then the one with most registers, for ptxas had most freedom there, then the first.
    """
    able = [index for index, point in enumerate(points) if _key(point) is not None and not point.overridden]
    best: set[int] = set()
    for index in able:
        if not any(_beats(points, other, index) for other in able if other != index):
            best.add(index)
    return tuple(structs.replace(point, best=index in best) for index, point in enumerate(points))


def _key(point: Point) -> tuple[int, int, int] | None:
    """(warps, -bytes in loops, -bytes), each the more the better; ``None`` where not known, or it cannot run."""
    if not point.warps or point.spill_bytes is None:
        return None
    loops = point.loop_spill_bytes
    return point.warps, -(point.spill_bytes if loops is None else loops), -point.spill_bytes


def _beats(points: Sequence[Point], one: int, other: int) -> bool:
    mine, its = _key(points[one]) or (), _key(points[other]) or ()
    if mine == its:
        return _preference(points[one], one) > _preference(points[other], other)
    return all(a >= b for a, b in zip(mine, its, strict=True))


def _preference(point: Point, place: int) -> tuple[bool, int, int]:
    return point.setting == AS_IS, point.registers or 0, -place


def facts(points: Sequence[Point]) -> str:
    """The trade-off over marked ``points`` in one sentence; empty where nothing was compiled."""
    known = [point for point in points if _key(point) is not None and not point.overridden]
    if not known:
        return ""
    clean = [point for point in known if point.spill_bytes == 0]
    if clean:
        start = min(clean, key=lambda point: (-(point.warps or 0), point.registers or 0))
        last = min(clean, key=lambda point: point.registers or 0)
        swept = any(point.spill_bytes for point in known)
        said = "last spill-free" if swept and last.registers == start.registers else "spill-free"
        text = f"{start.registers} registers: {said}, {_residency(start)}"
    else:
        start = min(known, key=lambda point: (_loops(point), point.spill_bytes or 0, -(point.warps or 0)))
        least = "spills at every point, least at " if len(known) > 1 else ""
        text = f"{least}{start.registers} registers: {_spills(start)}, {_residency(start)}"
    beyond = [point for point in known if point.best and (point.warps or 0) > (start.warps or 0)]
    beyond.sort(key=lambda point: (point.warps or 0, -(point.registers or 0)))
    steps = [f"{point.registers}: {_gain(start, point)} for {_spills(point)}" for point in beyond[:_MOST_STEPS]]
    if not beyond and any((point.registers or 0) < (start.registers or 0) for point in known):
        steps = ["fewer bring none more"]
    return "; ".join((text, *steps))


def _loops(point: Point) -> int:
    loops = point.loop_spill_bytes
    return loops if loops is not None else point.spill_bytes or 0


def _residency(point: Point) -> str:
    if point.blocks is None:
        return f"at most {count(point.warps or 0, 'warp')}"
    return count(point.blocks, "block")


def _gain(start: Point, point: Point) -> str:
    if start.blocks is not None and point.blocks is not None and start.threads == point.threads:
        return f"+{count(point.blocks - start.blocks, 'block')}"
    return f"+{count((point.warps or 0) - (start.warps or 0), 'warp')}"


def _spills(point: Point) -> str:
    """``96 B of loop-free spills``, ``400 B of spills, 96 B of them in loops``, ``no spills``."""
    if not point.spill_bytes:
        return "no spills"
    loops = point.loop_spill_bytes
    if loops is None:
        return f"{point.spill_bytes:,} B of spills"
    if loops == 0:
        return f"{point.spill_bytes:,} B of loop-free spills"
    return f"{point.spill_bytes:,} B of spills ({loops:,} B in loops)"


_LARGEST_BLOCK = 1024


def flags(entry: PtxEntry, arch: str, as_is: Point, own_cap: int | None, caps_swept: bool) -> Iterator[str]:
    """Sentences on one kernel; ``own_cap`` is its build's ``-maxrregcount``."""
    try:
        here = device(arch)
    except UsageError:
        return
    if entry.overrides_cap and (own_cap is not None or caps_swept):
        cap = f"-maxrregcount={own_cap}" if own_cap is not None else "-maxrregcount"
        yield (
            f"{entry.overrides_cap} overrides {cap}: ptxas ignores the cap (maxnreg and bounds do not)"
            + (", so cap alone has no row" if caps_swept else "")
        )
    yield from _beyond(entry, here)
    if entry.threads is None and as_is.registers is not None:
        yield from _too_large(as_is.registers, here)


def _beyond(entry: PtxEntry, here: Device) -> Iterator[str]:
    threads, blocks = entry.threads, entry.min_blocks
    if threads is not None and threads > here.max_threads_per_block:
        yield f"its bounds of {threads:,} threads are more than a block may have ({here.max_threads_per_block:,})"
    elif threads is not None and blocks is not None:
        ignored = register_cap(here, threads, blocks).ignored if blocks >= 1 else ""
        if ignored:
            yield f"{entry.overrides_cap}: {ignored}; ptxas ignores the blocks"
    elif blocks is not None:
        yield f".minnctapersm {blocks} without a block size: ptxas ignores it"


def _too_large(registers: int, here: Device) -> Iterator[str]:
    """Registers are handed out to whole warps, and a block's must fit into what one block may have."""
    if register_cap(here, _LARGEST_BLOCK).registers >= registers:
        return
    threads = largest_block(here, registers)
    most = register_cap(here, _LARGEST_BLOCK).registers
    yield (
        f"without launch bounds, {registers} registers: blocks of more than {threads:,} threads cannot be launched"
        f" ({_LARGEST_BLOCK:,} need at most {most} registers)"
    )


def advised(curve: Curve, points: Sequence[tuple[Proposal, Point]], why_none: str) -> Curve:
    """``curve`` with what came of the proposals: the smallest step that ends the spills, else that which leaves the
    fewest, and all steps to more blocks. Points and advice are marked together: none is best that another beats."""
    before = curve.as_is
    relaxed = [(each, point) for each, point in points if each.direction == "no spills"]
    fewer = [pair for pair in relaxed if _is_less(pair[1].spill_bytes, before.spill_bytes)]
    kept = [min(fewer, key=lambda pair: pair[1].spill_bytes or 0)] if fewer else []  # of equal ones the smallest step
    kept += [(each, point) for each, point in points if each.direction == "more blocks"]
    marked = mark([*curve.points, *(point for _, point in kept)])
    own, others = marked[: len(curve.points)], marked[len(curve.points) :]
    found = tuple(
        Advice(
            direction=each.direction,
            point=point,
            cap=each.cap,
            gain=0 if point.blocks is None else point.blocks - (before.blocks or 0),
        )
        for (each, _), point in zip(kept, others, strict=True)
    )
    return replace(curve, points=own, facts=facts(marked), advice=found, no_advice=why_none)


def _is_less(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other
