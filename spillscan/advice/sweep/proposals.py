"""Why a kernel's fixes cannot be tried: no launch bounds help it, or its source, command or compiler is missing."""

from __future__ import annotations

import os
import re
import shutil

from spillscan.advice.sweep.settings import release
from spillscan.advice.sweep.units import tool
from spillscan.model import Kernel, Launch
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.bounds import bounds_for_more_blocks
from spillscan.occupancy.model import Occupancy
from spillscan.occupancy.summary import summarise
from spillscan.output.errors import UsageError

NO_LAUNCH = "block size unknown: set --launch 'GLOB=THREADS'"
_PER_FUNCTION = re.compile(
    r"(?:^|\s)(?:-c|--compile-only|-ewp|--extensible-whole-program|-g|-G|--device-debug|-rdc[= ]true)(?!\S)"
)
"""Options with which ptxas refuses to spill to shared memory: "not allowed for per-function compilation modes"."""
_FIRST_WITH_SHARED_SPILLS = (13, 0)
"""First release of CUDA with ``enable_smem_spilling``."""


def spills_to_shared(version: str, options: str) -> bool:
    """Whether ptxas of ``version`` accepts ``enable_smem_spilling`` with these options."""
    return release(version) >= _FIRST_WITH_SHARED_SPILLS and not _PER_FUNCTION.search(options)


def no_step(kernel: Kernel, launch: Launch | None) -> str:
    """Why no launch bounds add another block; empty if some do, or if the kernel spills."""
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
    """Why fewer registers do not add another block; empty if they do."""
    if not now.can_launch and "registers" not in now.limiters:
        return "it cannot launch: " + "; ".join(now.reasons)
    if now.can_launch and now.limiters and "registers" not in now.limiters:
        return f"limited by {limited_by(now.limiters)}, not by registers"
    return "" if bounds_for_more_blocks(now) else "no lower register count gains a block"


def refusal(kernel: Kernel, command: str) -> str:
    """Why a kernel's fixes cannot be tried, as far as is known before running anything; empty if they can.

    ``command`` is the argument of ``sweep`` that would compile it; empty if unknown.
    """
    if kernel.role == "function":
        return "not a kernel: set bounds on the kernels that call it"
    if kernel.sass is not None and kernel.sass.roles:
        return "setmaxnreg gives its warps their registers, not launch bounds"
    if not command:
        record = "no record of its compile command (spillscan run, compile_commands.json)"
        named = next((file for file in (kernel.source, kernel.key.unit) if file and file.endswith((".cu", ".ptx"))), "")
        if not named:
            return f"its source is unknown, and {record}"
        return record if os.path.isfile(named) else f"{named} was not found, and {record}"
    if not kernel.key.arch:
        return "its arch is unknown"
    try:
        if " " not in command or not shutil.which(command.split(maxsplit=1)[0]):
            tool("ptxas" if command.endswith(".ptx") else "nvcc")
    except UsageError as error:
        return str(error)
    return ""
