"""Arguments and manners that commands share."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, cast

from spillscan.errors import InputError, UndecidedError, UsageError
from spillscan.output.safe import printable

if TYPE_CHECKING:
    from spillscan.model import Build, Issue, Kernel
    from spillscan.verdict import Verdict

FORMAT_HELP = (
    "text (default), json, csv, markdown, html; of check and diff also sarif, github, gitlab, junit, rdjsonl; "
    "to FILE (+FILE: append), or to standard output; repeatable"
)
ISSUES_SHOWN = 8
LONGEST_MESSAGE = 1000
"""Characters of an issue on standard error."""


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """INPUT…, with standard input as the default where it is a pipe."""
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="log, SASS dump, binary (library, object, cubin, wheel), folder of these, glob pattern, snapshot "
        "(scan -f json), build of a dataset (data/@LABEL), or - for standard input; .gz and .zst too",
    )


def add_selection(parser: argparse.ArgumentParser) -> None:
    """--arch and --kernel."""
    parser.add_argument(
        "--arch", action="append", default=[], metavar="ARCH", help="only this arch (sm_90a); repeatable"
    )
    parser.add_argument(
        "--kernel",
        action="append",
        default=[],
        metavar="GLOB",
        help="only kernels of which a name matches: symbol, full, short, or as tables show it; repeatable",
    )


class _FigureNames(Collection[str]):
    """A list of the table of figures, looked up when it is asked for: a start needs no table."""

    def __init__(self, which: str) -> None:
        self._which = which

    def _names(self) -> tuple[str, ...]:
        figures = getattr(import_module("spillscan.model.figures"), self._which)
        return tuple(figure.name for figure in figures)

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


def figures(which: str) -> Sequence[str]:
    """The names of ``which`` list of :mod:`spillscan.model.figures`, for ``choices``."""
    return cast(Sequence[str], _FigureNames(which))


def add_metric(parser: argparse.ArgumentParser, which: str, about: str) -> None:
    """--metric, as often as it is given."""
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        choices=figures(which),
        metavar="NAME",
        help=f"{about}; repeatable: %(choices)s",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """-f, --top and --all."""
    add_formats(parser, FORMAT_HELP)
    add_rows(parser, 25, "rows of text to show", "rows of text")


def add_formats(parser: argparse.ArgumentParser, told: str) -> None:
    """-f, as often as somebody gives it; ``told``: what it may be."""
    parser.add_argument("-f", "--format", action="append", default=[], metavar="FORMAT[:FILE]", help=told)


def add_rows(parser: argparse.ArgumentParser, default: int, told: str, what: str) -> None:
    """--top and --all; ``told``: what --top counts, ``what``: what --all shows."""
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--top", type=whole_number, default=default, metavar="N", help=f"{told} (default: {default})")
    rows.add_argument("--all", action="store_true", help=f"show all {what}")


def add_launches(parser: argparse.ArgumentParser) -> None:
    """--launch."""
    parser.add_argument(
        "--launch",
        action="append",
        default=[],
        metavar="GLOB=THREADS[,BYTES]",
        help="how kernels are launched: threads per block and dynamic shared memory; repeatable, the last match counts",
    )


def add_devices(parser: argparse.ArgumentParser, what: str) -> None:
    """--device; ``what`` is done on it."""
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME",
        help=f"{what} on this device (H200, sm_86); repeatable (default: each kernel's own target)",
    )


def add_strict(parser: argparse.ArgumentParser) -> None:
    """--strict."""
    parser.add_argument(
        "--strict",
        action=argparse.BooleanOptionalAction,
        help="exit 2 if anything in the input was not understood (default: no)",
    )


def whole_number(text: str) -> int:
    """An argument that must be 0 or more."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return value


def positive_number(text: str) -> int:
    """Of an argument: 1, 2, 3 …"""
    number = whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return number


def inputs_or_stdin(inputs: Sequence[str]) -> list[str]:
    """``inputs``; without any, standard input where something is piped into it."""
    if inputs:
        return list(inputs)
    if sys.stdin is not None and not sys.stdin.isatty():
        return ["-"]
    raise UsageError("no INPUT", "give a log file or a folder of logs, or pipe a log in")


def narrow(build: Build, arches: Sequence[str], globs: Sequence[str]) -> Build:
    """The kernels that the user asked for."""
    from spillscan.patterns import matches

    if not arches and not globs:
        return build
    kernels = tuple(
        kernel
        for kernel in build.kernels
        if (not arches or kernel.key.arch in arches)
        and (not globs or any(matches(kernel, pattern) for pattern in globs))
    )
    return replace(build, kernels=kernels)


def refuse_empty(kernels: Sequence[Kernel], kept: Sequence[Kernel]) -> None:
    """A selection that selects nothing is a mistake, not a clean build."""
    if kernels and not kept:
        known = ", ".join(sorted({kernel.key.arch for kernel in kernels if kernel.key.arch}))
        raise InputError("no kernel matches --arch and --kernel", f"the input has {known or 'no arch'}")


def refuse_devices(kernels: Sequence[Kernel], names: Sequence[str]) -> None:
    """A device that no kernel runs on would tell nothing, silently."""
    from spillscan.occupancy.devices import runs_on

    arches = sorted({kernel.key.arch for kernel in kernels if kernel.key.arch})
    for name in names:
        if not any([runs_on(arch, name) for arch in arches]):  # noqa: C419 - an unknown name is refused in any case
            raise InputError(f"no kernel runs on {name}", f"the input has {', '.join(arches) or 'no arch'}")


def select(build: Build, arches: Sequence[str], globs: Sequence[str]) -> Build:
    """:func:`narrow`, and refuse a selection that leaves nothing of something."""
    kept = narrow(build, arches, globs)
    refuse_empty(build.kernels, kept.kernels)
    return kept


def tell_issues(issues: Sequence[Issue]) -> None:
    """The gravest issues, a line each, on standard error."""
    order = {"error": 0, "warning": 1, "note": 2}
    ranked = sorted(issues, key=lambda issue: order[issue.severity])
    for issue in ranked[:ISSUES_SHOWN]:
        place = f"{issue.origin}: " if issue.origin else ""
        line = f"spillscan: {place}{issue.severity}: {issue.message} [{issue.code}]"
        print(printable(line, LONGEST_MESSAGE), file=sys.stderr)
    if len(ranked) > ISSUES_SHOWN:
        print(f"spillscan: … {len(ranked) - ISSUES_SHOWN} more issues (-f json lists all)", file=sys.stderr)


def conclude(found: Verdict) -> int:
    """The exit status of a gate; what it does not know is said in one line."""
    if found.status != 2:
        return found.status
    from spillscan.model.holes import KINDS

    first, others = found.holes[0], len(found.holes) - 1
    name = f"cannot judge {first.kernel.short_name}: " if first.kernel else f"{first.origin}: " if first.origin else ""
    more = f" ({others:,} more like it)" if others else ""
    raise UndecidedError(f"{name}{first.message}{more} [{first.code}]", KINDS[first.code].remedy.rstrip("."))


def refuse_issues(issues: Sequence[Issue]) -> None:
    """``--strict``: what was not understood is an error."""
    grave = [issue for issue in issues if issue.severity != "note"]
    if grave:
        raise UndecidedError(f"{len(grave)} issues in the input (--strict): {grave[0].message}")


def say(text: str) -> None:
    """Print ``text``, whatever the terminal's encoding cannot show."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    print(text)


def rows_of(arguments: argparse.Namespace) -> int | None:
    """How many rows of text were asked for."""
    return None if arguments.all else arguments.top
