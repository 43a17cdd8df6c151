"""Fixes that are tried.

A kernel that spills is compiled as it is built, and at each step that leaves it more registers, up to the first without
spills; one that does not, at the launch bounds that bring its next block.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from spillscan.advice.sweep.compiling import LIMIT, Module, Workshop, release
from spillscan.advice.sweep.curves import Curve, Point, compiled, curve_of, declared, point
from spillscan.advice.sweep.settings import AS_IS, SHARED_SPILLS, Setting
from spillscan.advice.sweep.units import tool, units
from spillscan.model import Kernel, Launch
from spillscan.model.code import MOST_REGISTERS
from spillscan.occupancy.binding import limited_by
from spillscan.occupancy.bounds import REGISTER_STEP, bounds_for_more_blocks, bounds_for_more_registers, register_cap
from spillscan.occupancy.devices import device
from spillscan.occupancy.formula import launched, resident
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.model import Occupancy
from spillscan.occupancy.summary import summarise
from spillscan.output.errors import SpillscanError, UsageError
from spillscan.output.nouns import count

Direction = Literal["no spills", "more blocks"]
"""More registers to end spills; fewer, so that more blocks are resident."""

_NO_LAUNCH = "block size unknown: set --launch 'GLOB=THREADS'"
_PER_FUNCTION = re.compile(
    r"(?:^|\s)(?:-c|--compile-only|-ewp|--extensible-whole-program|-g|-G|--device-debug|-rdc[= ]true)(?!\S)"
)
"""Options with which ptxas refuses to spill to shared memory: "not allowed for per-function compilation modes"."""
_FIRST_WITH_SHARED_SPILLS = (13, 0)
"""Release of CUDA that knows ``enable_smem_spilling``."""


class Trial(Struct, frozen=True, kw_only=True):
    """Result for one kernel."""

    curve: Curve | None = None
    """Its points: as built, the steps that were tried, the smallest first; ``None`` if it could not be tried."""
    missing: str = ""
    """Why it could not be tried, or why it has no step."""
    cause: str = ""
    """What limits its registers as built."""
    direction: Direction = "no spills"
    """What its steps are for."""
    shared: Point | None = None
    """Spilling to shared memory, if that leaves less in local memory."""

    @property
    def steps(self) -> tuple[Point, ...]:
        """The steps that were tried."""
        return () if self.curve is None else self.curve.points[1:]

    @property
    def ends(self) -> Point | None:
        """The first step that ends the spills."""
        steps = self.steps if self.direction == "no spills" else ()
        return next((each for each in steps if each.spill_bytes == 0), None)


def tried(kernel: Kernel, command: str, launches: Launches, workshop: Workshop) -> Trial:
    """Compile ``kernel`` as built and at each step of its fix.

    ``command`` is what ``sweep`` would be given to compile it; empty if unknown.
    """
    launch = launches.launch_of(kernel)
    if missing := no_step(kernel, launch) or refusal(kernel, command):
        return Trial(missing=missing)
    try:
        module = _module(kernel, command, workshop)
        as_built = declared(module.kernels[kernel.key.symbol], module.arch)
        return _tried(kernel, module, launch or launches.launch_of(as_built))
    except SpillscanError as error:
        return Trial(missing=str(error))


def _module(kernel: Kernel, command: str, workshop: Workshop) -> Module:
    """The module that defines the kernel; of several, that of its own source."""
    arch, own = str(kernel.key.arch), os.path.realpath(kernel.source) if kernel.source else ""
    several = units(command, (kernel.key.symbol,), (arch,))
    for unit in sorted(several, key=lambda each: os.path.realpath(each.path) != own):
        for module in workshop.modules(unit, (arch,)):
            if kernel.key.symbol in module.kernels:
                return module
    raise UsageError("its command does not compile this kernel", "build again, so that source and input agree")


def _tried(kernel: Kernel, module: Module, launch: Launch | None) -> Trial:
    symbol = kernel.key.symbol
    declares = module.kernels[symbol]

    def at(setting: Setting) -> Point:
        return point(module.arch, setting, *compiled(module, (symbol,), setting)[symbol], launch)

    as_is = at(AS_IS)
    if unlike := _unlike(kernel, as_is):
        return Trial(missing=unlike)
    points, missing, shared = [as_is], "", None
    try:
        for setting in _steps(as_is, launch, module.arch):
            points.append(at(setting))
            if as_is.spill_bytes and points[-1].spill_bytes == 0:
                break
    except UsageError as error:
        missing = error.what
    able = spills_to_shared(module.version, module.options) and declares.threads and not declares.dynamic_shared
    if able and as_is.spill_bytes:
        made = at(SHARED_SPILLS)
        shared = made if made.spill_bytes is not None and made.spill_bytes < as_is.spill_bytes else None
    return Trial(
        curve=curve_of(module, symbol, points, launch),
        missing=missing,
        cause=_cause(module, declares.directives, as_is),
        direction="no spills" if as_is.spill_bytes else "more blocks",
        shared=shared,
    )


def _unlike(kernel: Kernel, made: Point) -> str:
    """Why the kernel that is compiled here is not the input's; empty if it is."""
    if made.failure or kernel.spills is None or bool(made.spill_bytes) == bool(sum(kernel.spills)):
        return made.failure
    here, there = (f"{number:,} B" if number else "nothing" for number in (made.spill_bytes, sum(kernel.spills)))
    return f"compiled here it spills {here}, the input says {there}: other options or another ptxas"


def _steps(as_is: Point, launch: Launch | None, arch: str) -> Iterator[Setting]:
    """Settings that leave a spilling kernel more registers, or that bring another its next block."""
    registers = as_is.registers or 0
    if launch is None:
        if not as_is.spill_bytes:
            raise UsageError(_NO_LAUNCH)
        limits = range((registers // REGISTER_STEP + 1) * REGISTER_STEP, MOST_REGISTERS + 1, REGISTER_STEP)
        yield from (Setting(limit=limit) for limit in (*limits, MOST_REGISTERS) if limit > registers)
        return
    shared = as_is.kernel.usage.shared_bytes if as_is.kernel else 0
    here = launched(device(arch), launch, registers=registers, static_shared_bytes=shared or 0)
    if as_is.spill_bytes:
        yield from (Setting(threads=each.threads, blocks=each.blocks) for each in bounds_for_more_registers(here))
    elif why := _no_more_blocks(resident(here)):
        raise UsageError(why)
    elif more := bounds_for_more_blocks(resident(here)):
        yield Setting(threads=more.threads, blocks=more.blocks)


def _cause(module: Module, directives: Mapping[str, int], as_is: Point) -> str:
    """What limits the registers of a kernel as built; empty if nothing is known to."""
    limit, by = directives.get("maxnreg"), f"__maxnreg__({directives.get('maxnreg')})"
    threads, blocks = directives.get("maxntid"), directives.get("minnctapersm")
    option = LIMIT.findall(module.options)
    if limit is None and threads and blocks:
        with contextlib.suppress(UsageError):  # no device, or more threads than a block may have
            limit = register_cap(device(module.arch), threads, blocks).registers
            by = f"__launch_bounds__({threads}, {blocks})"
    elif limit is None and option and not threads:
        limit, by = int(option[-1]), f"-maxrregcount={option[-1]}"
    bound = limit is not None and as_is.registers is not None and limit - as_is.registers < REGISTER_STEP
    return f"{by} limits it to {limit} registers" if bound else ""


# ---- what cannot be tried -----------------------------------------------------------------------------------------


def spills_to_shared(version: str, options: str) -> bool:
    """Whether ptxas of ``version`` takes ``enable_smem_spilling`` with these options."""
    return release(version) >= _FIRST_WITH_SHARED_SPILLS and not _PER_FUNCTION.search(options)


def no_step(kernel: Kernel, launch: Launch | None) -> str:
    """Why no launch bounds bring another block; empty if some do, and for a kernel that spills."""
    if kernel.spills != (0, 0):
        return ""
    if launch is None:
        return _NO_LAUNCH
    try:
        summary = summarise(kernel.usage, kernel.key.arch, launch)
    except UsageError as error:
        return error.what
    if summary.occupancy is None:
        return summary.unknown
    if summary.at_most:
        return "dynamic shared memory unknown: set --launch 'GLOB=THREADS,BYTES'"
    return _no_more_blocks(summary.occupancy)


def _no_more_blocks(now: Occupancy) -> str:
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
