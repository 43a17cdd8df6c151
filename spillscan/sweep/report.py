"""A sweep in each of its formats, in pieces of text. Pure: whoever asks puts them in their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spillscan.output.chart import bar
from spillscan.output.terminal import GREEN, RED, Style, paint
from spillscan.sweep import table
from spillscan.sweep.data import VERSION, curve_data
from spillscan.sweep.model import Curve, Point
from spillscan.sweep.results import damage


def document(curves: Sequence[Curve]) -> dict[str, Any]:
    """The curves as JSON."""
    return {"version": VERSION, "curves": [curve_data(curve) for curve in curves]}


def text(curves: Sequence[Curve], style: Style, plot: bool) -> Iterator[str]:
    """The curves as lines, with ``plot`` drawn too; the kernel that spills most as it is first."""
    ordered = worst_first(curves)
    names = list(dict.fromkeys(curve.symbol for curve in ordered))
    shown = names[: style.rows]
    for curve in ordered:
        if curve.symbol in shown:
            yield from table.lines(curve, style)
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
