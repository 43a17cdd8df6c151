"""A sweep in each of its formats: values of JSON, rows of CSV, a page, lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from spillscan import names, page
from spillscan.naming import Names
from spillscan.output.chart import bar
from spillscan.output.terminal import GREEN, RED, Style, paint
from spillscan.page.columns import letters
from spillscan.sweep import table, timing
from spillscan.sweep.curves import damage
from spillscan.sweep.model import Curve, Point, Timing


def document(curves: Sequence[Curve]) -> dict[str, Any]:
    """The curves as JSON."""
    return {"version": VERSION, "curves": [curve_data(curve) for curve in curves]}


def text(curves: Sequence[Curve], style: Style, plot: bool) -> Iterator[str]:
    """The curves as lines, with ``plot`` drawn too; the kernel that spills most as it is first."""
    ordered = worst_first(curves)
    names = list(dict.fromkeys(curve.symbol for curve in ordered))
    shown = names[: style.rows]
    called = Names(names)
    for curve in ordered:
        if curve.symbol in shown:
            yield from table.lines(curve, style, called)
            if plot:
                yield from _drawn(curve, style)
            yield ""
    if len(shown) < len(names):
        yield f"… {len(names) - len(shown):,} more kernels (--all shows them)"
    yield from table.legend(style, timed=any(point.timing for curve in curves for point in curve.points))


def worst_first(curves: Sequence[Curve]) -> list[Curve]:
    """The kernel that spills most as it is first; the curves of one kernel together, in their own order."""
    place = {curve.symbol: at for at, curve in reversed(list(enumerate(sorted(curves, key=damage))))}
    return sorted(curves, key=lambda curve: place[curve.symbol])


def _drawn(curve: Curve, style: Style) -> Iterator[str]:
    """The trade-off: a line for each register count, most registers first; nothing where there are fewer than two."""
    points = _distinct(curve)
    if len(points) < 2:
        return
    most = max(point.spill_bytes or 0 for point in points)
    width = max((style.width - 30) // 2, 8)
    yield f"  regs  {'occupancy':<{width + 7}} spills"
    for point in points:
        share, spilled = point.fraction or 0, point.spill_bytes or 0
        left = paint(bar(share, width, style), GREEN, style)
        right = paint(bar(spilled / most if most else 0, width, style), RED, style)
        mark, percent = "*" if point.best else " ", f"{100 * share:.0f} %"
        yield f"{mark} {point.registers:>4}  {left} {percent:>5} {right} {spilled:,} B"


def _distinct(curve: Curve) -> list[Point]:
    """One point of each register count: a best one where there is one, else that which spills least."""
    by_count: dict[int, Point] = {}
    for point in curve.points:
        if point.registers is None or point.fraction is None or point.overridden:
            continue
        kept = by_count.get(point.registers)
        if kept is None or _rank(point) < _rank(kept):
            by_count[point.registers] = point
    return [by_count[count] for count in sorted(by_count, reverse=True)]


def _rank(point: Point) -> tuple[bool, int]:
    return not point.best, point.spill_bytes or 0


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
        **curve_data_head(curve),
        "launch": None if launch is None else {each.name: getattr(launch, each.name) for each in fields(launch)},
        "points": [point_data(point) for point in curve.points],
        "facts": curve.facts,
        "measured": curve.measured,
        "flags": list(curve.flags),
        "advice": [
            {
                "direction": entry.direction,
                "cap": entry.cap,
                "gain_blocks": entry.gain,
                "ends_spills": entry.direction == "no spills" and entry.point.spill_bytes == 0,
                **point_data(entry.point),
            }
            for entry in curve.advice
        ],
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


def timing_data(timed: Timing) -> dict[str, Any]:
    """What the program took at one cap; ``unit`` is ``None`` where only the program knows it."""
    return {
        "command": list(timed.command),
        "figures": list(timed.figures),
        "median": timed.median,
        "least": timed.least,
        "spread": timed.spread,
        "unit": timed.unit or None,
        "failure": timed.failure,
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


def html(curves: Sequence[Curve]) -> Iterator[str]:
    """The page, piece by piece, in the order of ``curves``; a kernel by several releases has a chart of each."""
    inputs = list(dict.fromkeys(curve.input for curve in curves))
    several = len({curve.toolkit for curve in curves}) > 1
    called = Names(curve.symbol for curve in curves)
    swept = tuple(_swept(curve, several, called) for curve in curves)
    return page.sweep_document(
        page.Sweep(title=", ".join(inputs), kernels=swept, legend=letters((curve.symbol for curve in curves), called))
    )


def _swept(curve: Curve, several: bool, called: Names) -> page.Swept:
    shown = table.shown_points(curve)
    winner = timing.winner(curve.points)
    return page.Swept(
        name=called.of(curve.symbol),
        arch=f"{curve.arch}, {curve.toolkit}" if several else curve.arch,
        points=tuple(_point(point, point is winner) for point in shown),
        facts=tuple(table.sentences(curve)),
        time_unit=next((point.timing.unit for point in shown if point.timing), ""),
    )


def _point(point: Point, fastest: bool) -> page.Point:
    setting, timed = point.setting, point.timing
    failures = (point.failure, f"run: {timed.failure}" if timed and timed.failure else "")
    return page.Point(
        cap=setting.registers if setting.kind == "cap" else None,
        label="" if setting.kind == "cap" else setting.label,
        registers=point.registers,
        spill_bytes=point.spill_bytes,
        blocks=point.blocks,
        warps=point.warps,
        best=point.best,
        failure="; ".join(filter(None, failures)),
        time=timed.median if timed else None,
        time_text=timing.figure(timed) if timed and timed.figures else "",
        fastest=fastest,
    )
