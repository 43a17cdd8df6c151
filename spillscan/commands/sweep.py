"""Compile a kernel with real ptxas at each register cap or launch bound, and tabulate what comes out: registers, spills
and the loops they stand in, stack, resident blocks. Best points are marked; --vary steps adds the launch bounds that
reach the next steps of occupancy. Needs ptxas: of a CUDA toolkit, or pip install 'spillscan[sweep]'. No GPU; where
there is one, --run times your own program at each point.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from spillscan.advice.sweep import plan, timing
from spillscan.advice.sweep.axes import Axis, Tool, settings_of
from spillscan.advice.sweep.compilers import Compilers
from spillscan.advice.sweep.front_end import Cache
from spillscan.advice.sweep.model import Curve, Setting, Value
from spillscan.advice.sweep.toolkits import Processes
from spillscan.commands import _answers, _options, _policy
from spillscan.commands._selection import Selection
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.output.errors import UsageError
from spillscan.output.folders import kept
from spillscan.output.nouns import count
from spillscan.output.progress import Progress
from spillscan.output.terminal import complain
from spillscan.reading import workers
from spillscan.reports import sweep as report

EPILOG = "Example: spillscan sweep 'nvcc -O3 -arch=sm_90 -c gemm.cu' --launch 'gemm*=256' --vary cap=64,80,96,128"


_STEPS = "steps"
_TOOLS: tuple[Tool, ...] = ("nvcc", "ptxas", "pragma")
_LISTS = ("cap", "bounds", "maxnreg", "toolkit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="PTX file, CUDA source (.cu), a whole nvcc command line, quoted, a record of wrap (OBJECT.spillscan.log),"
        " or, with --kernel or --all, compile_commands.json or spillscan-build.json",
    )
    points = parser.add_argument_group("points (default: --vary cap=32,40,48,56,64,72,80,96,128,168,255)")
    _options.words(
        points,
        "--vary",
        "AXIS=V,…",
        "cap: -maxrregcount, or none; bounds: TxB; maxnreg; steps: bounds that end spills or add blocks;"
        " nvcc.OPTION, ptxas.OPTION: values, or without and with it; pragma.NAME; toolkit: 12.9, folder, all",
    )
    _options.words(points, "-D", "NAME=V,…", "a macro of a CUDA source at each value, TILE=16,32", dest="macros")
    _options.flag(
        points, "--stop", "leave out the points of a source behind the first at which none of its kernels spills"
    )
    _options.number(points, "--stop-after", "begin no more points after so long", metavar="SECONDS", least=1)
    parser.add_argument(
        "--arch", action="append", default=[], metavar="A,…", help="sm_90,sm_90a …; default: the input's own"
    )
    _options.words(parser, "--kernel", "GLOB", "only kernels of which a name matches")
    _options.add_launches(parser)
    _policy.add_file(parser)
    add_runs(parser)
    _options.add_jobs(parser)
    _options.number(
        *(parser, "--timeout", "for each compiler, and each run (default: 600)"),
        metavar="SECONDS",
        least=1,
        default=600,
    )
    parser.add_argument(
        "--cache", metavar="DIR", help="where results are kept (default: ~/.cache/spillscan/sweep); none: nowhere"
    )
    _options.add_formats(parser, "text", "json", "html")
    _options.add_rows(parser, 10, "kernels of text", "kernels, and take all sources of a build")


def run(arguments: argparse.Namespace) -> int:
    """0 where anything could be compiled; a failed point is a row. 2 where nothing could, where no run of --run went
    well, and where Ctrl-C left some of them out.
    """
    forms = _answers.forms_of(arguments)
    lists, axes = varied(arguments.vary, arguments.macros)
    caps = [text for text in lists["cap"] if text != "none"] if lists["cap"] else None
    if _STEPS in lists and caps is None and not arguments.timed:
        caps = []
    notes: list[str] = []
    whole = notes.append if arguments.all else None
    question = plan.Question(
        units=tuple(
            dict.fromkeys(unit for text in arguments.inputs for unit in plan.units(text, arguments.kernel, whole))
        ),
        archs=tuple(_archs(arguments.arch)),
        toolkits=tuple(lists["toolkit"]),
        settings=settings_of(caps, lists["bounds"], lists["maxnreg"], axes),
        globs=tuple(arguments.kernel),
        advise=_STEPS in lists,
        stop=plan.Stop(spill_free=arguments.stop, seconds=arguments.stop_after),
    )
    runs = runs_of(arguments, question.settings)
    folder = None if arguments.cache == "none" else Path(arguments.cache or kept("sweep"))
    compilers = Compilers(
        Processes(arguments.timeout),
        Cache(folder),
        arguments.jobs or workers.processors(),
        Progress("compiling", "points"),
    )
    try:
        curves = plan.sweep(question, compilers, _policy.policy_of(arguments), notes.append)
    except KeyboardInterrupt:
        if folder is not None:
            complain(
                f"{count(compilers.compiled, 'compilation is', 'compilations are')} kept; the same command goes on"
            )
        raise
    Selection((), arguments.kernel, arguments.launch).refuse_unmatched([_kernel(curve) for curve in curves])
    ended = ""
    if runs is not None:
        curves, ended = timed(curves, runs)
    _answers.answer(
        forms,
        text=lambda style: report.text(curves, style),
        json=lambda: report.document(curves),
        html=lambda: report.html(report.worst_first(curves)),
        rows=_options.rows_of(arguments),
    )
    for each in notes[:_MOST_NOTES]:
        complain(each)
    if len(notes) > _MOST_NOTES:
        complain(f"{count(len(notes) - _MOST_NOTES, 'more source')} without a kernel, or not to be compiled")
    if left := sum(len(question.settings) - len(curve.points) for curve in curves):
        complain(f"{count(left, 'point')} left out by --stop or --stop-after; without them the same command goes on")
    if compilers.failed:
        complain(f"{count(compilers.failed, 'compilation')} failed; the points say why")
    barren = _without_figures(curves)
    for toolkit in barren:
        complain(f"ptxas {toolkit} compiled nothing; the points say why")
    if ended:
        complain(ended)
    return 2 if ended or barren else 0


_MOST_NOTES = 10


def varied(texts: Sequence[str], macros: Sequence[str]) -> tuple[dict[str, list[str]], list[Axis]]:
    """(values by axis of registers or toolkits, the other axes)."""
    lists: dict[str, list[str]] = {name: [] for name in _LISTS}
    axes = [Axis("nvcc", text, macro=True) for text in macros]
    for text in texts:
        name, _, values = text.partition("=")
        tool, dot, option = text.partition(".")
        if name == _STEPS:
            lists[_STEPS] = []
        elif name in lists and values:
            lists[name].append(values)
        elif tool in _TOOLS and dot:
            axes.append(Axis(next(each for each in _TOOLS if each == tool), option))
        else:
            known = [*_LISTS, _STEPS, *(f"{each}.NAME" for each in _TOOLS)]
            raise UsageError(f"--vary {text[:60]} names no axis", f"write AXIS=V,…, AXIS one of {', '.join(known)}")
    return lists, axes


def _without_figures(curves: Sequence[Curve]) -> list[str]:
    """The releases all of whose points failed."""
    points = [(curve.toolkit, point) for curve in curves for point in curve.points]
    working = {toolkit for toolkit, point in points if not point.failure}
    return list(dict.fromkeys(toolkit for toolkit, _ in points if toolkit not in working))


def _kernel(curve: Curve) -> Kernel:
    return Kernel(key=KernelKey(symbol=curve.symbol, arch=curve.arch), role="entry", usage=Usage())


def _archs(words: Sequence[str]) -> list[str]:
    archs = [word for text in words for word in text.split(",") if word]
    for arch in archs:
        if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
            raise UsageError(f"--arch: {arch!r} is not a real arch", "write sm_90 or sm_90a")
    return list(dict.fromkeys(archs))


RUNS, WARMUPS = 5, 1


class Runs(NamedTuple):
    """What is to be run."""

    template: str
    """The command, with ``{cap}``, ``{point}`` or names of axes."""
    settings: tuple[Setting, ...]
    """Where it is run."""
    measure: str | None
    """Regular expression of the figure that the program prints; ``None``: the wall clock."""
    runs: int
    """Rounds that count."""
    warmups: int
    """Rounds before them."""
    timeout_seconds: int
    """For each run."""


def add_runs(parser: argparse.ArgumentParser) -> None:
    """--run and what goes with it."""
    timed = parser.add_argument_group("times (on a machine with a GPU)")
    timed.add_argument(
        "--run",
        dest="timed",
        metavar="COMMAND",
        help="run your own program at each point, and show its times beside the figures: './gemm-{cap} 4096', {point},"
        " {TILE} of -D TILE=…; no shell",
    )
    timed.add_argument(
        "--measure",
        metavar="REGEX",
        help="the time is what its first group finds last in what the program prints, such as 'ms: ([0-9.]+)'; default:"
        " the wall clock",
    )
    _options.number(timed, "--runs", f"runs at each point that count (default: {RUNS})", least=1)
    _options.number(timed, "--warmups", f"runs before them (default: {WARMUPS})")


def runs_of(arguments: argparse.Namespace, settings: Sequence[Setting]) -> Runs | None:
    """What is to be run, refused before anything is compiled where it makes no sense; ``None`` without --run."""
    if arguments.timed is None:
        for option in ("measure", "runs", "warmups"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option} goes with --run", "give --run 'COMMAND {cap}'")
        return None
    able = timing.to_run(arguments.timed, settings)
    timing.pattern_of(arguments.measure)
    return Runs(
        template=arguments.timed,
        settings=able,
        measure=arguments.measure,
        runs=arguments.runs or RUNS,
        warmups=WARMUPS if arguments.warmups is None else arguments.warmups,
        timeout_seconds=arguments.timeout,
    )


def timed(curves: Sequence[Curve], wanted: Runs) -> tuple[list[Curve], str]:
    """(``curves`` with what was measured, why that is not all or nothing of it is of use; empty where all is well)."""
    total = len(wanted.settings) * (wanted.runs + wanted.warmups)
    begun = 0

    progress = Progress("running", "runs")
    progress.expect(total)

    def begins(point: Value | Setting) -> None:
        nonlocal begun
        progress.reach(begun, point.label if isinstance(point, Setting) else str(point))
        begun += 1

    with progress:
        found = timing.time_runs(
            wanted.template,
            wanted.settings,
            wanted.runs,
            wanted.warmups,
            wanted.timeout_seconds,
            measure=wanted.measure,
            watch=begins,
        )
    ended = ""
    if any(each.failure == timing.INTERRUPTED for each in found):
        ended = "interrupted: the times are those of the runs until then"
    elif not any(each.figures for each in found):
        ended = "no run went well; the points say why"
    return timing.with_times(curves, found), ended
