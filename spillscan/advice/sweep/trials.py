"""Try the fix of one kernel.

A kernel that spills is compiled as built, and with increasing register limits until it has no spills. Other kernels are
compiled with the launch bounds that add a resident block. A step that is proposed is compiled for all kernels that it
changes: the instances of one template, or overloads of one name, for all archs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from spillscan.advice.sweep.compiling import Module, Workshop
from spillscan.advice.sweep.curves import Point, declared, marked, points_at
from spillscan.advice.sweep.proposals import no_step, refusal, spills_to_shared, steps
from spillscan.advice.sweep.settings import AS_IS, SHARED_SPILLS, Setting
from spillscan.advice.sweep.units import units
from spillscan.judging.compare.metrics import compare, linked_apart, other_code
from spillscan.judging.compare.pairing import changed
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check_changes
from spillscan.model import Kernel, Launch
from spillscan.model.metrics import find_metric
from spillscan.naming.names import display
from spillscan.occupancy.launches import Launches
from spillscan.output.errors import SpillscanError, UsageError

Direction = Literal["no spills", "more blocks"]
"""Goal of a trial: more registers to end spills, or fewer to add resident blocks."""


class Effects(NamedTuple):
    """Effects of a setting on all kernels that it changes, as `check` would report them."""

    worse: tuple[str, ...] = ()
    """Errors, each with its kernel."""
    untried: tuple[str, ...] = ()
    """Kernels that were not compiled with it."""


class Trial(Struct, frozen=True, kw_only=True):
    """Result for one kernel."""

    points: tuple[Point, ...] = ()
    """Results: the kernel as built, then the tried steps, smallest first; empty if nothing could be tried."""
    toolkit: str = ""
    """Release of ptxas; empty if nothing was compiled."""
    missing: str = ""
    """Why it could not be tried, or has no step."""
    direction: Direction = "no spills"
    """Goal of its steps."""
    shared: Point | None = None
    """Result of spilling to shared memory, if that reduces spills to local memory."""
    effects: Mapping[Setting, Effects] = {}
    """Effects of the proposed settings."""

    @property
    def is_other_build(self) -> bool:
        """Whether the kernel or its unit compiles to other code than the input's, so that nothing was tried."""
        return bool(self.toolkit) and not self.points

    @property
    def steps(self) -> tuple[Point, ...]:
        """Results of the tried steps."""
        return self.points[1:]

    @property
    def ends(self) -> Point | None:
        """First step without spills."""
        steps = self.steps if self.direction == "no spills" else ()
        return next((each for each in steps if each.spill_bytes == 0), None)

    @property
    def best(self) -> Point | None:
        """Step to propose: the first without spills, else the one that spills least and keeps its blocks."""
        before = self.points[0] if self.points else None
        if before is None or before.blocks is None:
            return self.ends
        if self.direction == "more blocks":
            return next((each for each in self.steps[:1] if (each.blocks or 0) > before.blocks), None)
        kept = [each for each in self.steps if (each.blocks or 0) >= before.blocks and each.spill_bytes is not None]
        least = min(kept, key=lambda each: each.spill_bytes or 0, default=before)
        fewer = (least.spill_bytes or 0) < (before.spill_bytes or 0)
        return self.ends or (least if fewer else None)


def tried(
    kernel: Kernel, command: str, launches: Launches, workshop: Workshop, policy: Policy, build: Sequence[Kernel]
) -> Trial:
    """Compile ``kernel`` as built and at each step of its fix.

    ``command`` is the argument of ``sweep`` that would compile it; empty if unknown. ``build``: all kernels of the
    build, to be checked by ``policy``.
    """
    if missing := no_step(kernel, launches.launch_of(kernel)) or refusal(kernel, command):
        return Trial(missing=missing)
    try:
        alike = [each for each in build if each.role == "entry" and _family(each) == _family(kernel)]
        archs = tuple({each.key.arch: None for each in (kernel, *alike) if each.key.arch})
        module = _module(kernel, command, workshop, archs)
        as_built = declared(module.kernels[kernel.key.symbol], module.arch)
        # as `check` of its binary knows it: launch bounds of code take precedence over the policy's block size
        dynamic = as_built.dynamic_shared if kernel.dynamic_shared is None else kernel.dynamic_shared
        bounds = kernel.launch_bounds or as_built.launch_bounds
        launch = launches.launch_of(structs.replace(kernel, launch_bounds=bounds, dynamic_shared=dynamic))
        trial = _tried(kernel, module, launch, alike)
        proposed = [each.setting for each in (trial.best, trial.shared) if each is not None]
        if proposed:
            modules = workshop.modules(module.unit, archs if module.unit.is_ptx else ())
            effects = {each: _effects(each, modules, launches, policy, alike) for each in proposed}
            trial = structs.replace(trial, effects=effects)
        return trial
    except SpillscanError as error:
        return Trial(missing=str(error))


def _module(kernel: Kernel, command: str, workshop: Workshop, archs: Sequence[str]) -> Module:
    """Module that defines the kernel, preferably from the call that wrote its object, else from its source.

    ``archs``: archs of the build, for a source without a recorded command.
    """
    arch, own = str(kernel.key.arch), os.path.realpath(kernel.source) if kernel.source else ""
    own_files = {
        os.path.realpath(each) for each in (kernel.key.unit, *(origin.input for origin in kernel.origins)) if each
    }
    several = units(command, (kernel.key.symbol,), archs)
    order = {
        each: (os.path.realpath(each.object) not in own_files, os.path.realpath(each.path) != own) for each in several
    }
    for unit in sorted(several, key=order.__getitem__):
        for module in workshop.modules(unit, (arch,)):
            if kernel.key.symbol in module.kernels:
                return module
    raise UsageError("the compile command does not produce this kernel", "build again, so that source and input agree")


def _tried(kernel: Kernel, module: Module, launch: Launch | None, alike: Sequence[Kernel]) -> Trial:
    symbol, unit = kernel.key.symbol, kernel.key.unit
    declares = module.kernels[symbol]
    same = [each for each in alike if unit and (each.key.unit, each.key.arch) == (unit, module.arch)]
    known = {each.key.symbol: each for each in (*same, kernel) if each.key.symbol in module.kernels}

    as_built = points_at(module, dict.fromkeys(module.kernels, launch), AS_IS)
    as_is = as_built[symbol]
    if as_is.kernel is None:
        return Trial(missing=as_is.failure)
    for each in (kernel, *known.values()):  # options that change one kernel of a unit may change the others
        made = as_built[each.key.symbol].kernel
        if made is not None and (difference := _difference(each, made)):
            differs = f"{'it' if each is kernel else _label(each)} differs from the input ({difference})"
            why = "other options, source or ptxas; build again under `spillscan run`"
            return Trial(missing=f"recompiled, {differs}: {why}", toolkit=module.version)
    points, shared = [as_is], None
    settings, missing = steps(as_is.kernel, launch)
    for setting in settings:
        points.append(points_at(module, {symbol: launch}, setting)[symbol])
        if as_is.spill_bytes and points[-1].spill_bytes == 0:
            break
    shares = declares.threads and not declares.dynamic_shared and spills_to_shared(module.version, module.options)
    if as_is.spill_bytes and shares:
        moved = points_at(module, {symbol: launch}, SHARED_SPILLS)[symbol]
        shared = moved if moved.spill_bytes is not None and moved.spill_bytes < as_is.spill_bytes else None
    direction: Direction = "no spills" if as_is.spill_bytes else "more blocks"
    return Trial(points=marked(points), toolkit=module.version, missing=missing, direction=direction, shared=shared)


def _difference(given: Kernel, made: Kernel) -> str:
    """Known difference of a kernel in the input and as recompiled, ``registers 48 → 64``; empty if there is none.

    The code's digest finds differences that no metric shows. Linking changes relocatable code.
    """
    apart = linked_apart(given, made, equal=False)
    for name, there, here in compare(given, made):
        if there is not None and here is not None and not (apart and name.startswith("constant_bytes")):
            return f"{find_metric(name).label} {there:,} → {here:,} {find_metric(name).unit}".rstrip()
    return "machine code" if not apart and other_code(given, made) else ""


def _effects(
    setting: Setting, modules: Sequence[Module], launches: Launches, policy: Policy, alike: Sequence[Kernel]
) -> Effects:
    """Effects of ``setting`` on the kernels of one name, in all ``modules`` of a unit.

    ``alike``: those of the build; one that differs from the kernel compiled here is of another unit, and untried.
    """
    worse, tested = [], dict[int, str]()
    family = _family(alike[0])
    for module in modules:
        kernels = [declared(each, module.arch) for each in module.kernels.values()]
        same = {each.key.symbol: launches.launch_of(each) for each in kernels if _family(each) == family}
        as_is = points_at(module, dict.fromkeys(module.kernels) | same, AS_IS)
        made = points_at(module, same, setting)
        for symbol in same:
            before, after = as_is[symbol].kernel, made[symbol].kernel
            if before is None or after is None:
                continue
            given = [each for each in alike if (each.key.symbol, each.key.arch) == (symbol, module.arch)]
            equal = {id(each): _label(each) for each in given if not _difference(each, before)}
            if equal or not given:
                tested |= equal
                change = changed(before, after, launches)
                findings = check_changes([change], policy).findings if change is not None else ()
                worse += [f"{_label(before)} {each.message}" for each in findings if each.severity == "error"]
    left = [each for each in alike if id(each) not in tested]
    untried = {f"{_label(each)}{f' of {each.key.unit}' * (_label(each) in tested.values())}": None for each in left}
    return Effects(tuple(worse), tuple(untried))


def _family(kernel: Kernel) -> str:
    """Name shared by kernels that may share one place in the source."""
    return display(kernel.key.symbol).family


def _label(kernel: Kernel) -> str:
    return f"{display(kernel.key.symbol).full} ({kernel.key.arch})"
