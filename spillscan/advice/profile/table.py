"""Profiled launches as a table, and as plain data with stable keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spillscan.advice.profile.launches import METRICS
from spillscan.advice.profile.matching import Matched
from spillscan.output.terminal import RED, Row, Style, fold, table, wrapped

_HEADER = ("kernel", "arch", "n", "block", "dyn smem", "regs", "spill inst", "time")
_NOTE = "n: launches with this block and dyn smem (worst shown); spill inst: share of executed instructions, not time"


def worst_first(launches: Sequence[Matched]) -> list[Matched]:
    """Launches sorted by share of spill instructions, then by time; unknown last."""
    return sorted(
        launches, key=lambda each: (-(each.launch.spill_share or 0), -each.launch.metrics.get("duration_ns", 0))
    )


def text(launches: Sequence[Matched], style: Style) -> Iterator[str]:
    """One row per group of equal launches, with the values of the first."""
    groups: dict[object, list[Matched]] = {}
    for each in launches:
        launch = each.launch
        same = launch.kernel, launch.arch, launch.block, launch.metrics.get("dynamic_shared_bytes")
        groups.setdefault(same, []).append(each)
    shown = list(groups.values())[: style.rows]
    yield from table(_HEADER, [_row(group) for group in shown], style, ("kernel",), _HEADER[1:3] + _HEADER[4:7])
    yield from fold(len(groups) - len(shown), style)
    yield from wrapped([_NOTE], style)


def _row(group: Sequence[Matched]) -> Row:
    launch = group[0].launch
    metrics, share = launch.metrics, launch.spill_share
    block = "x".join(map(str, launch.block or ())).removesuffix("x1").removesuffix("x1")
    cells = (
        group[0].name,
        launch.arch or "",
        str(len(group)),
        block,
        f"{metrics['dynamic_shared_bytes']:,}" if "dynamic_shared_bytes" in metrics else "",
        f"{metrics['registers']}" if "registers" in metrics else "",
        "" if share is None else f"{100 * share:.1f}%",
        time_text(metrics["duration_ns"]) if "duration_ns" in metrics else "",
    )
    return tuple(cell or "-" for cell in cells), RED if metrics.get("spill_instructions") else ""


def time_text(nanoseconds: float) -> str:
    """Time with its unit, such as ``1.04 ms``."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def row(each: Matched) -> dict[str, Any]:
    """One launch as a flat record."""
    launch, kernel = each.launch, each.kernel
    return {
        "kernel": launch.kernel,
        "symbol": kernel.key.symbol if kernel else None,
        "unmatched": each.unmatched,
        "launch": launch.number,
        "arch": launch.arch,
        "block": "x".join(map(str, launch.block or ())),
        "threads_per_block": launch.threads,
        **{name: launch.metrics.get(name) for name in METRICS},
        "spill_instruction_share": launch.spill_share,
    }
