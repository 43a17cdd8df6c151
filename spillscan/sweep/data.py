"""A sweep for programs: JSON values, and rows of CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from spillscan import names
from spillscan.sweep.model import Curve, Point

if TYPE_CHECKING:
    from spillscan.sweep.timing import Timing

VERSION = 1
COLUMNS = (
    *("input", "symbol", "name", "arch", "toolkit", "point", "registers_asked", "threads_asked", "blocks_asked"),
    *("registers", "spill_store_bytes", "spill_load_bytes", "loop_spill_bytes", "spill_instructions_by_depth"),
    *("stack_bytes", "shared_bytes", "threads_per_block", "resident_blocks", "resident_warps", "max_warps"),
    *("limiters", "best", "overridden", "failure"),
    *("time_median", "time_least", "time_spread", "time_unit", "time_runs", "time_failure"),
)


def curve_data(curve: Curve) -> dict[str, Any]:
    """One kernel."""
    launch = curve.launch
    return {
        "input": curve.input,
        "symbol": curve.symbol,
        "name": names.demangle(curve.symbol),
        "arch": curve.arch,
        "toolkit": curve.toolkit,
        "launch": None if launch is None else {each.name: getattr(launch, each.name) for each in fields(launch)},
        "points": [point_data(point) for point in curve.points],
        "facts": curve.facts,
        "measured": curve.measured,
        "flags": list(curve.flags),
        "advice": [{"cap": entry.cap, "gain_blocks": entry.gain, **point_data(entry.point)} for entry in curve.advice],
        "no_advice": curve.no_advice,
    }


def point_data(point: Point) -> dict[str, Any]:
    """One point; ``None`` where it is not known."""
    setting = point.setting
    depths = point.depths
    return {
        "kind": setting.kind,
        "registers_asked": setting.registers,
        "threads_asked": setting.threads,
        "blocks_asked": setting.blocks,
        "failure": point.failure,
        "registers": point.registers,
        "spill_store_bytes": point.spill_store_bytes,
        "spill_load_bytes": point.spill_load_bytes,
        "loop_spill_bytes": point.loop_spill_bytes,
        "spills_by_depth": None
        if depths is None
        else [{"depth": each.depth, "instructions": each.instructions, "bytes": each.bytes} for each in depths],
        "stack_bytes": point.stack_bytes,
        "shared_bytes": point.shared_bytes,
        "threads_per_block": point.threads,
        "resident_blocks": point.blocks,
        "resident_warps": point.warps,
        "max_warps": point.max_warps,
        "limiters": list(point.limiters),
        "final": point.final,
        "best": point.best,
        "overridden": point.overridden,
        "remarks": list(point.remarks),
        "time": None if point.timing is None else timing_data(point.timing),
    }


def timing_data(timing: Timing) -> dict[str, Any]:
    """What the program took at one cap; ``unit`` is ``None`` where only the program knows it."""
    return {
        "command": list(timing.command),
        "figures": list(timing.figures),
        "median": timing.median,
        "least": timing.least,
        "spread": timing.spread,
        "unit": timing.unit or None,
        "failure": timing.failure,
    }


def rows(curves: Sequence[Curve]) -> Iterator[list[Any]]:
    """A row a point, the header first."""
    yield list(COLUMNS)
    for curve in curves:
        for point in curve.points:
            data = curve_data_head(curve) | point_data(point)
            data["point"] = point.setting.label
            data["limiters"] = "+".join(point.limiters)
            data["spill_instructions_by_depth"] = " ".join(
                f"{'?' if each.depth is None else each.depth}:{each.instructions}" for each in point.depths or ()
            )
            time = data["time"] or {}
            data |= {f"time_{name}": time.get(name) for name in ("median", "least", "spread", "unit", "failure")}
            data["time_runs"] = len(time["figures"]) if time else None
            data |= {name: str(data[name]).lower() for name in ("best", "overridden")}
            yield [data[column] for column in COLUMNS]


def curve_data_head(curve: Curve) -> dict[str, Any]:
    """What all rows of a kernel share."""
    return {
        "input": curve.input,
        "symbol": curve.symbol,
        "name": names.demangle(curve.symbol),
        "arch": curve.arch,
        "toolkit": curve.toolkit,
    }
