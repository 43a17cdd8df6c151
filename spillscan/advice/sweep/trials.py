"""Try the fix of one kernel.

A kernel that spills is compiled as built, and with increasing register limits until it has no spills. Other kernels are
compiled with the launch bounds that add a resident block.
"""

from __future__ import annotations

import os
from typing import Literal

from msgspec import Struct, structs

from spillscan.advice.sweep.compiling import Module, Workshop
from spillscan.advice.sweep.curves import Curve, Point, curve_of, declared, points_at
from spillscan.advice.sweep.proposals import no_step, refusal, spills_to_shared, steps
from spillscan.advice.sweep.settings import AS_IS, SHARED_SPILLS, Setting
from spillscan.advice.sweep.units import units
from spillscan.model import Kernel, Launch
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
    direction: Direction = "no spills"
    """Goal of its steps."""
    shared: Point | None = None
    """Result of spilling to shared memory, if that reduces spills to local memory."""

    @property
    def points(self) -> tuple[Point, ...]:
        """Results: the kernel as built, then the steps."""
        return self.curve.points if self.curve else ()

    @property
    def toolkit(self) -> str:
        """Release of ptxas; empty if nothing was compiled."""
        return self.curve.toolkit if self.curve else ""

    @property
    def steps(self) -> tuple[Point, ...]:
        """Results of the tried steps."""
        return self.points[1:]

    @property
    def ends(self) -> Point | None:
        """First step without spills."""
        steps = self.steps if self.direction == "no spills" else ()
        return next((each for each in steps if each.spill_bytes == 0), None)


def tried(kernel: Kernel, command: str, launches: Launches, workshop: Workshop) -> Trial:
    """Compile ``kernel`` as built and at each step of its fix.

    ``command`` is the argument of ``sweep`` that would compile it; empty if unknown.
    """
    if missing := no_step(kernel, launches.launch_of(kernel)) or refusal(kernel, command):
        return Trial(missing=missing)
    try:
        module = _module(kernel, command, workshop)
        as_built = declared(module.kernels[kernel.key.symbol], module.arch)
        # as `check` of its binary knows it: launch bounds of code take precedence over the policy's block size
        dynamic = as_built.dynamic_shared if kernel.dynamic_shared is None else kernel.dynamic_shared
        bounds = kernel.launch_bounds or as_built.launch_bounds
        launch = launches.launch_of(structs.replace(kernel, launch_bounds=bounds, dynamic_shared=dynamic))
        return _tried(kernel, module, launch)
    except SpillscanError as error:
        return Trial(missing=str(error))


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
        return points_at(module, {symbol: launch}, setting)[symbol]

    as_is = at(AS_IS)
    if as_is.kernel is None:
        return Trial(missing=as_is.failure)
    if kernel.spills is not None and bool(as_is.spill_bytes) != bool(sum(kernel.spills)):
        here, there = (f"{number:,} B" if number else "nothing" for number in (as_is.spill_bytes, sum(kernel.spills)))
        return Trial(missing=f"compiled here it spills {here}, the input says {there}: other options or another ptxas")
    points, shared = [as_is], None
    settings, missing = steps(as_is.kernel, launch)
    for setting in settings:
        points.append(at(setting))
        if as_is.spill_bytes and points[-1].spill_bytes == 0:
            break
    if as_is.spill_bytes and declares.threads and not declares.dynamic_shared:
        made = at(SHARED_SPILLS) if spills_to_shared(module.version, module.options) else as_is
        shared = made if made.spill_bytes is not None and made.spill_bytes < as_is.spill_bytes else None
    return Trial(
        curve=curve_of(module, symbol, launch, points),
        missing=missing,
        direction="no spills" if as_is.spill_bytes else "more blocks",
        shared=shared,
    )
