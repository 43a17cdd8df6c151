"""Tried settings in words: registers, spills and blocks per SM as ptxas makes them, not speed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spillscan.model import Kernel
from spillscan.output.nouns import count

if TYPE_CHECKING:
    from spillscan.advice.sweep.curves import Curve, Point
    from spillscan.advice.sweep.trials import Trial


def rows(trial: Trial, curve: Curve, kernel: Kernel) -> Iterator[str]:
    """One line per tried setting; ``kernel``: the kernel as in the input."""
    there = kernel.usage.registers, sum(kernel.spills) if kernel.spills else 0
    same = kernel.spills is None or there == (curve.as_is.registers, curve.as_is.spill_bytes)
    other = f"; the input has {there[0]} registers, spills {there[1]:,} B: other options or ptxas"
    yield f"as it is: {outcome(curve.as_is, curve.as_is)}{'' if same else other}"
    yield from (f"{each.setting.source}: {outcome(curve.as_is, each)}" for each in trial.steps)


def outcome(before: Point, after: Point) -> str:
    """Result in words: ``52 registers, no spills, 12 → 9 blocks/SM, 4,096 B of code, tried in PTX``."""
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
