"""The best points of a curve, and its trade-off in one sentence: facts of residency and spills, not of speed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spillscan.sweep.model import Point
from spillscan.sweep.settings import AS_IS

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
    return tuple(replace(point, best=index in best) for index, point in enumerate(points))


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
        return f"at most {_count(point.warps or 0, 'warp')}"
    return _count(point.blocks, "block")


def _gain(start: Point, point: Point) -> str:
    if start.blocks is not None and point.blocks is not None and start.threads == point.threads:
        return f"+{_count(point.blocks - start.blocks, 'block')}"
    return f"+{_count((point.warps or 0) - (start.warps or 0), 'warp')}"


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


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
