"""Print the time of the launches in an Nsight Compute profile, and their share of spill instructions.

With INPUT, also report launches that match no kernel of the build, or whose register count differs from the kernel's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spillscan.advice.profile import policy, table
from spillscan.advice.profile.launches import read_profiles
from spillscan.advice.profile.matching import Matched, contradictions, matched
from spillscan.commands import _answers, _inputs, _issues, _options
from spillscan.model.patterns import compiled, names_of, text_of
from spillscan.output.errors import InputError, UsageError
from spillscan.output.terminal import say
from spillscan.reading.inputs.paths import expand

EPILOG = "Example: ncu --set full --csv --page raw ./app > app.csv; spillscan profile app.csv build.log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "profile",
        metavar="CSV",
        help="CSV written by `ncu --set full --csv` (raw or details page): file, folder, glob, or - for standard input",
    )
    parser.add_argument("inputs", nargs="*", default=[], metavar="INPUT", help="the profiled build")
    _options.flag(parser, "--launches", "print the block sizes as a policy file instead (requires INPUT)")
    _options.add_selection(parser)
    _options.add_formats(parser)
    _options.add_rows(parser, 25, "rows to show", "rows")


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 if the profile or the build cannot be read."""
    forms = _answers.forms_of(arguments)
    if arguments.profile == "-" and "-" in arguments.inputs:
        raise UsageError("standard input cannot be both profile and build", "pass one of them as a file")
    launches, issues = read_profiles(expand([arguments.profile]))
    build = _inputs.scan(arguments.inputs) if arguments.inputs else None
    chosen = _select(matched(launches, build), arguments.arch, arguments.kernel)
    issues += contradictions(chosen) if build else ()
    if arguments.launches:
        say(policy.lines(chosen))
    else:
        chosen = table.worst_first(chosen)
        rows = [table.row(each) for each in chosen]
        _answers.answer(
            forms,
            text=lambda style: table.text(chosen, style),
            json=lambda: {"launches": rows},
            csv=lambda: (tuple(rows[0]), *(tuple(each.values()) for each in rows)),
            rows=_options.rows_of(arguments),
        )
    _issues.report_issues(issues)
    return 0


def _select(launches: Sequence[Matched], arches: Sequence[str], globs: Sequence[str]) -> list[Matched]:
    """Launches that the options select; InputError if an option selects none."""
    kept = list(launches)
    for option, wanted in (("--arch", arches), ("--kernel", globs)):
        selected = {one: [each for each in launches if _selected(each, option, one)] for one in wanted}
        if missing := next((one for one in wanted if not selected[one]), None):
            raise InputError(f"no launch matches {option} {missing!r}", "leave the option out to list all launches")
        if wanted:
            kept = [each for each in kept if any(each in those for those in selected.values())]
    if not kept:
        raise InputError("no launch matches both --arch and --kernel", "leave out one of them")
    return kept


def _selected(each: Matched, option: str, wanted: str) -> bool:
    if option == "--arch":
        return each.launch.arch == wanted
    names = names_of(each.launch.kernel if each.kernel is None else each.kernel.named_by)
    return wanted == each.name or bool(compiled(wanted).fits(text_of(names), names))
