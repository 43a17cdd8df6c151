"""Tried settings in words: registers, spills and residency as ptxas makes them, not speed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spillscan.model import Kernel
from spillscan.output.nouns import count

if TYPE_CHECKING:
    from spillscan.advice.sweep.curves import Curve, Point
    from spillscan.advice.sweep.trials import Trial


def rows(trial: Trial, curve: Curve, kernel: Kernel) -> Iterator[str]:
    """Each setting that was tried, a line each; ``kernel``: as the input has it."""
    yield f"as it is: {outcome(curve.as_is, curve.as_is)}{_other(kernel, curve.as_is)}"
    yield from (f"{each.setting.source}: {outcome(curve.as_is, each)}" for each in trial.steps)


def outcome(before: Point, after: Point) -> str:
    """``52 registers, no spills, 12 → 9 blocks/SM, 4,096 B of code, tried in PTX``."""
    if after.failure:
        return after.failure if after.failure.startswith("not tried") else f"does not compile: {after.failure}"
    spills = f"spills {after.spill_bytes:,} B" if after.spill_bytes else "no spills"
    words = [f"{after.registers} registers", spills]
    if before.blocks is not None and after.blocks is not None:
        change = f"{before.blocks} → " if before.blocks != after.blocks else ""
        same = "" if change or before is after else " as before"
        words.append(f"{change}{count(after.blocks, 'block')}/SM{same}")
    if after.code_bytes is not None:
        words.append(f"{after.code_bytes:,} B of code")
    words += ["tried in PTX"] * after.in_ptx
    words += ["before the link"] * (after.kernel is not None and after.kernel.final is False)
    return ", ".join(words)


def _other(kernel: Kernel, point: Point) -> str:
    """If what is compiled here is not what the input holds: another ptxas, or other options."""
    spills = kernel.spills
    if spills is None or (kernel.usage.registers, sum(spills)) == (point.registers, point.spill_bytes):
        return ""
    return f"; the input has {kernel.usage.registers} registers, spills {sum(spills):,} B: other options or ptxas"
