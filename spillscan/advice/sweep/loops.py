"""The first point without spills, and what its loops hold that the next one's do not: what code alone shows of whether
more registers would pay. Counts of instructions, not of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from spillscan.advice.sweep.model import AS_IS, Point
from spillscan.output.nouns import count
from spillscan.reading.binary import records
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.window import DamageError

_NEAR = 4
"""Instructions before one, whose results it waits for: about the latency of arithmetic, in instructions."""
_SHARE = 20
"""What part of a loop's instructions is worth a word."""


def spill_free(points: Iterable[Point]) -> list[Point]:
    """Those that spill nothing, the fewest registers first; a cap that bounds override is none."""
    able = (each for each in points if each.spill_bytes == 0 and each.registers is not None and not each.overridden)
    return sorted(able, key=lambda each: (each.registers or 0, each.setting.registers or 0))


class Loops(NamedTuple):
    """Instructions of a kernel's loops, at whatever depth, each counted once, padding apart."""

    instructions: int
    waiting: int
    """Those that need what one of the four before them makes: with few warps they wait for it."""


def loops_of(cubin: bytes, symbol: str) -> Loops | None:
    """What a kernel's loops hold; ``None`` where no table is for its architecture, where its control cannot be
    followed, and where there is no such kernel."""
    try:
        for image, function in records.cubins(cubin, {symbol}):
            code = Code(image.text_of(function))
            inside = {row for row, depth in enumerate(code.depths) if depth and code.name(row) != "NOP"}
            return None if code.graph is None else Loops(len(inside), len(inside & _waiting(code)))
    except (ValueError, DamageError):
        pass
    return None


def _waiting(code: Code) -> set[int]:
    found: set[int] = set()
    for begin, end in zip(code.graph.begins, code.graph.ends, strict=True) if code.graph else ():
        made: dict[int, int] = {}
        for row in range(begin, end):
            each = code.instructions[row]
            if any(row - made.get(register, -_NEAR - 1) <= _NEAR for register in each.read):
                found.add(row)
            made |= dict.fromkeys((register for register in each.written if register >= 0), row)
    return found


def grown(points: Sequence[Point], loops: Callable[[Point], Loops | None]) -> str:
    """``cap 48, the first without spills, has 147 instructions in loops, 4 more than cap 56``, and how many more of
    them wait; empty where neither is more than at the next registers above, where nothing spills, and where that is not
    known.

    ``loops``: those of a point; asked of two at most.
    """
    alike = [each for each in points if not each.setting.knobs]
    clean = spill_free(alike)
    above = next((each for each in clean if (each.registers or 0) > (clean[0].registers or 0)), None)
    if above is None or not any(each.spill_bytes for each in alike):
        return ""
    here, there = loops(clean[0]), loops(above)
    if here is None or there is None:
        return ""
    more, waiting = here.instructions - there.instructions, here.waiting - there.waiting
    looping = f"{count(here.instructions, 'instruction')} in loops"
    said = [f"{looping}, {more:,} more than {called(above)}"] if more > 0 else []
    if waiting * _SHARE >= here.instructions > 0:
        of = "of them" if said else f"of {looping} that"
        than = "" if said else f" than at {called(above)}"
        said.append(f"{here.waiting:,} {of} need a result of the {_NEAR} before, {waiting:,} more{than}")
    return f"{called(clean[0])}, the first without spills, has {'; '.join(said)}" if said else ""


def called(point: Point) -> str:
    """A point within a sentence."""
    return "the kernel as it is" if point.setting == AS_IS else point.setting.label
