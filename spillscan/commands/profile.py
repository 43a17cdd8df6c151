"""Hold what Nsight Compute measured against a build: achieved and theoretical occupancy, local-memory traffic, executed
spill instructions, and what the published procedure makes of them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillscan.commands import _common

if TYPE_CHECKING:
    from spillscan.model import Build, Issue
    from spillscan.profile.judged import JudgedLaunch

NAME = "profile"
HELP = "hold what Nsight Compute measured against a build"
ORDER = 46
EPILOG = "Example: ncu --set full --csv --page raw ./app > app.csv; spillscan profile app.csv build.log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_profile(parser)
    _common.add_selection(parser)
    parser.add_argument(
        "-f", "--format", choices=("text", "json", "csv"), default="text", help="text (default), json, csv"
    )
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument(
        "--top", type=_common.whole_number, default=25, metavar="N", help="rows of text to show (default: 25)"
    )
    rows.add_argument("--all", action="store_true", help="show all rows of text")


def add_profile(parser: argparse.ArgumentParser) -> None:
    """PROFILE and INPUT…"""
    parser.add_argument(
        "profile",
        metavar="CSV",
        help="what ncu --csv wrote, the program's own output in between or not: raw page (best: --set full), details"
        " page, --metrics; a folder or glob pattern of these, or - for standard input",
    )
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="the build whose kernels were launched: logs, dumps, binaries, snapshots; without any, the profile alone"
        " tells",
    )


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where the profile or the build cannot be read."""
    from spillscan.profile.judged import issues, worst_first
    from spillscan.reports import Style

    complaints, judged, build = read(arguments)
    found = [*complaints, *issues(judged, build is not None)]
    chosen = worst_first(select(judged, arguments.arch, arguments.kernel))
    if arguments.format == "json":
        import json

        from spillscan.output.json import harmless
        from spillscan.profile.judged import document

        _common.say(harmless(json.dumps(document(chosen, found), indent=1)))
    elif arguments.format == "csv":
        from spillscan.output.csv import row as line
        from spillscan.profile.judged import row

        rows = [row(each) for each in chosen]
        text = "".join(line(values) for values in (tuple(rows[0]), *(tuple(each.values()) for each in rows)))
        _common.say(text.removesuffix("\r\n"))
    else:
        import os
        import shutil
        import sys

        from spillscan.reports._profile import text as lines

        wide = shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns
        fits = sys.stdout.isatty() or "COLUMNS" in os.environ
        style = Style(width=max(60, wide) if fits else _PLAIN_WIDTH, rows=_common.rows_of(arguments))
        _common.say("\n".join(lines(chosen, style)))
    _common.tell_issues(found)
    return 0


_PLAIN_WIDTH = 130
"""Columns of text that no terminal shows."""


def read(arguments: argparse.Namespace) -> tuple[list[Issue], tuple[JudgedLaunch, ...], Build | None]:
    """(what the profiler complained of, the launches, the build) of a command with :func:`add_profile`."""
    from spillscan.errors import UsageError
    from spillscan.inputs.source import expand
    from spillscan.output.progress import scan
    from spillscan.profile.judged import judge
    from spillscan.profile.reading import read_all

    if arguments.profile == "-" and "-" in arguments.inputs:
        raise UsageError("standard input is both profile and build", "give one of them as a file")
    profile = read_all(expand([arguments.profile]))
    build = scan(arguments.inputs) if arguments.inputs else None
    return list(profile.issues), judge(profile, build), build


def select(judged: Sequence[JudgedLaunch], arches: Sequence[str], globs: Sequence[str]) -> list[JudgedLaunch]:
    """The launches that the user asked for; :class:`InputError` where that leaves none."""
    from spillscan.errors import InputError
    from spillscan.patterns import compiled, names_of, text_of

    def chosen(each: JudgedLaunch) -> bool:
        kernel = each.match.kernel
        names = names_of(each.launch.kernel if kernel is None else kernel.key.symbol)
        return (not arches or each.launch.arch in arches) and (
            not globs or any(compiled(pattern).fits(text_of(names), names) for pattern in globs)
        )

    kept = [each for each in judged if chosen(each)]
    if not kept:
        raise InputError("no launch matches --arch and --kernel", "the profile has others")
    return kept
