"""Arguments and manners that commands share."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from spillscan.output.errors import InputError, UndecidedError, UsageError
from spillscan.output.safe import printable
from spillscan.output.terminal import complain

if TYPE_CHECKING:
    from spillscan.history.dataset.builds import KeptBuild
    from spillscan.history.dataset.reading import Dataset
    from spillscan.judging.verdict import Verdict
    from spillscan.model import Build, Hole, Issue, Kernel
    from spillscan.naming import Names
    from spillscan.output.files import Form
    from spillscan.output.terminal import Style

_REPORTS = "text (default), json, csv, markdown, html; of check and diff also sarif, github, gitlab, junit, rdjsonl"
ISSUES_SHOWN = 8
DATASET_VARIABLE, DATASET = "SPILLSCAN_DATASET", "spillscan-data"
_WIDEST_CELL = 72
"""Characters of a cell for people."""


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """INPUT…, with standard input as the default where it is a pipe."""
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="log, SASS dump, binary (library, object, cubin, wheel), folder of these, glob pattern, snapshot "
        "(scan -f json), build of a dataset (data/@LABEL), or - for standard input; .gz and .zst too",
    )


def add_arch(parser: argparse.ArgumentParser) -> None:
    """--arch."""
    parser.add_argument(
        "--arch", action="append", default=[], metavar="ARCH", help="only this arch (sm_90a); repeatable"
    )


GROUPINGS: Final = ("family", "kernel", "file", "namespace", "arch")
"""What kernels are grouped by for people."""


def add_selection(parser: argparse.ArgumentParser) -> None:
    """--arch and --kernel."""
    add_arch(parser)
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


def add_sort(parser: argparse.ArgumentParser, text: str) -> None:
    """--sort; ``text``: what is sorted, and how it stands without."""
    parser.add_argument("--sort", choices=figures("METRICS"), metavar="FIGURE", help=text)


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
    """-f, --top and --all of a command that writes reports."""
    add_formats(parser, (), _REPORTS)
    parser.add_argument(
        "--source-root", metavar="DIR", help="read source files below DIR for the page (-f html), beside their figures"
    )
    add_rows(parser, 25, "rows of text to show", "rows of text")


def add_formats(
    parser: argparse.ArgumentParser, formats: Sequence[str] = ("text", "json", "csv"), named: str = ""
) -> None:
    """-f, any number of times; ``formats``: what it may be, the first is the default; none: those of reports."""
    named = named or f"{formats[0]} (default), {', '.join(formats[1:])}"
    parser.set_defaults(formats=formats)
    parser.add_argument(
        "-f",
        "--format",
        action="append",
        default=[],
        metavar="FORMAT[:FILE]",
        help=f"{named}; to FILE (+FILE: append), or to standard output; repeatable",
    )
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours in text: where a terminal shows it (default), always, never",
    )


def add_rows(parser: argparse.ArgumentParser, default: int, counted: str, whole: str) -> None:
    """--top and --all; ``counted``: what --top counts, ``whole``: what --all shows all of."""
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--top", type=whole_number, default=default, metavar="N", help=f"{counted} (default: {default})")
    rows.add_argument("--all", action="store_true", help=f"show all {whole}")


def add_levels(parser: argparse.ArgumentParser, levels: Sequence[str], default: Sequence[str]) -> None:
    """--by and --base of what is added up in groups of groups."""

    def known(text: str) -> tuple[str, ...]:
        if wrong := [level for level in text.split(",") if level not in levels]:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(levels)}")
        return tuple(text.split(","))

    parser.add_argument(
        "--by",
        type=known,
        default=tuple(default),
        metavar="LEVEL,…",
        help=f"groups, and groups in these (default: {','.join(default)}): {', '.join(levels)}",
    )
    parser.add_argument(
        "--base",
        action="append",
        default=[],
        metavar="INPUT",
        help="an older input: show by how much each group grew, what changed most first; repeatable",
    )


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


def refuse_swapped(kernel: str, inputs: Sequence[str], call: str) -> None:
    """Refuse a ``call`` with an input where the kernel belongs and a kernel where an input does."""
    from spillscan.reading.inputs.source import expand

    if os.path.exists(kernel) and not os.path.exists(inputs[-1]):
        try:
            expand(inputs)
        except InputError as error:
            raise UsageError(f"{error.what}, and {kernel} is a file", f"the kernel comes first: {call}") from None


def scan(
    paths: Sequence[str] | str,
    *,
    operands: bool = False,
    live: bool = False,
    unpacking: Mapping[str, int] | None = None,
) -> Build:
    """:func:`spillscan.scan`, with its progress where a person watches."""
    from spillscan.commands import _library
    from spillscan.output.progress import Progress, Reading

    with Progress("reading") as progress:
        watch = Reading(progress) if progress.watched else None
        _read.append(_library.scan(paths, watch, operands=operands, live=live, unpacking=unpacking))
    return _read[-1]


_read: deque[Build] = deque(maxlen=2)
"""What was read last stays there until the process ends: freeing the records one by one takes time, too."""


def narrow(build: Build, arches: Sequence[str], globs: Sequence[str]) -> Build:
    """The kernels that the user asked for."""
    from msgspec.structs import replace

    from spillscan.model.patterns import matches

    if not arches and not globs:
        return build
    kernels = tuple(
        kernel
        for kernel in build.kernels
        if (not arches or kernel.key.arch in arches)
        and (not globs or any(matches(kernel, pattern) for pattern in globs))
    )
    return replace(build, kernels=kernels)


def by_shown_names(builds: Sequence[Build], arguments: argparse.Namespace) -> None:
    """Patterns of --kernel that name no kernel by its own names, but by one that a table showed: the kernels' symbols
    in their places."""
    from spillscan.model.patterns import matches

    wanted = _listed(arguments, "kernel")
    kernels = [kernel for build in builds for kernel in build.kernels] if wanted else []
    if any(not any(matches(kernel, pattern) for kernel in kernels) for pattern in wanted):
        from spillscan.commands import _policy
        from spillscan.model.build import labels_of
        from spillscan.naming import Names

        labels = _policy.policy_of(arguments).labels if hasattr(arguments, "config") else {}
        names = Names(
            *([kernel.named_by for kernel in build.kernels] for build in builds), labels=labels_of(builds, labels)
        )
        arguments.kernel = [
            found
            for pattern in wanted
            for found in ([pattern] if any(matches(k, pattern) for k in kernels) else shown(names, pattern))
        ]


def shown(names: Names, pattern: str) -> list[str]:
    """Patterns of the kernels that a table called ``pattern``; the pattern itself where none is."""
    from spillscan.model.patterns import names_of

    called = names.called(pattern.removesuffix(" (function)").removesuffix(" (?)"))
    return [f"re:{re.escape(names_of(key)[0])}" for key in called] or [pattern]


def select(build: Build, arguments: argparse.Namespace) -> Build:
    """:func:`narrow`, and refuse a selection that leaves nothing of something, or a part of it that names nothing."""
    by_shown_names([build], arguments)
    refuse_unmatched(build.kernels, arguments)
    kept = narrow(build, arguments.arch, getattr(arguments, "kernel", ()))
    refuse_empty(build.kernels, kept.kernels)
    return kept


def refuse_unmatched(kernels: Sequence[Kernel], arguments: argparse.Namespace) -> None:
    """Each --arch, --kernel and --launch must name a kernel: one with a typo in it would leave out, silently, what it
    was to choose."""
    patterns = [("--kernel", text) for text in _listed(arguments, "kernel")]
    patterns += [("--launch", text.rpartition("=")[0]) for text in _listed(arguments, "launch")]
    archs = getattr(arguments, "arch", None) or ()
    if not kernels or not (patterns or archs):
        return
    from difflib import get_close_matches

    from spillscan.model.patterns import matches

    for arch in archs:
        if not any(kernel.key.arch == arch for kernel in kernels):
            there = {kernel.key.arch for kernel in kernels if kernel.key.arch}
            near = get_close_matches(arch, there, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"no kernel matches --arch {arch}", f"{hint}the input has {arches_of(kernels)}")
    for option, pattern in patterns:
        if not any(matches(kernel, pattern) for kernel in kernels):
            known = {kernel.short_name for kernel in kernels}
            near = get_close_matches(pattern, known, n=1) or get_close_matches(pattern.partition("<")[0], known, n=1)
            hint = f"did you mean {printable(near[0], 60)}? " if near else ""
            raise InputError(
                f"no kernel matches {option} {pattern!r}", f"{hint}`spillscan scan --all` lists the kernels"
            )


def _listed(arguments: argparse.Namespace, option: str) -> list[str]:
    """What a repeatable option was given; an argument of that name that is none names what the command is about."""
    given = getattr(arguments, option, None)
    return given if isinstance(given, list) else []


def arches_of(kernels: Sequence[Kernel]) -> str:
    """``sm_80, sm_90``."""
    return ", ".join(sorted({kernel.key.arch for kernel in kernels if kernel.key.arch})) or "no arch"


def refuse_empty(kernels: Sequence[Kernel], kept: Sequence[Kernel]) -> None:
    """A selection that selects nothing is a mistake, not a clean build."""
    if kernels and not kept:
        raise InputError("no kernel matches both --arch and --kernel", f"the input has {arches_of(kernels)}")


def refuse_devices(kernels: Sequence[Kernel], names: Sequence[str]) -> None:
    """A device that no kernel runs on would say nothing, silently."""
    from spillscan.occupancy.devices import runs_on

    arches = sorted({kernel.key.arch for kernel in kernels if kernel.key.arch}) if names else []
    for name in names:
        if not any([runs_on(arch, name) for arch in arches]):  # noqa: C419 - an unknown name is refused in any case
            raise InputError(f"no kernel runs on {name}", f"the input has {arches_of(kernels)}")


def report_issues(issues: Sequence[Issue]) -> None:
    """The most severe issues, a line each, on standard error; where there are too many, of each kind as many."""
    order = {"error": 0, "warning": 1, "note": 2}
    ranked = sorted(issues, key=lambda issue: order[issue.severity])
    if len(ranked) > ISSUES_SHOWN:
        before = Counter[str]()
        turns = []
        for issue in ranked:
            turns.append((order[issue.severity], before[issue.code]))
            before[issue.code] += 1
        ranked = [issue for _, issue in sorted(zip(turns, ranked, strict=True), key=lambda pair: pair[0])]
    for issue in ranked[:ISSUES_SHOWN]:
        place = f"{issue.origin}: " if issue.origin else ""
        complain(f"{place}{issue.severity}: {issue.message} [{issue.code}]")
    if len(ranked) > ISSUES_SHOWN:
        complain(f"… {len(ranked) - ISSUES_SHOWN} more issues (-f json lists all)")


def conclude(found: Verdict, issues: Sequence[Issue] = ()) -> int:
    """The exit status of a gate, after the ``issues`` of its input; the first hole that keeps it from passing is the
    error."""
    first = found.holes[0] if found.status == 2 else None
    report_issues([issue for issue in issues if first is None or not _same(issue, first)])
    if first is None:
        return found.status
    from spillscan.judging.rule_docs import explanations

    alike = [
        each.kernel for each in found.holes if each.kernel and (each.code, each.message) == (first.code, first.message)
    ]
    others = len(found.holes) - max(1, len(alike))
    name = f"cannot judge {_families(alike)}: " if first.kernel else f"{first.origin}: " if first.origin else ""
    more = f" ({others:,} more)" if others else ""
    known = explanations("holes").get(first.code)  # a snapshot of a newer release may have other kinds
    remedy = known.remedy.rstrip(".") if known else "a newer release of spillscan found it and says what to do"
    raise UndecidedError(f"{name}{first.message}{more} [{first.code}]", remedy)


def _families(kernels: Sequence[Kernel]) -> str:
    from spillscan.naming import Names
    from spillscan.reports.words import families_of

    if len(kernels) == 1:
        return kernels[0].short_name
    return f"{len(kernels):,} kernels ({families_of(kernels, Names(kernel.named_by for kernel in kernels))})"


def _same(issue: Issue, hole: Hole) -> bool:
    return (issue.code, issue.message, issue.origin) == (hole.code, hole.message, hole.origin)


def refuse_issues(issues: Sequence[Issue]) -> None:
    """``--strict``: what was not understood is an error."""
    severe = [issue for issue in issues if issue.severity != "note"]
    if severe:
        raise UndecidedError(f"{len(severe)} issues in the input (--strict): {severe[0].message}")


def rows_of(arguments: argparse.Namespace) -> int | None:
    """How many rows of text are wanted."""
    return None if getattr(arguments, "all", True) else arguments.top


# ---- answers ------------------------------------------------------------------------------------------------------


def forms_of(arguments: argparse.Namespace) -> list[Form]:
    """What -f asks for: refused, where it is wrong, before any work is done."""
    from spillscan.output.files import parse_forms

    forms = parse_forms(arguments.format, arguments.formats)
    for form in forms:
        if form.name == "parquet" and (form.target is None or form.target.append):
            raise UsageError("Parquet is no text", "give it a file of its own: -f parquet:FILE")
    return forms


def answer(
    forms: Sequence[Form],
    *,
    text: Callable[[Style], Iterable[str]],
    json: Callable[[], Any],
    csv: Callable[[], Iterable[Sequence[Any]]] = tuple,
    html: Callable[[], Iterable[str]] = tuple,
    markdown: Callable[[], Iterable[str]] = tuple,
    rows: int | None = None,
) -> None:
    """Write an answer in each of the ``forms``: lines of text or Markdown, a value for JSON, rows of CSV and Parquet,
    heads first, the pieces of a page."""
    from spillscan.output import files, terminal

    def pieces(form: Form) -> Iterable[str | bytes]:
        if form.name == "text":
            return (f"{line}\n" for line in text(terminal.style_of(rows, form.target is None)))
        if form.name == "markdown":
            return (f"{line}\n" for line in markdown())
        from spillscan.output import records

        if form.name == "json":
            return records.document(json())
        if form.name == "parquet":
            return [records.parquet(csv())]
        return map(records.row, csv()) if form.name == "csv" else html()

    files.put(forms, pieces)


def page_of(
    title: str, groups: Sequence[Mapping[str, Any]], measures: Sequence[tuple[str, str, int, bool]]
) -> Iterable[str]:
    """What is added up in groups of groups, as a page: for ``answer``."""
    from spillscan.reports.page.series import weight_document

    return weight_document(title, groups, measures)


def show(
    forms: Sequence[Form],
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    left: Collection[str] = (),
    most: int | None = None,
    more: Sequence[str] = (),
    empty: str = "",
    machine: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None,
    fit: Callable[[int], Sequence[str]] | None = None,
) -> None:
    """Write rows: as a table for people, who see the first ``most`` and the lines ``more`` below; as CSV, or as JSON.

    ``left`` columns are aligned to the left; ``empty`` stands for a table without rows; ``machine``: what CSV and JSON
    have instead, columns and rows. ``fit`` gives the first column's cells, names, in the room that the others leave;
    then columns that are equal in all rows are said once, above.
    """
    from spillscan.output import records
    from spillscan.output.safe import clip
    from spillscan.output.terminal import table

    def cell(value: Any) -> str:
        if isinstance(value, str):
            return clip(value, _WIDEST_CELL)
        plain = records.plain(value)
        number = f"{plain:,}" if isinstance(plain, int) and not isinstance(plain, bool) else records.compact(plain)
        return "-" if plain is None else clip(plain if isinstance(plain, str) else number, _WIDEST_CELL)

    def text(style: Style) -> Iterator[str]:
        if empty and not rows:
            yield empty
            return
        shown = [([cell(value) for value in row], "") for row in rows[:most]]
        yield from table(columns, shown, style, left, fit=fit, caption=fit is not None)
        yield from more

    heads, values = machine or (columns, rows)
    names = [f"{name}_{heads[:at].count(name) + 1}" if name in heads[:at] else name for at, name in enumerate(heads)]
    answer(
        forms,
        text=text,
        json=lambda: [dict(zip(names, row, strict=True)) for row in values],
        csv=lambda: (heads, *values),
    )


# ---- datasets -----------------------------------------------------------------------------------------------------


def add_dataset(parser: argparse.ArgumentParser, *, order: bool = True) -> None:
    """-d and, where builds are ordered, --order."""
    parser.add_argument(
        "-d",
        "--dataset",
        metavar="PLACE",
        help=f"folder or URL (s3://bucket/path) of the dataset (default: ${DATASET_VARIABLE}, else {DATASET})",
    )
    if order:
        parser.add_argument(
            "--order",
            metavar="KEY",
            help="order builds by this word of their meta (default: by its time, else by when they were appended)",
        )


def dataset_of(arguments: argparse.Namespace) -> Dataset:
    """The dataset that was asked for."""
    from spillscan.history.dataset import open_dataset

    dataset = open_dataset(place_of(arguments))
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # the others keep a third more than they use
    return dataset


def place_of(arguments: argparse.Namespace) -> str:
    """Where the dataset lies that was asked for."""
    place: str = arguments.dataset or os.environ.get(DATASET_VARIABLE) or DATASET
    return place


def answered(dataset: Dataset) -> int:
    """0; raises :class:`~spillscan.output.errors.UndecidedError` where damaged builds are not in the answer."""
    from spillscan.history.dataset.reading import ADVICE

    if not dataset.damage:
        return 0
    more = len(dataset.damage) - 1
    said = f"left out: {dataset.damage[0].text(dataset.root)}{f', and {more:,} more files' if more else ''}"
    raise UndecidedError(said, ADVICE)


def builds_of(dataset: Dataset, arguments: argparse.Namespace) -> tuple[KeptBuild, ...]:
    """Its builds in the order asked for."""
    from spillscan.history.dataset.builds import ordered

    return ordered(dataset.builds, arguments.order)
