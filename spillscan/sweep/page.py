"""Curves as a page that stands alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spillscan import page
from spillscan.names import display_name
from spillscan.sweep import measured
from spillscan.sweep.model import Curve, Point


def document(curves: Sequence[Curve]) -> Iterator[str]:
    """The page, piece by piece, in the order of ``curves``; a kernel by several releases has a chart of each."""
    inputs = list(dict.fromkeys(curve.input for curve in curves))
    several = len({curve.toolkit for curve in curves}) > 1
    swept = tuple(_swept(curve, several) for curve in curves)
    return page.sweep_document(page.Sweep(title=", ".join(inputs), kernels=swept))


def _swept(curve: Curve, several: bool) -> page.Swept:
    shown = [point for point in curve.points if not point.overridden or point.timing]
    winner = measured.winner(curve.points)
    return page.Swept(
        name=display_name(curve.symbol),
        arch=f"{curve.arch}, {curve.toolkit}" if several else curve.arch,
        points=tuple(_point(point, point is winner) for point in shown),
        facts=tuple(filter(None, (curve.facts, curve.measured))),
        time_unit=next((point.timing.unit for point in shown if point.timing), ""),
    )


def _point(point: Point, fastest: bool) -> page.Point:
    setting, timing = point.setting, point.timing
    failures = (point.failure, f"run: {timing.failure}" if timing and timing.failure else "")
    return page.Point(
        cap=setting.registers if setting.kind == "cap" else None,
        label="" if setting.kind == "cap" else setting.label,
        registers=point.registers,
        spill_bytes=point.spill_bytes,
        blocks=point.blocks,
        warps=point.warps,
        best=point.best,
        failure="; ".join(filter(None, failures)),
        time=timing.median if timing else None,
        time_text=measured.figure(timing) if timing and timing.figures else "",
        fastest=fastest,
    )
