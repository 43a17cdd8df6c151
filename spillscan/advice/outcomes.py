"""What came of fixes that were compiled, in words: facts of ptxas, of residency and spills, not of speed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from spillscan.model import Kernel
from spillscan.output.nouns import count

if TYPE_CHECKING:
    from spillscan.advice.sweep.model import Curve, Point
    from spillscan.advice.sweep.trials import Trial

FEWER = "fewer values a thread, by smaller tiles or more threads for one"
"""What is left where no bounds help."""


def sentence(trial: Trial, curve: Curve) -> str:
    """The fix that was proven, or that none is."""
    if trial.direction == "more blocks":
        return _next_block(curve, trial.steps[0])
    before, ends = curve.as_is, trial.ends
    if ends is not None:
        return f"{ends.setting.source} ends its spills (tried, ptxas {curve.toolkit}): {outcome(before, ends)}"
    able = [each for each in trial.steps if each.spill_bytes is not None]
    if not able:
        return f"no bounds leave more registers than {before.registers} (tried, ptxas {curve.toolkit}): {FEWER}"
    least = min(able, key=lambda each: each.spill_bytes or 0)
    most = f"{least.setting.source} leaves the fewest, {outcome(before, least)}"
    return f"no bounds end its spills (tried, ptxas {curve.toolkit}): {most}; {FEWER}"


def _next_block(curve: Curve, step: Point) -> str:
    """``__launch_bounds__(256, 5) gives 4 → 5 blocks/SM without spills (tried, ptxas 13.0.88): 48 registers, …``"""
    before, source, by = curve.as_is, step.setting.source, f"(tried, ptxas {curve.toolkit})"
    if step.failure or before.blocks is None or step.blocks is None or step.blocks <= before.blocks:
        return f"{source} brings no block {by}: {outcome(before, step)}"
    price = "without spills"
    if step.spill_bytes:
        loops = step.loop_spill_bytes
        where = "" if loops is None else f", {loops:,} B of them in loops" if loops else ", none in loops"
        price = f"costs {step.spill_bytes:,} B of spills{where}"
    blocks = f"{before.blocks} → {count(step.blocks, 'block')}/SM{',' * bool(step.spill_bytes)}"
    return f"{source} gives {blocks} {price} {by}: {outcome(before, step)}"


def rows(trial: Trial, curve: Curve, kernel: Kernel) -> Iterator[str]:
    """Each point that was tried, a line each; ``kernel``: as the input has it."""
    yield f"as it is: {outcome(curve.as_is, curve.as_is)}{_other(kernel, curve.as_is)}"
    yield from (f"{each.setting.source}: {outcome(curve.as_is, each)}" for each in trial.steps)


def of_sweep(curve: Curve) -> Iterator[str]:
    """Each point of a sweep that was run, a line each, its time last; which was the fastest, and whether fewer spills
    were faster; before them what its loops hold."""
    ran = [each for each in curve.points if each.timing is not None]
    yield from (f"{each.setting.label}: {outcome(curve.as_is, each)}" for each in ran)
    yield from filter(None, (curve.loops, curve.measured, *curve.spills_and_times))


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
