"""Compile kernels at several register limits or launch bounds, and compare registers, spills and occupancy.

Launch bounds that cannot be set in a kernel's PTX are not tried. CUDA source needs nvcc; PTX needs ptxas, from a CUDA
toolkit or pip install 'spillscan[sweep]'.
"""

from __future__ import annotations

import argparse
import re

from spillscan.advice.sweep.compiling import Workshop
from spillscan.advice.sweep.curves import Curve, sweep
from spillscan.advice.sweep.settings import parse_settings
from spillscan.advice.sweep.units import units
from spillscan.commands import _answers, _options, _policy
from spillscan.commands._selection import Selection
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.patterns import matches
from spillscan.output.errors import InputError, UsageError
from spillscan.output.nouns import count, listed
from spillscan.output.terminal import complain
from spillscan.reports import sweep as report

EPILOG = "Example: spillscan sweep 'nvcc -O3 -arch=sm_90 -c gemm.cu' --launch 'gemm*=256' --limits 64,80,96,128"
_ARCH = re.compile(r"sm_\d{2,3}[af]?")
_MOST_NAMED = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="PTX file, CUDA source, quoted nvcc command, or run file (choose kernels with --kernel)",
    )
    default = "default if --bounds is not given: 11 limits from 255 down to 32"
    _options.words(parser, "--limits", "N,…", f"register limits to try ({default})")
    _options.words(parser, "--bounds", "THREADS[xBLOCKS],…", "launch bounds to try, such as 256x4")
    _options.words(parser, "--arch", "ARCH,…", "arch to compile for")
    _options.words(parser, "--kernel", "GLOB", "only kernels with a matching name")
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_formats(parser, "text", "json", "csv", "markdown", "html")
    _options.add_rows(parser, 10, "kernels to show", "kernels")


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 if nothing compiles. A setting that fails is a row."""
    forms = _answers.forms_of(arguments)
    settings = parse_settings(arguments.limits, arguments.bounds)
    archs = _archs(arguments.arch)
    policy = _policy.policy_of(arguments)
    seen: list[str] = []

    def wanted(kernel: Kernel) -> bool:
        seen.append(kernel.short_name)
        return not arguments.kernel or any(matches(kernel, glob) for glob in arguments.kernel)

    with Workshop() as workshop:
        chosen = dict.fromkeys(unit for each in arguments.inputs for unit in units(each, arguments.kernel, archs))
        curves = [curve for unit in chosen for curve in sweep(unit, archs, settings, policy, wanted, workshop)]
    if not curves:
        named = listed(dict.fromkeys(seen[:_MOST_NAMED]), len(seen) - _MOST_NAMED)
        raise InputError("no kernel to sweep", f"--kernel matches none of {named}" if seen else "the source has none")
    Selection((), arguments.kernel, arguments.launch).refuse_unmatched([_kernel(curve) for curve in curves])
    if all(point.failure for curve in curves for point in curve.points):
        raise InputError(f"nothing could be compiled: {curves[0].as_is.failure}")
    _answers.answer(
        forms,
        text=lambda style: report.text(curves, style),
        json=lambda: report.document(curves),
        csv=lambda: report.records(curves),
        markdown=lambda: report.markdown(curves),
        html=lambda: report.html(report.worst_first(curves)),
        rows=_options.rows_of(arguments),
    )
    if failed := sum(bool(point.failure) for curve in curves for point in curve.points):
        complain(f"{count(failed, 'setting')} failed; -f json says why")
    return 0


def _kernel(curve: Curve) -> Kernel:
    return Kernel(key=KernelKey(symbol=curve.symbol, arch=curve.arch), role="entry", usage=Usage())


def _archs(texts: list[str]) -> list[str]:
    archs = [word for text in texts for word in text.split(",") if word]
    for arch in archs:
        if not _ARCH.fullmatch(arch):
            raise UsageError(f"--arch: {arch[:60]!r} is not a real arch", "use a name such as sm_90 or sm_90a")
    return list(dict.fromkeys(archs))
