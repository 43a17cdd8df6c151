"""What can be tried, why a kernel's fixes cannot, and what was tried, in words."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from spillscan.advice.sweep.units import tool
from spillscan.model import Kernel, Launch
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.bounds import bounds_for_more_blocks
from spillscan.occupancy.model import Occupancy
from spillscan.occupancy.summary import summarise
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count

if TYPE_CHECKING:  # a gate proposes without compiling
    from spillscan.advice.sweep.curves import Curve, Point
    from spillscan.advice.sweep.trials import Trial

NO_LAUNCH = "block size unknown: set --launch 'GLOB=THREADS'"
FIRST_WITH_MAXNREG = (12, 4)
"""Release of CUDA whose nvcc knows ``__maxnreg__``."""
_PER_FUNCTION = re.compile(
    r"(?:^|\s)(?:-c|--compile-only|-ewp|--extensible-whole-program|-g|-G|--device-debug|-rdc[= ]true)(?!\S)"
)
"""Options with which ptxas refuses to spill to shared memory: "not allowed for per-function compilation modes"."""
_FIRST_WITH_SHARED_SPILLS = (13, 0)
"""Release of CUDA that knows ``enable_smem_spilling``."""


def release(version: str) -> tuple[int, int]:
    """Release of CUDA in a compiler's version; (0, 0) if unknown."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def spills_to_shared(version: str, options: str) -> bool:
    """Whether ptxas of ``version`` takes ``enable_smem_spilling`` with these options."""
    return release(version) >= _FIRST_WITH_SHARED_SPILLS and not _PER_FUNCTION.search(options)


def no_step(kernel: Kernel, launch: Launch | None) -> str:
    """Why no launch bounds bring another block; empty if some do, and for a kernel that spills."""
    if kernel.spills != (0, 0):
        return ""
    if launch is None:
        return NO_LAUNCH
    try:
        summary = summarise(kernel.usage, kernel.key.arch, launch)
    except UsageError as error:
        return error.what
    if summary.occupancy is None:
        return summary.unknown
    if summary.at_most:
        return "dynamic shared memory unknown: set --launch 'GLOB=THREADS,BYTES'"
    return no_more_blocks(summary.occupancy)


def no_more_blocks(now: Occupancy) -> str:
    """Why fewer registers bring no further block; empty if they do."""
    if not now.can_launch and "registers" not in now.limiters:
        return "it cannot launch: " + "; ".join(now.reasons)
    if now.can_launch and now.limiters and "registers" not in now.limiters:
        return f"limited by {limited_by(now.limiters)}, not by registers"
    return "" if bounds_for_more_blocks(now) else "no fewer registers bring another block"


def refusal(kernel: Kernel, command: str) -> str:
    """Why a kernel's fixes cannot be tried, as far as is known before anything runs; empty if they can.

    ``command`` is what ``sweep`` would be given to compile it; empty if unknown.
    """
    if kernel.role == "function":
        return "it is not a kernel: bounds belong to the kernels that call it"
    if kernel.sass is not None and kernel.sass.roles:
        return "setmaxnreg gives its warps their registers, not launch bounds"
    if not command:
        record = "no record of its compile command (spillscan run, compile_commands.json)"
        named = next((file for file in (kernel.source, kernel.key.unit) if file and file.endswith((".cu", ".ptx"))), "")
        if not named:
            return f"its source is unknown, and {record}"
        return record if os.path.isfile(named) else f"{named} is not here, and {record}"
    if not kernel.key.arch:
        return "its arch is unknown"
    try:
        if " " not in command or not shutil.which(command.split(maxsplit=1)[0]):
            tool("ptxas" if command.endswith(".ptx") else "nvcc")
    except UsageError as error:
        return str(error)
    return ""


# ---- in words -----------------------------------------------------------------------------------------------------


def rows(trial: Trial, curve: Curve, kernel: Kernel) -> Iterator[str]:
    """Each setting that was tried, a line each; ``kernel``: as the input has it."""
    there = kernel.usage.registers, sum(kernel.spills) if kernel.spills else 0
    same = kernel.spills is None or there == (curve.as_is.registers, curve.as_is.spill_bytes)
    other = f"; the input has {there[0]} registers, spills {there[1]:,} B: other options or ptxas"
    yield f"as it is: {outcome(curve.as_is, curve.as_is)}{'' if same else other}"
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
