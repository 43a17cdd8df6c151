"""Show what compilations took: by source file, architecture, tool and step, by kernel and family.

Of ptxas, what its logs say of each kernel (-Xptxas -v, 12.8 and later); of all tools, the tables of nvcc --time and
the traces of nvcc -fdevice-time-trace. Several of these measure the same time: they stand beside each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from os.path import basename
from typing import TYPE_CHECKING

from spillscan.commands import _common, _policy
from spillscan.output.errors import InputError

if TYPE_CHECKING:
    from spillscan.model import Build, Timing
    from spillscan.naming import Names
    from spillscan.output.terminal import Style
    from spillscan.reports.portions import Measure, Portion

NAME = "times"
HELP = "show what compilations took: by file, arch, tool, kernel, family"
EPILOG = "Example: spillscan times build.log --by family,arch --top 10"
_LEVELS = ("file", "arch", "tool", "step", "family", "kernel", "namespace", "about")
_SOURCES = {"times": "nvcc --time", "trace": "nvcc -fdevice-time-trace"}
_PRINTED = "ptxas -v"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="build log, snapshot, table of nvcc --time, trace, or folder"
    )
    _common.add_levels(parser, _LEVELS, ("file", "tool"))
    _policy.add_accept(parser)
    _common.add_rows(parser, 12, "groups of each group to show", "groups")
    _policy.add_file(parser)
    _common.add_formats(parser, ("text", "json", "csv", "parquet", "html"))


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where an input cannot be read, or part of it could not."""
    from spillscan.judging.verdict import holes_of_issues, verdict
    from spillscan.reports import portions

    forms = _common.forms_of(arguments)
    policy = _policy.policy_of(arguments)
    unpacking = _policy.unpacking(policy)
    build = _common.scan(arguments.inputs, unpacking=unpacking)
    base = _common.scan(arguments.base, unpacking=unpacking) if arguments.base else None
    levels, measures = arguments.by, [portions.Measure("milliseconds", "ms", 1)]
    roots = _trees(build, base, levels, measures)
    most = _common.rows_of(arguments)
    unknown = sum(kernel.compile_ms is None and kernel.role == "entry" for kernel in build.kernels)
    documents = [root.document(measures) for root in roots]
    _common.answer(
        forms,
        text=lambda style: _text(roots, measures, unknown, most, style),
        json=lambda: {"by": levels, "totals": documents, "unknown_kernels": unknown},
        csv=lambda: (
            portions.heads(("source", *levels), measures, base is not None),
            *(row for root in roots for row in root.rows()),
        ),
        html=lambda: _common.page_of(f"Compile time of {basename(arguments.inputs[0])}", documents, measures),
    )
    issues = (*(base.issues if base is not None else ()), *build.issues)
    holes = holes_of_issues(issues, frozenset({"time"}), strict=policy.strict)
    return _common.conclude(verdict((), holes, policy), issues)


def _trees(build: Build, base: Build | None, levels: Sequence[str], measures: Sequence[Measure]) -> list[Portion]:
    """What was measured in one way, a tree for each way."""
    from spillscan.naming import Names
    from spillscan.reports.portions import Part, whole

    timings = [(each, old) for old, of in ((False, build), (True, base)) if of is not None for each in _timings(of)]
    if not timings:
        raise InputError(
            "no input says what a compilation took",
            "give a log of -Xptxas -v (12.8 and later), or what nvcc --time FILE or -fdevice-time-trace FILE wrote",
        )
    labels = _labels(Names(dict.fromkeys(timing.symbol for timing, _ in timings if timing.symbol)))
    wanted = [labels[level] for level in levels]
    found: dict[str, list[Part]] = {}
    for timing, old in timings:
        part = Part(tuple(label(timing) for label in wanted), (timing.milliseconds,), old)
        found.setdefault(_SOURCES.get(timing.origin.format, _PRINTED), []).append(part)
    return [whole(parts, measures, base is not None, label) for label, parts in sorted(found.items())]


def _timings(build: Build) -> Iterator[Timing]:
    """All that is known: what nvcc wrote down, and what ptxas printed, which no trace has brought to its kernel."""
    from spillscan.model import Origin, Timing

    yield from build.timings
    for kernel in build.kernels:
        if kernel.compile_ms is not None and not any(origin.format in _SOURCES for origin in kernel.origins):
            yield Timing(
                milliseconds=kernel.compile_ms,
                file=kernel.source or kernel.key.unit,
                arch=kernel.key.arch,
                tool="ptxas",
                symbol=kernel.key.symbol,
                origin=kernel.origins[0] if kernel.origins else Origin(input=""),
            )


def _labels(names: Names) -> dict[str, Callable[[Timing], str]]:
    from spillscan.reports.portions import NO_KERNEL, of_kernels

    def of_kernel(label: Callable[[str], str]) -> Callable[[Timing], str]:
        return lambda timing: label(timing.symbol) if timing.symbol else NO_KERNEL

    return {
        "file": lambda timing: timing.file or "(no file)",
        "arch": lambda timing: timing.arch or "(all)",
        "tool": lambda timing: timing.tool or "(no name)",
        "step": lambda timing: timing.step or timing.tool or "(no name)",
        "about": lambda timing: timing.about or "(nothing in particular)",
        **{level: of_kernel(label) for level, label in of_kernels(names).items()},
    }


def _text(
    roots: Sequence[Portion], measures: Sequence[Measure], unknown: int, most: int | None, style: Style
) -> Iterator[str]:
    from spillscan.reports import portions

    yield from portions.lines(roots, measures, most, style)
    if unknown:
        yield f"of {unknown:,} kernels no input says it"
