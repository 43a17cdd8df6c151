"""What came of fixes that were compiled, in words: facts of ptxas, of residency and spills, not of speed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spillscan.model import Kernel
from spillscan.output.nouns import count

if TYPE_CHECKING:
    from spillscan.advice.sweep.model import Curve, Point
    from spillscan.advice.sweep.trials import Trial


def rows(trial: Trial, curve: Curve, kernel: Kernel) -> Iterator[str]:
    """Each point that was tried, a line each; ``kernel``: as the input has it."""
    yield f"as it is: {outcome(curve.as_is, curve.as_is)}{_other(kernel, curve.as_is)}"
    yield from (f"{each.setting.source}: {outcome(curve.as_is, each)}" for each in trial.steps)


def outcome(before: Point, after: Point) -> str:
    """What ptxas made of a kernel at one point, and what it took where it was run: ``52 registers, no spills, 12 → 9
    blocks/SM, 4,096 B of code, 3.04 ms``."""
    if after.failure:
        return f"it does not compile: {after.failure}"
    spills = f"spills {after.spill_bytes:,} B" if after.spill_bytes else "no spills"
    words = [f"{after.registers} registers", spills]
    if before.blocks is not None and after.blocks is not None:
        change = f"{before.blocks} → " if before.blocks != after.blocks else ""
        same = "" if change or before is after else " as before"
        words.append(f"{change}{count(after.blocks, 'block')}/SM{same}")
    if after.code_bytes is not None:
        words.append(f"{after.code_bytes:,} B of code")
    if after.ran.in_ptx:
        words.append("in its PTX alone")
    if after.final is False:
        words.append("before the link")
    if after.timing is not None:
        from spillscan.advice.sweep.timing import figure

        words.append(figure(after.timing) if after.timing.figures else f"run: {after.timing.failure}")
    return ", ".join(words)


def _other(kernel: Kernel, point: Point) -> str:
    """Where what is compiled here is not what the input holds: another ptxas, or options that the command lacks."""
    spills = kernel.spills
    if spills is None or (kernel.usage.registers, sum(spills)) == (point.registers, point.spill_bytes):
        return ""
    return f"; the input says {kernel.usage.registers} registers, spills {sum(spills):,} B: it was made otherwise"
