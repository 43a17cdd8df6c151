"""Show what Nsight Compute measured next to a build: launches, time, achieved and theoretical occupancy, local-memory
traffic, and the share of spill instructions."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from spillscan.advice.profile import text
from spillscan.advice.profile.exports import read_all
from spillscan.advice.profile.judged import JudgedLaunch, issues, judge, worst_first
from spillscan.advice.profile.launchmap import known_launches, launch_list, lines
from spillscan.commands import _answers, _inputs, _issues, _options
from spillscan.commands._selection import Selection
from spillscan.model import Build, Issue
from spillscan.model.patterns import compiled, names_of, text_of
from spillscan.output.errors import InputError, UsageError
from spillscan.output.terminal import say
from spillscan.reading.inputs.source import Source, expand, kind_of_binary

EPILOG = "Example: ncu --set full --csv --page raw ./app > app.csv; spillscan profile app.csv build.log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_profile(parser)
    _options.flag(parser, "--launches", "print the launches as a policy file, not what was measured")
    _options.add_selection(parser)
    _options.add_formats(parser)
    _options.add_rows(parser, 25, "rows of text to show", "rows of text")


def add_profile(parser: argparse.ArgumentParser) -> None:
    """PROFILE and INPUT…"""
    parser.add_argument(
        "profile",
        metavar="CSV",
        help="what ncu --csv wrote: raw page (best: --set full), details page, --metrics; a trace of nsys;"
        " a table kernel,block,dynamic; a folder or glob pattern of these, or - for standard input",
    )
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="the build whose kernels were launched: logs, dumps, binaries, snapshots; without any, the profile alone",
    )


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where the profile or the build cannot be read."""
    if arguments.launches:
        return _launch_map(arguments)
    forms = _answers.forms_of(arguments)
    complaints, judged, build = read(arguments)
    found = [*complaints, *issues(judged, build is not None)]
    chosen = worst_first(select(judged, arguments.arch, arguments.kernel))
    rows = [text.row(each) for each in chosen]
    _answers.answer(
        forms,
        text=lambda style: text.text(chosen, style),
        json=lambda: text.document(chosen, found),
        csv=lambda: (tuple(rows[0]), *(tuple(each.values()) for each in rows)),
        rows=_options.rows_of(arguments),
    )
    _issues.report_issues(found)
    return 0


def _launch_map(arguments: argparse.Namespace) -> int:
    """Print the launches as a policy: of what a profiler saw, a table, or a cache folder or binary."""
    if _is_build(arguments.profile):
        compiled = Selection(arguments.arch, arguments.kernel).of(_inputs.scan([arguments.profile, *arguments.inputs]))
        found, complaints = known_launches(compiled.kernels), list(compiled.issues)
        hint = "give a profile, too"
    else:
        complaints, judged, build = read(arguments)
        chosen = select(judged, arguments.arch, arguments.kernel)
        found, complaints = launch_list(chosen, build is not None), [*complaints, *issues(chosen, build is not None)]
        hint = "profile with --section LaunchStats, in base units"
    if not found.entries:
        kernel, why = found.left_out[0]
        raise InputError(f"no launch is known: {kernel}: {why}", hint)
    say(lines(found))
    _issues.report_issues(complaints)
    return 0


def _is_build(path: str) -> bool:
    """Whether ``path`` is no profile but what was compiled: a cache folder, a binary."""
    if os.path.isdir(path):
        return any(name.endswith((".cubin", ".json")) for _, _, names in os.walk(path) for name in names)
    if not os.path.isfile(path):
        return False
    with Source(path).open() as stream:
        head = stream.head()
    return kind_of_binary(head) is not None


def read(arguments: argparse.Namespace) -> tuple[list[Issue], tuple[JudgedLaunch, ...], Build | None]:
    """(what the profiler complained of, the launches, the build) of a command with :func:`add_profile`."""
    if arguments.profile == "-" and "-" in arguments.inputs:
        raise UsageError("standard input is both profile and build", "give one of them as a file")
    profile = read_all(expand([arguments.profile]))
    build = _inputs.scan(arguments.inputs) if arguments.inputs else None
    return list(profile.issues), judge(profile, build), build


def select(judged: Sequence[JudgedLaunch], arches: Sequence[str], globs: Sequence[str]) -> list[JudgedLaunch]:
    """The launches that the user asked for; :class:`InputError` where that leaves none."""

    def chosen(each: JudgedLaunch, arches: Sequence[str], globs: Sequence[str]) -> bool:
        kernel = each.match.kernel
        names = names_of(each.launch.kernel if kernel is None else kernel.named_by)
        return (not arches or each.launch.arch in arches) and (
            not globs or any(compiled(pattern).fits(text_of(names), names) for pattern in globs)
        )

    for option, one in [*(("--arch", arch) for arch in arches), *(("--kernel", glob) for glob in globs)]:
        if not any(chosen(each, *(([one], []) if option == "--arch" else ([], [one]))) for each in judged):
            raise InputError(f"no launch matches {option} {one!r}", "the profile has others")
    kept = [each for each in judged if chosen(each, arches, globs)]
    if not kept:
        raise InputError("no launch matches both --arch and --kernel", "the profile has others")
    return kept
