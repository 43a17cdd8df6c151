"""The whole way: units, archs and toolkits into curves, and their advice."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from spillscan.advice.sweep import command_line, ptx, toolkits
from spillscan.advice.sweep.command_line import TranslationUnit
from spillscan.advice.sweep.compilers import Compiled, CompileRequest, Compilers, CompileTarget
from spillscan.advice.sweep.curves import Series, advised, curves_of, is_chosen, kernels_of, point, proposals
from spillscan.advice.sweep.model import Curve, Setting
from spillscan.advice.sweep.toolkits import Toolkit
from spillscan.builds.databases import Command, commands, is_database, recorded
from spillscan.model.patterns import matches
from spillscan.occupancy.launches import Launches
from spillscan.output.errors import InputError, UsageError
from spillscan.reading import pipeline

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a sweep is to find out."""

    units: tuple[TranslationUnit, ...]
    """What is compiled."""
    archs: tuple[str, ...] = ()
    """Real archs; empty: those of the command line, or the PTX's own target."""
    toolkits: tuple[str, ...] = ()
    """As ``--toolkits`` names them; empty: the command line's own, else the first that is found."""
    settings: tuple[Setting, ...]
    """The points."""
    globs: tuple[str, ...] = ()
    """Which kernels."""
    advise: bool = False
    """Whether the step that ends spills, and the next steps of occupancy, are to be compiled, too."""


def units(text: str, globs: Sequence[str]) -> list[TranslationUnit]:
    """What an argument of the command names; of a ``compile_commands.json``, or a record of ``spillscan wrap``, the
    compilations of the kernels that ``globs`` name, as their objects show, or, where they are not built, the texts of
    their sources.

    Raises :class:`~spillscan.SpillscanError` where it names nothing that can be compiled.
    """
    if (own := recorded(text)) is not None and own.by_nvcc:
        listed = [own]
    elif is_database(text):
        listed = [each for each in commands(text) if each.by_nvcc]
    else:
        return [command_line.unit(text)]
    if not globs and len(listed) > 1:
        raise UsageError(f"{text} names {len(listed):,} sources", "choose by --kernel GLOB")
    found = [each for each in listed if not globs or _may_hold(each, globs)]
    if not found:
        built = sum(os.path.isfile(each.object) for each in listed)
        raise InputError(
            f"none of {len(listed):,} sources is known to hold {' or '.join(globs)}",
            f"{built:,} of their objects are built; those say which kernels they hold",
        )
    return [command_line.of_command(each.source, each.words, each.folder) for each in found]


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
        own = toolkits.of_compiler(unit.compiler) if unit.compiler else None
        if unit.compiler and os.path.dirname(unit.compiler) and own is None and chosen is None:
            raise InputError(f"{unit.compiler}: there is no such compiler here", "choose another by --toolkits")
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
            raise InputError(f"{unit.path} has no .target: it is no PTX", "make it by nvcc -ptx")
        return (arch,)
    raise UsageError(f"{unit.path}: no arch", "give --arch sm_90, or a command line that has one")


def sweep(question: Question, compilers: Compilers, launches: Launches) -> list[Curve]:
    """A curve for each kernel, unit by unit, arch by arch, toolkit by toolkit.

    Raises :class:`~spillscan.InputError` where nothing at all could be compiled, or no kernel is chosen.
    """
    wanted = targets(question)
    asked = [
        CompileRequest(
            target, setting, partial(is_chosen, arch=target.arch, globs=question.globs) if question.globs else None
        )
        for target in wanted
        for setting in question.settings
    ]
    outcomes = dict(zip((each[:2] for each in asked), compilers.compile(asked), strict=True))
    _refuse_nothing(outcomes.values())
    found: list[Curve] = []
    for target in wanted:
        entries = compilers.entries(target)
        series = Series(
            input=target.unit.file,
            arch=target.arch,
            toolkit=target.toolkit.version,
            entries=entries,
            own_cap=target.unit.cap,
            outcomes=tuple((setting, outcomes[target, setting]) for setting in question.settings),
        )
        curves = curves_of(series, launches, question.globs)
        found += _advised(target, entries, curves, compilers, launches) if question.advise else curves
    if not found:
        known = sorted({entry.symbol for target in wanted for entry in compilers.entries(target)})
        named = ", ".join(known[:5]) + (f" and {len(known) - 5} more" if len(known) > 5 else "")
        raise InputError("no kernel to sweep", f"--kernel names none of {named}" if known else "the PTX has no entry")
    return found


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
