"""Fixes that are tried: a kernel that spills is compiled as it is built, and at each step of bounds that leaves it
more registers, up to the first that ends its spills; one that does not, at the bounds that bring the next block; many
kernels at once, each alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from spillscan.advice.sweep import plan
from spillscan.advice.sweep.compilers import Compiled, CompileRequest, Compilers, CompileTarget
from spillscan.advice.sweep.curves import Series, curves_of, kernels_of, point
from spillscan.advice.sweep.model import AS_IS, SHARED_SPILLS, Curve, Direction, Point, Setting
from spillscan.advice.sweep.proposals import no_step, proposals, refusal, relaxations, spills_to_shared
from spillscan.advice.sweep.ptx import PtxEntry
from spillscan.model import Kernel, Launch
from spillscan.occupancy.bounds import REGISTER_STEP, register_cap
from spillscan.occupancy.devices import device
from spillscan.occupancy.launches import Launches
from spillscan.output.errors import SpillscanError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of one kernel."""

    curve: Curve | None = None
    """Its points: as it is, the steps that were tried, the smallest first, and spilling to shared memory where ptxas
    takes that; ``None`` where it could not be tried."""
    missing: str = ""
    """Why it could not be tried; empty where it was."""
    cause: str = ""
    """What bounds its registers as it is compiled here; empty where nothing does."""
    direction: Direction = "no spills"
    """What its steps are for."""

    @property
    def steps(self) -> tuple[Point, ...]:
        """The steps of bounds, as far as they were tried."""
        return tuple(each for each in self._points if each.setting.kind in ("bounds", "maxnreg"))

    @property
    def ends(self) -> Point | None:
        """The first step that ends the spills; ``None`` where none does, or it has none."""
        steps = self.steps if self.direction == "no spills" else ()
        return next((each for each in steps if each.spill_bytes == 0), None)

    @property
    def shared(self) -> Point | None:
        """What spilling to shared memory leaves, where that is less than as it is."""
        found = next((each for each in self._points if each.setting == SHARED_SPILLS), None)
        before = None if self.curve is None else self.curve.as_is.spill_bytes
        usable = found is not None and found.spill_bytes is not None and before is not None
        return found if usable and found is not None and (found.spill_bytes or 0) < (before or 0) else None

    @property
    def _points(self) -> tuple[Point, ...]:
        return () if self.curve is None else self.curve.points


@dataclass(slots=True)
class _Run:
    """A kernel while it is tried."""

    kernel: Kernel
    target: CompileTarget | None = None
    launches: Launches | None = None
    missing: str = ""
    entry: PtxEntry | None = None
    curve: Curve | None = None
    direction: Direction = "no spills"
    left: list[Setting] = field(default_factory=list)

    def trial(self) -> Trial:
        return Trial(curve=self.curve, missing=self.missing, cause=self._cause(), direction=self.direction)

    def _cause(self) -> str:
        if self.curve is None or self.target is None or self.entry is None:
            return ""
        cap, by = self.target.unit.cap, "-maxrregcount"
        if self.entry.overrides_cap:
            by, cap = self.entry.overrides_cap, self.entry.max_registers
            if cap is None and self.entry.threads:
                with contextlib.suppress(UsageError):  # no device, or more threads than a block may have
                    cap = register_cap(
                        device(self.target.arch), self.entry.threads, self.entry.min_blocks or 1
                    ).registers
        registers = self.curve.as_is.registers
        bound = cap is not None and registers is not None and cap - registers < REGISTER_STEP
        return f"{by} limits it to {cap} registers" if bound else ""


class _Known:
    """The launch of a kernel, where that is known; else what its bounds say in the PTX."""

    def __init__(self, launch: Launch | None, launches: Launches) -> None:
        self._launch, self._launches = launch, launches

    def launch_of(self, kernel: Kernel) -> Launch | None:
        return self._launch if self._launch is not None else self._launches.launch_of(kernel)


def tried(wanted: Sequence[tuple[Kernel, str]], compilers: Compilers, launches: Launches) -> list[Trial]:
    """What came of each kernel; with it what a sweep would be given to compile it, empty where that is not known."""
    runs = [_Run(kernel) for kernel, _ in wanted]
    for run, (_, command) in zip(runs, wanted, strict=True):
        launch = launches.launch_of(run.kernel)
        run.missing = no_step(run.kernel, launch) or refusal(run.kernel, command)
        if not run.missing:
            run.launches = _Known(launch, launches)
            try:
                run.target = _target(run.kernel, command)
            except SpillscanError as error:
                run.missing = str(error)
    _as_is([run for run in runs if not run.missing], compilers)
    _steps([run for run in runs if not run.missing], compilers)
    return [run.trial() for run in runs]


def _target(kernel: Kernel, command: str) -> CompileTarget:
    """The compilation that holds the kernel: of several, which all do, that of its own source, else the first."""
    units = plan.units(command, (kernel.key.symbol,))
    own = os.path.realpath(kernel.source) if kernel.source else ""
    unit = next((each for each in units if os.path.realpath(each.file) == own), units[0])
    return plan.targets(plan.Question(units=(unit,), archs=(str(kernel.key.arch),), settings=(AS_IS,)))[0]


def _as_is(runs: Sequence[_Run], compilers: Compilers) -> None:
    for run, (outcome,) in zip(runs, _compile([(run, [AS_IS]) for run in runs], compilers), strict=True):
        assert run.target is not None
        assert run.launches is not None
        entries = [each for each in compilers.entries(run.target) if each.symbol == run.kernel.key.symbol]
        if outcome.failure or not entries:
            run.missing = outcome.failure or "what its command compiles does not hold it"
            continue
        run.entry = entries[0]
        series = Series(
            input=run.target.unit.file,
            arch=run.target.arch,
            toolkit=run.target.toolkit.version,
            entries=(run.entry,),
            own_cap=run.target.unit.cap,
            outcomes=((AS_IS, outcome),),
        )
        (run.curve,) = curves_of(series, run.launches)
        run.missing = _unlike(run.kernel, run.curve.as_is)
        if run.missing:
            run.curve = None
            continue
        if run.curve.as_is.spill_bytes:
            run.left = [each.setting for each in relaxations(run.curve)]
        else:
            run.direction = "more blocks"
            steps, run.missing = proposals(run.curve, 1)
            run.left = [each.setting for each in steps if each.setting.kind == "bounds"]


def _unlike(kernel: Kernel, made: Point) -> str:
    """Why what is compiled here is of no use; empty where it is."""
    if made.failure or kernel.spills is None or bool(made.spill_bytes) == bool(sum(kernel.spills)):
        return made.failure
    here, there = (f"{number:,} B" if number else "nothing" for number in (made.spill_bytes, sum(kernel.spills)))
    return f"compiled here it spills {here}, the input says {there}: its options or its ptxas are others"


def _steps(runs: Sequence[_Run], compilers: Compilers) -> None:
    """In rounds: of each kernel that still spills the next steps, as many as keep all processors busy."""
    extra = {id(run) for run in runs if _takes_shared_spills(run)}
    while runs:
        several = max(compilers.workers // len(runs), 1)
        asked = []
        for run in runs:
            here, run.left = run.left[:several], run.left[several:]
            asked.append((run, [*here, *([SHARED_SPILLS] if id(run) in extra else [])]))
        extra.clear()
        for (run, settings), outcomes in zip(asked, _compile(asked, compilers), strict=True):
            _add(run, zip(settings, outcomes, strict=True))
        runs = [run for run in runs if run.left]


def _add(run: _Run, made: Iterable[tuple[Setting, Compiled]]) -> None:
    assert run.curve is not None
    assert run.entry is not None
    assert run.launches is not None
    points = list(run.curve.points)
    ended = False
    for setting, outcome in made:
        if ended and setting != SHARED_SPILLS:
            continue
        kernel = None if outcome.failure else kernels_of(outcome).get(run.entry.symbol)
        new = point(setting, run.entry, run.curve.arch, outcome, kernel, run.launches)
        if setting != SHARED_SPILLS or not new.failure:
            points.append(new)
        if setting != SHARED_SPILLS and new.spill_bytes == 0:
            ended, run.left = True, []
    run.curve = replace(run.curve, points=tuple(points))


def _takes_shared_spills(run: _Run) -> bool:
    """Whether it is worth asking ptxas, which refuses relocatable code and debug builds."""
    assert run.target is not None
    assert run.curve is not None
    assert run.entry is not None
    able = spills_to_shared(run.target.toolkit.version, " ".join(run.target.unit.options))
    return bool(able and run.entry.threads and not run.entry.dynamic_shared and run.curve.as_is.spill_bytes)


def _compile(asked: Sequence[tuple[_Run, Sequence[Setting]]], compilers: Compilers) -> list[list[Compiled]]:
    """The outcomes of each run's settings, all in one go; each kernel alone, though two may share a unit."""
    requests = []
    for run, settings in asked:
        assert run.target is not None
        requests += [
            CompileRequest(run.target, setting, partial(plan.is_one_of, (run.kernel.key.symbol,)))
            for setting in settings
        ]
    outcomes = iter(compilers.compile(requests))
    return [[next(outcomes) for _ in settings] for _, settings in asked]
