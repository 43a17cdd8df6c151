"""Show what compilations took: by source file, architecture, tool and step, by kernel and family.

Of ptxas, what its logs say of each kernel (-Xptxas -v, 12.8 and later); of all tools, the tables of nvcc --time and
the traces of nvcc -fdevice-time-trace. Several of these measure the same time: they stand beside each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from os.path import basename

from spillscan.commands import _answers, _inputs, _issues, _options, _policy
from spillscan.judging.verdict import gaps_of_issues, verdict
from spillscan.model import Build, Origin, Timing
from spillscan.naming import Names
from spillscan.output.errors import InputError
from spillscan.output.nouns import count
from spillscan.reports.size_groups import NO_KERNEL, Measure, Part, SizeGroup, SizeGroups, of_kernels, whole

EPILOG = "Example: spillscan scan times build.log --by family,arch --top 10"
_LEVELS = ("file", "arch", "tool", "step", "family", "kernel", "namespace", "about")
MILLISECONDS = (Measure("milliseconds", "ms", 1),)
_SOURCES = {"times": "nvcc --time", "trace": "nvcc -fdevice-time-trace"}
_PRINTED = "ptxas -v"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="build log, snapshot, table of nvcc --time, trace, or folder"
    )
    _options.add_levels(parser, _LEVELS, ("file", "tool"))
    _policy.add_accept(parser)
    _options.add_rows(parser, 12, "groups of each group to show", "groups")
    _policy.add_file(parser)
    _options.add_formats(parser, "text", "json", "csv", "html")


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where an input cannot be read, or part of it could not."""
    forms = _answers.forms_of(arguments)
    policy = _policy.policy_of(arguments)
    unpacking = _policy.unpacking(policy)
    build = _inputs.scan(arguments.inputs, unpacking=unpacking)
    base = _inputs.scan(arguments.base, unpacking=unpacking) if arguments.base else None
    found = SizeGroups(_trees(build, base, arguments.by), arguments.by, MILLISECONDS)
    most = _options.rows_of(arguments)
    unknown = sum(kernel.compile_ms is None and kernel.role == "entry" for kernel in build.kernels)
    said = [f"of {count(unknown, 'kernel')} no input says it"] if unknown else []
    _answers.answer(
        forms,
        text=lambda style: (*found.lines(most, style), *said),
        json=lambda: {"by": found.levels, "totals": found.documents(), "unknown_kernels": unknown},
        csv=lambda: found.records("source"),
        html=lambda: found.page(f"Compile time of {basename(arguments.inputs[0])}"),
    )
    issues = (*(base.issues if base is not None else ()), *build.issues)
    gaps = gaps_of_issues(issues, frozenset({"time"}), strict=policy.strict)
    return _issues.conclude(verdict((), gaps, policy), issues)


def _trees(build: Build, base: Build | None, levels: Sequence[str]) -> list[SizeGroup]:
    """What was measured in one way, a tree for each way."""
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
    return [whole(parts, MILLISECONDS, base is not None, label) for label, parts in sorted(found.items())]


def _timings(build: Build) -> Iterator[Timing]:
    """All that is known: what nvcc wrote down, and what ptxas printed, which no trace has brought to its kernel."""
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
