"""A profile held against a build, as text: one row for launches that are alike; and as
plain data, of which every key is stable, with units in the names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spillscan.advice.profile.judged import JudgedLaunch
from spillscan.advice.profile.model import FIGURES, Measured
from spillscan.model import Issue
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.summary import percent
from spillscan.output.terminal import RED, Row, Style, fold, hung, table

_HEADER = (
    "kernel", "arch", "n", "block", "dyn smem", "regs", "occ", "ncu occ", "achieved", "limited by", "local",
    "spill inst", "time",
)  # fmt: skip
_SHARE = (
    "spill inst: a share of the instructions executed, not of time; how much time ends with the spills, only a run"
    " without them shows"
)
_SPARE = ("arch", "n", "regs", "dyn smem", "local", "spill inst")
"""What is left out first where the terminal is narrow; of local memory and spills the lines below say what matters."""


def text(judged: Sequence[JudgedLaunch], style: Style) -> Iterator[str]:
    """Lines. ``judged`` comes worst first; of launches that are alike, the worst one's figures are shown."""
    groups = alike(judged)
    shown = groups if style.rows is None else groups[: style.rows]
    yield from table(_HEADER, [_row(group) for group in shown], style, ("kernel", "limited by"), _SPARE)
    yield from fold(len(groups) - len(shown), style)
    if any(len(group) > 1 for group in shown):
        yield "n: launches that are alike; the figures are the worst one's"
    if any(group[0].measured.figure("spill_instructions") for group in shown):
        yield from hung([_SHARE], style)


def alike(judged: Sequence[JudgedLaunch]) -> list[list[JudgedLaunch]]:
    """Launches of one kernel on one kind of device with equal block, shared memory and grid, in the order given."""
    groups: dict[object, list[JudgedLaunch]] = {}
    for each in judged:
        launch = each.launch
        same = (launch.kernel, launch.arch, launch.block, launch.measured.figure("dynamic_shared_bytes"), launch.grid)
        groups.setdefault(same, []).append(each)
    return list(groups.values())


def _block(each: JudgedLaunch) -> str:
    block = each.launch.block
    return "-" if block is None else "x".join(map(str, block)).removesuffix("x1").removesuffix("x1")


def _row(group: Sequence[JudgedLaunch]) -> Row:
    worst = group[0]
    launch, measured = worst.launch, worst.measured
    cells = (
        worst.name,
        launch.arch or "-",
        str(len(group)),
        _block(worst),
        _rounded(measured.figure("dynamic_shared_bytes"), "dynamic_shared_bytes" in measured.rounded),
        "-" if measured.figure("registers") is None else str(measured.figure("registers")),
        _percent(None if worst.occupancy is None else 100 * worst.occupancy.fraction),
        _percent(measured.figure("theoretical_percent")),
        _percent(measured.figure("achieved_percent")),
        limited_by(worst.limiters) or "-",
        _local(measured),
        _share(measured.spill_instruction_share),
        "-" if measured.figure("duration_ns") is None else time_text(measured.figure("duration_ns")),
    )
    return cells, RED if measured.figure("spill_instructions") else ""


def _rounded(figure: int | None, rounded: bool) -> str:
    return "-" if figure is None else f"{'~' if rounded else ''}{figure:,}"


def _percent(figure: float | None) -> str:
    return "-" if figure is None else percent(figure / 100).replace(" ", "")


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _local(measured: Measured) -> str:
    """Their share of the traffic; without that the loads and stores that were executed."""
    counts = [measured.figure(f"local_{way}_instructions") for way in ("load", "store")]
    if measured.local_share is not None or None in counts:
        return _share(measured.local_share)
    return "/".join(_short(count) for count in counts)


def _short(count: float) -> str:
    """``1.03G``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def time_text(nanoseconds: float) -> str:
    """``1.04 ms``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


_SHOWN_OTHERWISE = ("block_threads", "capability_major", "capability_minor")


def row(judged: JudgedLaunch) -> dict[str, Any]:
    """One launch, flat: lists and pairs are left out."""
    launch, kernel = judged.launch, judged.match.kernel
    measured = launch.measured
    return {
        "kernel": launch.kernel,
        "symbol": None if kernel is None else kernel.key.symbol,
        "unit": None if kernel is None else kernel.key.unit,
        "unmatched": judged.match.reason,
        "launch": launch.number,
        "process": launch.process,
        "context": launch.context,
        "stream": launch.stream,
        "device": launch.device,
        "arch": launch.arch,
        "threads_per_block": launch.threads,
        **{name: measured.figure(name) for name in FIGURES if name not in _SHOWN_OTHERWISE},
        "local_share": measured.local_share,
        "spill_instruction_share": measured.spill_instruction_share,
        "occupancy": None if judged.occupancy is None else judged.occupancy.fraction,
        "resident_blocks": None if judged.occupancy is None else judged.occupancy.resident_blocks,
        "limiters": "+".join(judged.limiters),
        "occupancy_unknown": judged.unknown,
        "compiled_registers": None if kernel is None else kernel.usage.registers,
        "compiled_spill_bytes": None if kernel is None or kernel.spills is None else sum(kernel.spills),
        "input": launch.origin.input,
        "line": launch.origin.line,
    }


def document(judged: Sequence[JudgedLaunch], issues: Sequence[Issue]) -> dict[str, Any]:
    """All launches, with what a row leaves out, and the issues."""
    return {
        "launches": [
            row(each)
            | {
                "block": each.launch.block,
                "grid": each.launch.grid,
                "limiters": list(each.limiters),
                "rounded": sorted(each.measured.rounded),
                "copies": each.match.copies if each.match.kernel is not None else 0,
            }
            for each in judged
        ],
        "issues": [
            {
                "code": issue.code,
                "severity": issue.severity,
                "message": issue.message,
                "origin": str(issue.origin or ""),
            }
            for issue in issues
        ],
    }
