"""The trade-off drawn with characters: occupancy and spills at each register count. Pure, the width is given."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.sweep.model import Curve, Point

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_GREEN, _RED, _END = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def draw(curve: Curve, width: int, color: bool, ascii_only: bool = False) -> Iterator[str]:
    """A line for each register count, most registers first; nothing where there are fewer than two."""
    points = _distinct(curve)
    if len(points) < 2:
        return
    most = max(point.spill_bytes or 0 for point in points)
    bar = max((width - 30) // 2, 8)
    yield f"  regs  {'occupancy':<{bar + 7}} spills"
    for point in points:
        share = point.fraction or 0
        spilled = (point.spill_bytes or 0) / most if most else 0
        left = _bar(share, bar, ascii_only)
        right = _bar(spilled, bar, ascii_only)
        percent = f"{100 * share:.0f} %"
        said = f"{point.spill_bytes or 0:,} B"
        if color:
            left, right = f"{_GREEN}{left}{_END}", f"{_RED}{right}{_END}"
        yield f"{'*' if point.best else ' '} {point.registers:>4}  {left} {percent:>5} {right} {said}".rstrip()


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


def _bar(share: float, width: int, ascii_only: bool) -> str:
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    if ascii_only:
        return ("#" * -(-eighths // 8)).ljust(width)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[rest] if rest else "")).ljust(width)
