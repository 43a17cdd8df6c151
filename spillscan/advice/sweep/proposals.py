"""Settings to try for one kernel, or why none can be tried."""

from __future__ import annotations

import os
import re
import shutil

from spillscan.advice.causes import calls_other_units
from spillscan.advice.sweep.settings import Setting, release
from spillscan.advice.sweep.units import tool
from spillscan.model import Kernel, Launch
from spillscan.model.code import MOST_REGISTERS
from spillscan.occupancy.bounds import REGISTER_STEP, bounds_for_more_blocks, bounds_for_more_registers
from spillscan.occupancy.model import limited_by
from spillscan.occupancy.summary import summarise
from spillscan.output.errors import UsageError

_PER_FUNCTION = re.compile(
    r"(?:^|\s)(?:-c|--compile-only|-ewp|--extensible-whole-program|-g|-G|--device-debug|-rdc[= ]true)(?!\S)"
)
"""Options with which ptxas refuses to spill to shared memory: "not allowed for per-function compilation modes"."""
_FIRST_WITH_SHARED_SPILLS = (13, 0)
"""First release of CUDA with ``enable_smem_spilling``."""


def spills_to_shared(version: str, options: str) -> bool:
    """Whether ptxas of ``version`` accepts ``enable_smem_spilling`` with these options."""
    return release(version) >= _FIRST_WITH_SHARED_SPILLS and not _PER_FUNCTION.search(options)


def steps(kernel: Kernel, launch: Launch | None) -> tuple[list[Setting], str]:
    """Settings that allow a spilling kernel more registers, or that add a resident block to another.

    Second, the reason if there are none.
    """
    spills = kernel.spills != (0, 0)
    if launch is None and not spills:
        return [], "block size unknown; set --launch 'GLOB=THREADS'"
    if launch is None:
        limits = (*range(REGISTER_STEP, MOST_REGISTERS, REGISTER_STEP), MOST_REGISTERS)
        return [Setting(limit=each) for each in limits if each > (kernel.usage.registers or 0)], ""
    try:
        summary = summarise(kernel.usage, kernel.key.arch, launch)
    except UsageError as error:
        return [], error.what
    now = summary.occupancy
    if now is None:
        return [], summary.unknown
    if not now.can_launch and "registers" not in now.limiters:
        return [], f"the kernel cannot launch: {'; '.join(now.reasons)}"
    if spills:
        limits = bounds_for_more_registers(now.configuration)
        return [Setting(threads=each.threads, blocks=each.blocks) for each in limits], ""
    if summary.at_most:
        return [], "dynamic shared memory unknown; set --launch 'GLOB=THREADS,BYTES'"
    if "registers" not in now.limiters:
        return [], f"occupancy is limited by {limited_by(now.limiters)}, not by registers"
    more = bounds_for_more_blocks(now)
    if more is None:
        return [], "no lower register count adds a block"
    return [Setting(threads=more.threads, blocks=more.blocks)], ""


def no_step(kernel: Kernel, launch: Launch | None) -> str:
    """Why no launch bounds add another block; empty if some do, or if the kernel spills."""
    return steps(kernel, launch)[1] if kernel.spills == (0, 0) else ""


def refusal(kernel: Kernel, command: str) -> str:
    """Why a kernel's fixes cannot be tried, as far as is known before running anything; empty if they can.

    ``command`` is the argument of ``sweep`` that would compile it; empty if unknown.
    """
    if kernel.role == "function":
        return "it is a device function; only kernels are tried"
    if kernel.sass is not None and kernel.sass.roles:
        return "its warps get their registers from setmaxnreg, not from launch bounds"
    if calls_other_units(kernel):
        return "it may call functions of other units, whose registers count at the link"
    if not command:
        record = "no `spillscan run` recorded its compile command"
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
