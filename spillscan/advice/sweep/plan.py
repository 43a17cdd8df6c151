"""The whole way: units, archs and toolkits into curves, and their advice."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from msgspec import structs

from spillscan.advice.sweep import command_line, ptx, toolkits
from spillscan.advice.sweep.command_line import TranslationUnit
from spillscan.advice.sweep.compilers import Compiled, CompileRequest, Compilers, CompileTarget
from spillscan.advice.sweep.curves import Series, advised, curves_of, is_chosen, kernels_of, point
from spillscan.advice.sweep.model import Curve, Setting
from spillscan.advice.sweep.proposals import proposals
from spillscan.advice.sweep.toolkits import Toolkit
from spillscan.builds.commands import Command, commands, is_database
from spillscan.model.patterns import matches
from spillscan.occupancy.launches import Launches
from spillscan.output.errors import InputError, SpillscanError, UsageError
from spillscan.output.nouns import count, listed
from spillscan.reading import pipeline

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """When the points that are left are not compiled."""

    spill_free: bool = False
    """Of a unit: once none of its kernels spills at a point."""
    seconds: float | None = None
    """Of all: when so many have gone by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a sweep is to find out."""

    units: tuple[TranslationUnit, ...]
    """What is compiled."""
    archs: tuple[str, ...] = ()
    """Real archs; empty: those of the command line, or the PTX's own target."""
    toolkits: tuple[str, ...] = ()
    """As ``--vary toolkit`` names them; empty: the command line's own, else the first that is found."""
    settings: tuple[Setting, ...]
    """The points."""
    globs: tuple[str, ...] = ()
    """Which kernels."""
    advise: bool = False
    """Whether the step that ends spills, and the next steps of occupancy, are to be compiled, too."""
    stop: Stop = Stop()
    """When points are left out."""


def units(text: str, globs: Sequence[str], whole: Callable[[str], None] | None = None) -> list[TranslationUnit]:
    """What an argument of the command names; of a ``compile_commands.json`` or a run file the
    compilations of the kernels that ``globs`` name, as their objects show, or, where they are not built, the texts of
    their sources. With ``whole`` and no globs all of them: it is reported which cannot be compiled.

    Raises :class:`~spillscan.SpillscanError` where it names nothing that can be compiled.
    """
    if is_database(text):
        listed = [each for each in commands(text) if each.by_nvcc]
    else:
        return [command_line.unit(text)]
    if not globs and whole is None and len(listed) > 1:
        raise UsageError(f"{text} names {count(len(listed), 'source')}", "choose by --kernel GLOB, or take --all")
    found = [each for each in listed if not globs or _may_hold(each, globs)]
    if not found:
        built = sum(os.path.isfile(each.object) for each in listed)
        raise InputError(
            f"none of {count(len(listed), 'source')} is known to hold {' or '.join(globs)}",
            f"{built:,} of their objects are built; those say which kernels they hold",
        )
    made = []
    for each in found:
        try:
            made.append(command_line.of_command(each.source, each.words, each.folder))
        except SpillscanError as error:
            if whole is None:
                raise
            whole(f"{each.source}: {error}")
    return made


def _may_hold(command: Command, globs: Sequence[str]) -> bool:
    if os.path.isfile(command.object):
        try:
            kernels = pipeline.scan(command.object).kernels
        except InputError:
            kernels = ()
        if kernels:
            return any(matches(kernel, glob) for kernel in kernels for glob in globs)
    try:
        with open(command.source, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    return any(word in text for glob in globs for word in [max(_WORD.findall(glob), key=len, default="")])


def targets(question: Question) -> list[CompileTarget]:
    """Every unit for each arch by each toolkit. Raises where one of them is missing."""
    found = []
    chosen = toolkits.choose(question.toolkits) if question.toolkits else None
    default: list[Toolkit] | None = None
    for unit in question.units:
        if unit.is_ptx and any(each.words("nvcc") for each in question.settings):
            raise UsageError(f"{unit.path} is PTX, and macros and options of nvcc are for nvcc", "give the CUDA source")
        own = toolkits.of_compiler(unit.compiler) if unit.compiler else None
        if unit.compiler and os.path.dirname(unit.compiler) and own is None and chosen is None:
            raise InputError(f"{unit.compiler}: there is no such compiler here", "choose another by --vary toolkit=")
        if chosen is None and own is None and default is None:
            default = toolkits.choose(())
        for toolkit in chosen or ([own] if own else default or []):
            front_end = None if unit.is_ptx else _front_end(toolkit, own)
            found += [CompileTarget(unit, toolkit, front_end, arch) for arch in question.archs or _archs(unit)]
    return found


def is_one_of(symbols: Collection[str], entry: ptx.PtxEntry) -> bool:
    """Whether an entry is called by one of ``symbols``."""
    return entry.symbol in symbols


def _front_end(toolkit: Toolkit, own: Toolkit | None) -> Toolkit:
    """Whose nvcc makes the PTX: its own, else the command line's, else the first that is found."""
    candidates = [toolkit, *([own] if own else [])]
    nvcc = next((each for each in candidates if each.nvcc), None) or next(
        (each for each in toolkits.installed() if each.nvcc), None
    )
    if nvcc is None:
        raise UsageError("a CUDA source needs nvcc, and none is found", "give PTX (nvcc -ptx), or install a toolkit")
    return nvcc


def _archs(unit: TranslationUnit) -> tuple[str, ...]:
    if unit.targets:
        return tuple(real for real, _ in unit.targets)
    if unit.is_ptx:
        with open(unit.file, "rb") as file:
            arch = ptx.target(file.read().decode("utf-8", "surrogateescape"))
        if arch is None:
            raise InputError(f"{unit.path} has no .target: it is not PTX", "make it by nvcc -ptx")
        return (arch,)
    raise UsageError(f"{unit.path}: no arch", "give --arch sm_90, or a command line that has one")


def sweep(
    question: Question, compilers: Compilers, launches: Launches, note: Callable[[str], None] = lambda text: None
) -> list[Curve]:
    """A curve for each kernel, unit by unit, arch by arch, toolkit by toolkit; ``note`` gets units without any.

    Raises :class:`~spillscan.InputError` where nothing at all could be compiled, or no kernel is chosen.
    """
    wanted = targets(question)
    outcomes = _compiled(question, wanted, compilers)
    _refuse_nothing(outcomes.values())
    found: list[Curve] = []
    for target in wanted:
        made = [(setting, outcomes[target, setting]) for setting in question.settings if (target, setting) in outcomes]
        entries = _entries(target, [setting for setting, _ in made], compilers)
        if not entries:
            note(f"{target.unit.file} ({target.arch}): {made[0][1].failure or 'it has no kernels'}")
        series = Series(
            input=target.unit.file,
            arch=target.arch,
            toolkit=target.toolkit.version,
            entries=entries,
            own_cap=target.unit.cap,
            outcomes=tuple(made),
        )
        curves = [_by_hand(curve, target) for curve in curves_of(series, launches, question.globs)]
        found += _advised(target, entries, curves, compilers, launches) if question.advise else curves
    if not found:
        known = sorted({entry.symbol for target in wanted for entry in compilers.entries(target)})
        named = listed(known[:5], len(known) - 5)
        raise InputError("no kernel to sweep", f"--kernel names none of {named}" if known else "the PTX has no entry")
    return found


_Outcomes = dict[tuple[CompileTarget, Setting], Compiled]


def _compiled(question: Question, wanted: Sequence[CompileTarget], compilers: Compilers) -> _Outcomes:
    """What came of each point; with a rule to stop in rounds, of each target as many as keep all processors busy."""
    stop, begun = question.stop, time.monotonic()
    chosen = {
        target: partial(is_chosen, arch=target.arch, globs=question.globs) if question.globs else None
        for target in wanted
    }
    left = {target: list(question.settings) for target in wanted}
    found: _Outcomes = {}
    while left and not (found and stop.seconds is not None and time.monotonic() - begun >= stop.seconds):
        several = max(compilers.workers // len(left), 1) if stop != Stop() else len(question.settings)
        asked = [CompileRequest(each, setting, chosen[each]) for each, its in left.items() for setting in its[:several]]
        found |= zip((each[:2] for each in asked), compilers.compile(asked), strict=True)
        left = {
            target: its[several:]
            for target, its in left.items()
            if its[several:] and not (stop.spill_free and _spill_free(target, question, found))
        }
    return found


def _spill_free(target: CompileTarget, question: Question, found: _Outcomes) -> bool:
    """Whether no kernel of a target that is asked for spills at one of its points."""
    for outcome in (found.get((target, setting)) for setting in question.settings):
        if outcome is not None and not outcome.failure:
            kernels = kernels_of(outcome).values()
            asked = [each for each in kernels if not question.globs or any(matches(each, it) for it in question.globs)]
            if asked and all(each.spills == (0, 0) for each in asked):
                return True
    return False


def _entries(target: CompileTarget, settings: Iterable[Setting], compilers: Compilers) -> tuple[ptx.PtxEntry, ...]:
    """Its kernels, and those that it has at points only at which nvcc is given something else."""
    found = {entry.symbol: entry for entry in compilers.entries(target)}
    for setting in settings:
        if setting.words("nvcc"):
            found = {entry.symbol: entry for entry in compilers.entries(target, setting)} | found
    return tuple(found.values())


def _by_hand(curve: Curve, target: CompileTarget) -> Curve:
    """The points with the commands that compile them."""
    points = (
        structs.replace(each, ran=structs.replace(each.ran, command=target.by_hand(each.setting)))
        for each in curve.points
    )
    return replace(curve, points=tuple(points))


def _refuse_nothing(outcomes: Iterable[Compiled]) -> None:
    failures = [outcome.failure for outcome in outcomes]
    if all(failures):
        raise InputError(f"nothing could be compiled: {failures[0]}", "compile it once by hand to see all that is said")


def _advised(
    target: CompileTarget,
    entries: Sequence[ptx.PtxEntry],
    curves: Sequence[Curve],
    compilers: Compilers,
    launches: Launches,
) -> list[Curve]:
    """``curves`` with their next steps, each distinct setting compiled once."""
    proposed = [proposals(curve) for curve in curves]
    symbols: dict[Setting, set[str]] = {}
    for curve, (steps, _) in zip(curves, proposed, strict=True):
        for _, setting, _ in steps:
            symbols.setdefault(setting, set()).add(curve.symbol)
    compiled = compilers.compile(
        [CompileRequest(target, each, partial(is_one_of, its)) for each, its in symbols.items()]
    )
    outcomes = dict(zip(symbols, compiled, strict=True))
    kernels = {setting: kernels_of(outcome) for setting, outcome in outcomes.items() if not outcome.failure}
    by_symbol = {entry.symbol: entry for entry in entries}
    found = []
    for curve, (steps, why) in zip(curves, proposed, strict=True):
        entry = by_symbol[curve.symbol]
        made = [
            point(
                step.setting,
                entry,
                curve.arch,
                outcomes[step.setting],
                kernels.get(step.setting, {}).get(curve.symbol),
                launches,
            )
            for step in steps
        ]
        found.append(advised(curve, list(zip(steps, made, strict=True)), why))
    return found
