"""Measured times beside what was compiled: each cap's point gets the time of the user's program at that cap. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spillscan.sweep.model import Curve, Point
from spillscan.sweep.timing import INTERRUPTED, Timing

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def with_times(curves: Sequence[Curve], timings: Sequence[Timing]) -> list[Curve]:
    """``curves`` with the timing of each cap at its point, and the fastest of them in a sentence.

    The times are the program's: curves of several kernels, archs and releases share them.
    """
    by_cap = {timing.value: timing for timing in timings}
    return [_timed(curve, by_cap) for curve in curves]


def _timed(curve: Curve, by_cap: dict[int | str, Timing]) -> Curve:
    points = tuple(
        replace(point, timing=by_cap.get(point.setting.registers or 0)) if point.setting.kind == "cap" else point
        for point in curve.points
    )
    return replace(curve, points=points, measured=fastest(points))


def fastest(points: Sequence[Point]) -> str:
    """``fastest measured: cap 128, 3.04 ms``, and the caps whose runs overlap with its runs: so few runs do not tell
    which of these is faster. Empty where nothing was measured.
    """
    best = winner(points)
    if best is None or best.timing is None:
        return ""
    slowest = max(best.timing.figures)
    near = [
        point.setting.label
        for point in points
        if point is not best and _counts(point) and point.timing and min(point.timing.figures) <= slowest
    ]
    alike = f" (not told apart from {', '.join(near)})" if near else ""
    return f"fastest measured: {best.setting.label}, {figure(best.timing)}{alike}"


def winner(points: Sequence[Point]) -> Point | None:
    """The point of the least median; caps that the kernel's own bounds override are none of its points."""
    return min(filter(_counts, points), key=_median, default=None)


def _median(point: Point) -> float:
    return (point.timing and point.timing.median) or 0.0


def _counts(point: Point) -> bool:
    """A cap at which a run failed is no winner; one that the user's Ctrl-C cut short may be."""
    timing = point.timing
    return not point.overridden and timing is not None and bool(timing.figures) and timing.failure in ("", INTERRUPTED)


def figure(timing: Timing) -> str:
    """The median: ``3.04 ms`` of seconds, ``3.04`` of a unit that only the program knows; ``-`` without any."""
    middle = timing.median
    if middle is None:
        return "-"
    if timing.unit != "s":
        return f"{middle:.4g}"
    scale, unit = next((each for each in _SCALES if middle >= each[0]), _SCALES[-1])
    return f"{middle / scale:{',.0f' if middle >= 100 * scale else '.3g'}} {unit}"
