"""The first point without spills, and what its loops hold that the next one's do not: what code alone shows of whether
more registers would pay. Counts of instructions, not of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from spillscan.advice.sweep.model import AS_IS, Point
from spillscan.reading.binary import records
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.window import DamageError


def spill_free(points: Iterable[Point]) -> list[Point]:
    """Those that spill nothing, the fewest registers first; a cap that bounds override is none."""
    able = (each for each in points if each.spill_bytes == 0 and each.registers is not None and not each.overridden)
    return sorted(able, key=lambda each: (each.registers or 0, each.setting.registers or 0))


def instructions_in_loops(cubin: bytes, symbol: str) -> int | None:
    """Instructions of a kernel's loops, at whatever depth, each counted once, padding apart; ``None`` where no table is
    for its architecture, where its control cannot be followed, and where there is no such kernel."""
    try:
        for image, function in records.cubins(cubin, {symbol}):
            code = Code(image.text_of(function))
            known = [(row, depth) for row, depth in enumerate(code.depths) if depth is not None]
            return sum(bool(depth) and code.name(row) != "NOP" for row, depth in known) if known else None
    except (ValueError, DamageError):
        pass
    return None


def grown(points: Sequence[Point], instructions: Callable[[Point], int | None]) -> str:
    """``cap 48, the first without spills, has 147 instructions in loops, 4 more than cap 56``; empty where its loops
    hold no more than at the next registers above, where nothing spills, and where that is not known.

    ``instructions``: those in loops at a point; asked of two at most.
    """
    alike = [each for each in points if not each.setting.knobs]
    clean = spill_free(alike)
    above = next((each for each in clean if (each.registers or 0) > (clean[0].registers or 0)), None)
    if above is None or not any(each.spill_bytes for each in alike):
        return ""
    here, there = instructions(clean[0]), instructions(above)
    if here is None or there is None or here <= there:
        return ""
    more = f"{here:,} instructions in loops, {here - there:,} more than {called(above)}"
    return f"{called(clean[0])}, the first without spills, has {more}"


def called(point: Point) -> str:
    """A point within a sentence."""
    return "the kernel as it is" if point.setting == AS_IS else point.setting.label
