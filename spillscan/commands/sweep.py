"""Compile a kernel with real ptxas at each register cap or launch bound, and tabulate what comes out: registers, spills
and the loops they stand in, stack, resident blocks. Best points are marked; --advise adds the launch bounds that reach
the next steps of occupancy. Needs ptxas: of a CUDA toolkit, or pip install 'spillscan[sweep]'. No GPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spillscan.commands import _common, _policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillscan.sweep.bench import Bench
    from spillscan.sweep.model import Curve

NAME = "sweep"
HELP = "what real ptxas makes of a kernel at each register cap or launch bound"
ORDER = 48
EPILOG = "Example: spillscan sweep 'nvcc -O3 -arch=sm_90 -c gemm.cu' --launch 'gemm*=256' --caps 64,80,96,128"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="PTX file, CUDA source (.cu), or a whole nvcc command line, quoted"
    )
    points = parser.add_argument_group("points (default: --caps 32,40,48,56,64,72,80,96,128,168,255)")
    points.add_argument("--caps", action="append", metavar="N,…", help="-maxrregcount at each N; none: no caps")
    points.add_argument(
        "--bounds", action="append", default=[], metavar="TxB,…", help="__launch_bounds__(T, B) in the place of its own"
    )
    points.add_argument(
        "--maxnreg", action="append", default=[], metavar="N,…", help="__maxnreg__(N) in the place of its own bounds"
    )
    points.add_argument("--advise", action="store_true", help="the bounds that reach the next steps, compiled")
    parser.add_argument(
        "--toolkits",
        action="append",
        default=[],
        metavar="T,…",
        help="releases (12.9), folders, or all; default: the command line's, the PATH's, CUDA_HOME's, a wheel's",
    )
    parser.add_argument(
        "--arch", action="append", default=[], metavar="A,…", help="sm_90,sm_90a …; default: the input's own"
    )
    parser.add_argument(
        "--kernel", action="append", default=[], metavar="GLOB", help="only kernels of which a name matches; repeatable"
    )
    _common.add_launches(parser)
    _policy.add_file(parser)
    parser.add_argument("-j", "--jobs", type=_positive, metavar="N", help="compilers at once (default: processors)")
    parser.add_argument(
        "--timeout", type=_positive, default=600, metavar="SECONDS", help="for each compiler (default: 600)"
    )
    cache = parser.add_mutually_exclusive_group()
    cache.add_argument("--cache", metavar="DIR", help="where results are kept (default: ~/.cache/spillscan/sweep)")
    cache.add_argument("--no-cache", action="store_true", help="keep no results, and use none")
    parser.add_argument("-f", "--format", choices=("text", "json", "csv"), default="text", help="text (default)")
    parser.add_argument("--plot", action="store_true", help="draw occupancy and spills over registers")
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--top", type=_common.whole_number, default=10, metavar="N", help="kernels of text (default: 10)")
    rows.add_argument("--all", action="store_true", help="show all kernels")


def run(arguments: argparse.Namespace) -> int:
    """0 where anything could be compiled; a failed point is a row. 2 where nothing could."""
    from spillscan import cores
    from spillscan.sweep import commands, plan, settings
    from spillscan.sweep.bench import Bench
    from spillscan.sweep.cache import Cache, default_folder
    from spillscan.sweep.process import Crew
    from spillscan.sweep.watch import Watch

    caps = None if arguments.caps is None else [text for text in arguments.caps if text != "none"]
    if arguments.advise and caps is None:
        caps = []
    question = plan.Question(
        units=tuple(commands.unit(text) for text in arguments.inputs),
        archs=tuple(_archs(arguments.arch)),
        toolkits=tuple(arguments.toolkits),
        settings=settings.parse(caps, arguments.bounds, arguments.maxnreg),
        globs=tuple(arguments.kernel),
        advise=arguments.advise,
    )
    folder = None if arguments.no_cache else Path(arguments.cache) if arguments.cache else default_folder()
    watched = sys.stderr.isatty()
    bench = Bench(
        Crew(arguments.timeout),
        Cache(folder),
        arguments.jobs or cores.available(),
        Watch(sys.stderr if watched else None),
    )
    try:
        curves = plan.sweep(question, bench, _policy.policy_of(arguments))
    except KeyboardInterrupt:
        if folder is not None:
            print(f"spillscan: {bench.compiled} compilations are kept; the same command goes on", file=sys.stderr)
        raise
    _write(curves, arguments, bench)
    return 0


def _write(curves: Sequence[Curve], arguments: argparse.Namespace, bench: Bench) -> None:
    if arguments.format == "json":
        import json

        from spillscan.reports._json import harmless
        from spillscan.sweep.data import VERSION, curve_data

        document = {"version": VERSION, "curves": [curve_data(curve) for curve in curves]}
        print(harmless(json.dumps(document, indent=1)))
    elif arguments.format == "csv":
        import csv

        from spillscan.sweep.data import rows

        csv.writer(sys.stdout, lineterminator="\n").writerows(rows(curves))
    else:
        _text(curves, arguments)
    if bench.failed:
        print(f"spillscan: {bench.failed} compilations failed; their points say why", file=sys.stderr)


def _text(curves: Sequence[Curve], arguments: argparse.Namespace) -> None:
    from spillscan.reports.render import style_of
    from spillscan.sweep import chart, table
    from spillscan.sweep.results import damage

    style = style_of(None)
    worst = sorted(curves, key=damage)
    names = list(dict.fromkeys(curve.symbol for curve in worst))
    most = None if arguments.all else arguments.top
    plain = "utf" not in (sys.stdout.encoding or "utf-8").lower()
    for name in names[:most]:
        for curve in (curve for curve in curves if curve.symbol == name):
            for line in table.lines(curve, style):
                _common.say(line)
            if arguments.plot:
                for line in chart.draw(curve, style.width, style.color, plain):
                    _common.say(line)
            print()
    if len(names[:most]) < len(names):
        print(f"… {len(names) - len(names[:most]):,} more kernels (--all shows them)")
    for line in table.legend(style):
        _common.say(line)


def _archs(words: Sequence[str]) -> list[str]:
    import re

    from spillscan.errors import UsageError

    archs = [word for text in words for word in text.split(",") if word]
    for arch in archs:
        if not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
            raise UsageError(f"--arch: {arch!r} is no real arch", "write sm_90 or sm_90a")
    return list(dict.fromkeys(archs))


def _positive(text: str) -> int:
    number = _common.whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return number
