"""Try the fix of one kernel.

A kernel that spills is compiled as built, and with increasing register limits until it has no spills. Other kernels are
compiled with the launch bounds that add a resident block.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct, structs

from spillscan.advice.sweep.compiling import LIMIT, Module, Workshop
from spillscan.advice.sweep.curves import Curve, Point, compiled, curve_of, declared, point
from spillscan.advice.sweep.proposals import NO_LAUNCH, no_more_blocks, no_step, refusal, spills_to_shared
from spillscan.advice.sweep.settings import AS_IS, SHARED_SPILLS, Setting
from spillscan.advice.sweep.units import units
from spillscan.model import Kernel, Launch
from spillscan.model.code import MOST_REGISTERS
from spillscan.occupancy.bounds import REGISTER_STEP, bounds_for_more_blocks, bounds_for_more_registers, register_cap
from spillscan.occupancy.devices import device
from spillscan.occupancy.formula import launched, resident
from spillscan.occupancy.launches import Launches
from spillscan.output.errors import SpillscanError, UsageError

Direction = Literal["no spills", "more blocks"]
"""Goal of a trial: more registers to end spills, or fewer to add resident blocks."""


class Trial(Struct, frozen=True, kw_only=True):
    """Result for one kernel."""

    curve: Curve | None = None
    """Results: the kernel as built, then the tried steps, smallest first; ``None`` if nothing could be tried."""
    missing: str = ""
    """Why it could not be tried, or has no step."""
    cause: str = ""
    """Sentence about its register limit as built."""
    direction: Direction = "no spills"
    """Goal of its steps."""
    shared: Point | None = None
    """Result of spilling to shared memory, if that reduces spills to local memory."""

    @property
    def steps(self) -> tuple[Point, ...]:
        """Results of the tried steps."""
        return () if self.curve is None else self.curve.points[1:]

    @property
    def ends(self) -> Point | None:
        """First step without spills."""
        steps = self.steps if self.direction == "no spills" else ()
        return next((each for each in steps if each.spill_bytes == 0), None)


def tried(kernel: Kernel, command: str, launches: Launches, workshop: Workshop) -> Trial:
    """Compile ``kernel`` as built and at each step of its fix.

    ``command`` is the argument of ``sweep`` that would compile it; empty if unknown.
    """
    launch = launches.launch_of(kernel)
    if missing := no_step(kernel, launch) or refusal(kernel, command):
        return Trial(missing=missing)
    try:
        module = _module(kernel, command, workshop)
        as_built = declared(module.kernels[kernel.key.symbol], module.arch)
        return _tried(kernel, module, launches.launch_of(_with_bounds(kernel, as_built)))
    except SpillscanError as error:
        return Trial(missing=str(error))


def _with_bounds(kernel: Kernel, as_built: Kernel) -> Kernel:
    """``kernel`` with its PTX's declarations, as `check` of its binary knows them.

    Launch bounds of code take precedence over the policy's block size.
    """
    dynamic = as_built.dynamic_shared if kernel.dynamic_shared is None else kernel.dynamic_shared
    return structs.replace(kernel, launch_bounds=kernel.launch_bounds or as_built.launch_bounds, dynamic_shared=dynamic)


def _module(kernel: Kernel, command: str, workshop: Workshop) -> Module:
    """Module that defines the kernel, preferably from the kernel's own source."""
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
    """Why the kernel compiled here differs from the input's; empty if it does not."""
    if made.failure or kernel.spills is None or bool(made.spill_bytes) == bool(sum(kernel.spills)):
        return made.failure
    here, there = (f"{number:,} B" if number else "nothing" for number in (made.spill_bytes, sum(kernel.spills)))
    return f"compiled here it spills {here}, the input says {there}: other options or another ptxas"


def _steps(as_is: Point, launch: Launch | None, arch: str) -> Iterator[Setting]:
    """Settings that allow a spilling kernel more registers, or that add a resident block to another."""
    registers = as_is.registers or 0
    if launch is None:
        if not as_is.spill_bytes:
            raise UsageError(NO_LAUNCH)
        limits = range((registers // REGISTER_STEP + 1) * REGISTER_STEP, MOST_REGISTERS + 1, REGISTER_STEP)
        yield from (Setting(limit=limit) for limit in (*limits, MOST_REGISTERS) if limit > registers)
        return
    shared = as_is.kernel.usage.shared_bytes if as_is.kernel else 0
    here = launched(device(arch), launch, registers=registers, static_shared_bytes=shared or 0)
    if as_is.spill_bytes:
        yield from (Setting(threads=each.threads, blocks=each.blocks) for each in bounds_for_more_registers(here))
    elif why := no_more_blocks(resident(here)):
        raise UsageError(why)
    elif more := bounds_for_more_blocks(resident(here)):
        yield Setting(threads=more.threads, blocks=more.blocks)


def _cause(module: Module, directives: Mapping[str, int], as_is: Point) -> str:
    """Sentence about the register limit of a kernel as built; empty if none is known."""
    limit, by = directives.get("maxnreg"), f"__maxnreg__({directives.get('maxnreg')})"
    threads, blocks = directives.get("maxntid"), directives.get("minnctapersm")
    option = LIMIT.findall(module.options)
    if limit is None and threads and blocks:
        with contextlib.suppress(UsageError):  # no device, or too many threads per block
            limit = register_cap(device(module.arch), threads, blocks).registers
            by = f"__launch_bounds__({threads}, {blocks})"
    elif limit is None and option and not threads:
        limit, by = int(option[-1]), f"-maxrregcount={option[-1]}"
    bound = limit is not None and as_is.registers is not None and limit - as_is.registers < REGISTER_STEP
    return f"{by} limits it to {limit} registers" if bound else ""
