"""Options shared by commands, each declared once, and helpers that declare the common kinds of options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from spillscan.model.metrics import Metric
from spillscan.output.errors import UsageError, nearest

_REPORTS, _OF_FINDINGS = "text (default), json, csv, markdown, html", ", sarif, github, gitlab, junit, rdjsonl"
DATASET_VARIABLE, DATASET = "SPILLSCAN_DATASET", "spillscan-data"
_STANDARD_INPUT = "- for standard input (default: standard input if it is a pipe or file, else spillscan-build.json)"
GROUPINGS: Final = ("family", "kernel", "file", "namespace", "arch")
"""Groupings of kernels in tables."""

Parser = argparse._ActionsContainer
"""A parser or a group of arguments."""


# ---- types --------------------------------------------------------------------------------------------------------


def whole_number(text: str) -> int:
    """Argument type: whole number of 0 or more."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a whole number ≥ 0, got {text!r}")
    return value


def positive_number(text: str) -> int:
    """Argument type: whole number of 1 or more."""
    number = whole_number(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number ≥ 1, got {text!r}")
    return number


def flag(parser: Parser, name: str, about: str) -> None:
    """Add an option without a value."""
    parser.add_argument(name, action="store_true", help=about)


def words(parser: Parser, name: str, metavar: str, about: str, **more: Any) -> None:
    """Add a repeatable option; its values form a list."""
    parser.add_argument(name, action="append", default=[], metavar=metavar, help=f"{about}; repeatable", **more)


def number(
    parser: Parser, name: str, about: str, metavar: str = "N", least: int = 0, default: int | None = None
) -> None:
    """Add an option with a whole number of ``least`` (0 or 1) or more."""
    kind = positive_number if least else whole_number
    parser.add_argument(name, type=kind, metavar=metavar, default=default, help=about)


# ---- inputs -------------------------------------------------------------------------------------------------------


def add_inputs(parser: Parser, last: str = f"glob, or {_STANDARD_INPUT}") -> None:
    """Add INPUT…; ``last``: end of the list of inputs, and the default."""
    about = (
        "build log, object, library, wheel, SASS disassembly, snapshot (written by scan -f json), run "
        f"file (written by spillscan run), build in a dataset (data/@LABEL), folder, {last}"
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help=about, type=_input)


def _input(text: str) -> str:
    """A name after ``--``, written so that a printed command does not parse it as an option."""
    return f"./{text}" if text.startswith("-") and text != "-" else text


def add_dataset(parser: Parser) -> None:
    """Add --dataset."""
    about = f"folder or URL (s3://bucket/path) of the dataset (default: ${DATASET_VARIABLE}, else {DATASET})"
    parser.add_argument("--dataset", metavar="PLACE", help=about)


def add_strict(parser: Parser) -> None:
    """Add --strict."""
    about = "treat any warning or error about the input as incomplete input"
    parser.add_argument("--strict", action="store_true", default=None, help=about)


def _several(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """Argument type: comma-separated words, each one of ``known``."""

    def read(text: str) -> tuple[str, ...]:
        if wrong := [word for word in text.split(",") if word not in known]:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(known)}, got {wrong[0]!r}")
        return tuple(text.split(","))

    return read


def add_set(parser: Parser, about: str) -> None:
    """Add --set; ``about`` describes its keys."""
    about += "; repeatable"
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE", help=about)


_KEYS = "`spillscan config` lists all keys"


def keyed(texts: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Parse the values of --set, by key."""
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in known:
            raise UsageError(f"--set {text[:60]}: unknown key {name[:60]!r}", nearest(name, known) or _KEYS)
        if not equals:
            raise UsageError(f"--set {name} has no value", f"write --set {name}=VALUE")
        values[name] = value
    return values


def add_with(parser: Parser, also: Mapping[str, str]) -> None:
    """Add --with, whose values are the keys of ``also``; its values describe them."""
    about = "; ".join(f"{word}: {what}" for word, what in also.items())
    parser.add_argument(
        "--with", dest="also", action="extend", default=[], type=_several(also), metavar="WHAT,…", help=about
    )


# ---- selection ----------------------------------------------------------------------------------------------------


def add_arch(parser: Parser) -> None:
    """Add --arch."""
    words(parser, "--arch", "ARCH", "only this arch, such as sm_90a")


def add_selection(parser: Parser) -> None:
    """Add --arch and --kernel."""
    words(parser, "--arch", "ARCH", "only this arch, such as sm_90a, and functions of unknown arch")
    about = "only kernels whose symbol, full name or short name matches GLOB; a name copied from a table also works"
    words(parser, "--kernel", "GLOB", about)


def add_called(parser: Parser, inputs: str, about: str) -> None:
    """Add KERNEL and ``inputs``, described by ``about``; also --kernel, as in commands that select several kernels."""
    first = "a printed name, a glob such as '*gemm*', or part of the symbol; omit KERNEL if you use --kernel"
    parser.add_argument("words", metavar=f"KERNEL {inputs}", nargs="+", help=f"KERNEL: {first}. {inputs}: {about}")
    parser.add_argument("--kernel", metavar="GLOB", help="select kernels by a glob instead of KERNEL")


def add_one_arch(parser: Parser) -> None:
    """Add --arch, for a single arch."""
    parser.add_argument("--arch", help="only this arch, such as sm_90a")


def add_launches(parser: Parser) -> None:
    """Add --launch."""
    about = "block size and dynamic shared memory of the kernels that match GLOB; repeatable, the last match wins"
    parser.add_argument("--launch", metavar="GLOB=THREADS[,BYTES]", help=about, action="append", default=[])


def add_devices(parser: Parser, what: str) -> None:
    """Add --device; ``what`` is done on it."""
    about = f"{what} on this device, such as H200 or sm_86; repeatable"
    about += " (default: `devices` in the policy, else each kernel's own arch)"
    parser.add_argument("--device", metavar="NAME", help=about, action="append", default=[])


# ---- output -------------------------------------------------------------------------------------------------------


def add_formats(parser: argparse.ArgumentParser, *formats: str) -> None:
    """Add -f, repeatable; ``formats``: allowed values, the first is the default."""
    formats = formats or ("text", "json", "csv")
    _add_formats(parser, formats, f"{formats[0]} (default), {', '.join(formats[1:])}")


def _add_formats(parser: argparse.ArgumentParser, formats: Sequence[str], named: str) -> None:
    parser.set_defaults(formats=formats)
    about = f"{named}; with :FILE, write to FILE (:+FILE appends); repeatable"
    parser.add_argument("-f", "--format", metavar="FORMAT[:FILE]", help=about, action="append", default=[])


def add_output(parser: argparse.ArgumentParser, *, findings: bool = False) -> None:
    """Add -f, --top, --all and --source-root, for commands that write reports, with or without ``findings``."""
    _add_formats(parser, (), _REPORTS + _OF_FINDINGS * findings)
    about = "include source files under DIR in the HTML page (-f html)"
    parser.add_argument("--source-root", metavar="DIR", help=about)
    add_rows(parser, 25, "rows to show", "rows")


_WITH_NEXT_STEPS = frozenset({"text", "html", "markdown", "sarif", "github"})
"""Formats that show cause, fix and next command."""


def shows_next_steps(arguments: argparse.Namespace) -> bool:
    """Whether a requested format shows cause, fix and next command; finding them takes as long as reading a large
    log."""
    asked = {text.partition(":")[0] for text in arguments.format or ("text",)}
    return not asked.isdisjoint(_WITH_NEXT_STEPS)


def add_rows(parser: argparse.ArgumentParser, default: int, counted: str, whole: str) -> None:
    """Add --top and --all; ``counted``: what --top counts, ``whole``: what --all shows all of."""
    rows = parser.add_mutually_exclusive_group()
    number(rows, "--top", f"{counted} (default: {default})", default=default)
    flag(rows, "--all", f"show all {whole}")


def rows_of(arguments: argparse.Namespace) -> int | None:
    """Maximum number of text rows; ``None``: all."""
    return None if arguments.all else int(arguments.top)


def add_sort(parser: Parser, known: Sequence[Metric], about: str) -> None:
    """Add --sort by one of the ``known`` metrics; ``about``: what is sorted, and the default order."""
    parser.add_argument("--sort", metavar="METRIC", help=about, choices=_names(known))


def add_metric(parser: Parser, known: Sequence[Metric], about: str) -> None:
    """Add --metric, repeatable, one of the ``known`` metrics."""
    about = f"{about}; see `spillscan explain metrics`; repeatable"
    parser.add_argument("--metric", metavar="NAME", help=about, action="append", default=[], choices=_names(known))


def _names(known: Sequence[Metric]) -> list[str]:
    return [metric.name for metric in known]


def add_levels(parser: Parser, levels: Sequence[str], default: Sequence[str], more: str = "") -> None:
    """Add --by and --base for sums in nested groups; ``more`` is appended to the help of the levels."""
    about = (
        f"levels to group by, outermost first (default: {','.join(default)}): {', '.join(levels)}{more and '; ' + more}"
    )
    parser.add_argument("--by", metavar="LEVEL,…", help=about, type=_several(levels), default=tuple(default))
    about = "older version of INPUT: show how much each group grew, largest change first"
    words(parser, "--base", "INPUT", about)
