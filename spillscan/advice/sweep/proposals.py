"""The steps of bounds that are proposed for a kernel, and why none is: what is missing to try them (its source or PTX,
the command that compiles it, a compiler), and what the flags of its compilation forbid."""

from __future__ import annotations

import os
import re
import shutil
from typing import NamedTuple

from msgspec import structs

from spillscan.advice.sweep.model import Curve, Direction, Point, Setting
from spillscan.advice.sweep.toolkits import HINT, folders
from spillscan.model import Kernel, Launch
from spillscan.model.code import MOST_REGISTERS
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.bounds import REGISTER_STEP, bounds_for_more_blocks, bounds_for_more_registers
from spillscan.occupancy.devices import device
from spillscan.occupancy.formula import launched, resident
from spillscan.occupancy.model import Configuration, Occupancy
from spillscan.occupancy.summary import summarise
from spillscan.output.errors import UsageError

_PER_FUNCTION = re.compile(
    r"(?:^|\s)(?:-c|--compile-only|-ewp|--extensible-whole-program|-g|-G|--device-debug|-rdc[= ]true)(?!\S)"
)
"""Options with which ptxas refuses to spill to shared memory: "not allowed for per-function compilation modes"."""
_FIRST_WITH_SHARED_SPILLS = (13, 0)
"""The release of CUDA that takes ``enable_smem_spilling``."""
CALLED = "it is not a kernel: bounds belong to the kernels that call it"
"""Of a function."""
NO_LAUNCH = "its block size is not known: give --launch 'GLOB=THREADS'"
"""Of a kernel whose launch nothing says."""
ROLES = "setmaxnreg gives its warps their registers, not bounds"
"""Of a kernel whose groups of warps take registers from each other."""


def release(version: str) -> tuple[int, int]:
    """The release of CUDA in a compiler's version; (0, 0) where it is not known."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


def spills_to_shared(version: str, options: str) -> bool:
    """Whether ptxas of a version takes ``enable_smem_spilling`` beside these options."""
    return release(version) >= _FIRST_WITH_SHARED_SPILLS and not _PER_FUNCTION.search(options)


def no_step(kernel: Kernel, launch: Launch | None) -> str:
    """Why no launch bounds bring another block; empty where some do, and of a kernel that spills."""
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
        return "its dynamic shared memory is not known: give --launch 'GLOB=THREADS,BYTES'"
    return no_more_blocks(summary.occupancy)


def no_more_blocks(now: Occupancy) -> str:
    """Why fewer registers bring no further block; empty where they do."""
    if not now.can_launch and "registers" not in now.limiters:
        return "it cannot be launched: " + "; ".join(now.reasons)
    if now.can_launch and now.limiters and "registers" not in now.limiters:
        return f"registers do not limit it, but {limited_by(now.limiters)}"
    return "" if bounds_for_more_blocks(now) else "no fewer registers bring another block"


def refusal(kernel: Kernel, command: str) -> str:
    """Why a kernel's fixes cannot be tried, as far as is known before anything runs; empty where they can be.
    ``command``: what a sweep would be given to compile it, empty where that is not known."""
    if kernel.role == "function":
        return CALLED
    if kernel.sass is not None and kernel.sass.roles:
        return ROLES
    if not command:
        return _no_command(kernel)
    if not kernel.key.arch:
        return "its arch is not known"
    own = shutil.which(command.split(maxsplit=1)[0]) if " " in command else None
    places = [*([os.path.dirname(own)] if own else []), *folders()]
    if not any(place and shutil.which("ptxas", path=place) for place in places):
        return f"no ptxas is found: {HINT}"
    if not command.endswith(".ptx") and not any(place and shutil.which("nvcc", path=place) for place in places):
        return "its source needs nvcc, and none is found: give PTX (nvcc -ptx), or install a toolkit"
    return ""


def _no_command(kernel: Kernel) -> str:
    """Which of source and command there is not."""
    record = "no record has its command (spillscan run, compile_commands.json)"
    for file in (kernel.source, kernel.key.unit):
        if file and file.endswith((".cu", ".ptx")):
            return record if os.path.isfile(file) else f"{file} is not here, and {record}"
    return f"its source is not known, and {record}"


class Proposal(NamedTuple):
    """What is to be compiled."""

    direction: Direction
    setting: Setting
    cap: int
    """Registers per thread that it leaves."""


def proposals(curve: Curve, steps: int = 3) -> tuple[tuple[Proposal, ...], str]:
    """(what is to be compiled, why no step leads to more blocks).

    Of a kernel that spills all launch bounds that leave more registers, the smallest step first. Each step to more
    blocks is proposed as ``__launch_bounds__`` and as ``__maxnreg__``: the same cap, and ptxas may make different code
    of them.
    """
    as_is, launch = curve.as_is, curve.launch
    if as_is.failure or as_is.registers is None:
        return (), "it could not be compiled as it is"
    if launch is None:
        return (), NO_LAUNCH
    try:
        now = resident(_configuration(curve.arch, as_is, launch))
    except UsageError as error:
        return (), error.what
    found = relaxations(curve)
    if why := no_more_blocks(now):
        return tuple(found), why
    more = []
    for _ in range(steps):
        bounds = bounds_for_more_blocks(now)
        if bounds is None:
            break
        written = Setting(kind="bounds", threads=bounds.threads, blocks=bounds.blocks)
        capped = Setting(kind="maxnreg", registers=min(bounds.registers, MOST_REGISTERS))
        more += [Proposal("more blocks", setting, bounds.registers) for setting in (written, capped)]
        now = resident(structs.replace(now.configuration, registers=bounds.registers))
    return (*found, *more), ""


def relaxations(curve: Curve) -> list[Proposal]:
    """The bounds that leave a kernel that spills more registers, the smallest step first: launch bounds, or, where its
    block size is not known, ``__maxnreg__``, which is given out in eights."""
    as_is, launch = curve.as_is, curve.launch
    if not as_is.spill_bytes or as_is.registers is None:
        return []
    if launch is None:
        first = (as_is.registers // REGISTER_STEP + 1) * REGISTER_STEP
        caps = dict.fromkeys([*range(first, MOST_REGISTERS, REGISTER_STEP), MOST_REGISTERS])
        return [
            Proposal("no spills", Setting(kind="maxnreg", registers=cap), cap) for cap in caps if cap > as_is.registers
        ]
    try:
        configuration = _configuration(curve.arch, as_is, launch)
    except UsageError:
        return []
    return [
        Proposal("no spills", Setting(kind="bounds", threads=cap.threads, blocks=cap.blocks), cap.registers)
        for cap in bounds_for_more_registers(configuration)
    ]


def _configuration(arch: str, point: Point, launch: Launch) -> Configuration:
    return launched(device(arch), launch, registers=point.registers or 0, static_shared_bytes=point.shared_bytes or 0)
