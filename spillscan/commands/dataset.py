"""What a dataset holds, and its upkeep.

info lists the builds. verify reads every byte and lists what is lost or damaged; repair restores all that is not, and
moves what is damaged aside. compact makes few large files of many small ones, brings older ones to the present schema,
and deletes what killed appends left behind. Neither repair nor compact while one of the builds is being appended to.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from operator import attrgetter

from spillscan.commands import _answers, _datasets, _options
from spillscan.history.dataset.compaction import compact
from spillscan.history.dataset.reading import Dataset, Held
from spillscan.history.dataset.repair import repair, verify
from spillscan.output.errors import InputError, UndecidedError
from spillscan.output.files import Form
from spillscan.output.nouns import count
from spillscan.reports.table import Column, Table, of_rows

EPILOG = "Example: spillscan history dataset compact s3://bucket/kernels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("info", "verify", "repair", "compact"), help="what to do")
    parser.add_argument("--label", action="append", metavar="LABEL", help="only this build; repeatable")
    _options.number(
        parser,
        "--older-than",
        "compact: files of killed appends are deleted once they are so old (default: 24)",
        metavar="HOURS",
        default=24,
    )
    _options.add_dataset(parser, place=True)
    _options.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where there is no dataset, or something in it is damaged."""
    forms = _answers.forms_of(arguments)
    if arguments.action in ("verify", "repair"):
        return _check(arguments, forms)
    dataset = _datasets.dataset_of(arguments)
    for label in arguments.label or ():
        if label not in dataset.labels:
            raise InputError(f"there is no build {label!r}", f"the last one is {dataset.labels[-1]}")
    (_compact if arguments.action == "compact" else _info)(dataset, arguments, forms)
    return _datasets.answered(dataset)


def _check(arguments: argparse.Namespace, forms: Sequence[Form]) -> int:
    root = _datasets.place_of(arguments)
    verifying = arguments.action == "verify"
    found = [(each, "") for each in verify(root)] if verifying else repair(root)
    heads = ("build", "file", "damage", *([] if verifying else ["done"]))
    rows = [[", ".join(each.labels), each.path, each.why, *([] if verifying else [done])] for each, done in found]
    _answers.show(forms, of_rows(heads, rows, heads, empty="all is sound"))
    if found:
        advice = (
            f"`spillscan history dataset repair {shlex.quote(root)}` restores the rest"
            if verifying
            else "audit its inputs again"
        )
        raise UndecidedError(f"lost or damaged: {count(len(found), 'file')} of {root}", advice)
    return 0


def _compact(dataset: Dataset, arguments: argparse.Namespace, forms: Sequence[Form]) -> None:
    outcome = compact(dataset, arguments.label, arguments.older_than)
    heads = ("builds", "files before", "files after", "swept")
    row = (outcome.labels, outcome.files_before, outcome.files_after, outcome.swept)
    _answers.show(forms, of_rows(heads, [row]))


def _info(dataset: Dataset, arguments: argparse.Namespace, forms: Sequence[Form]) -> None:
    builds = _datasets.builds_of(dataset, arguments)
    chosen = [build for build in builds if not arguments.label or build.label in arguments.label]
    _answers.show(forms, Table(columns=_COLUMNS, rows=list(dataset.summary(chosen))))


def _pairs(held: Held) -> str:
    return " ".join(f"{key}={value}" for key, value in held.build.meta.items() if key != "time")


_COLUMNS: list[Column[Held]] = [
    Column("label", "label", lambda held: held.build.label, left=True),
    Column("time", "time", lambda held: held.build.time, True, text=lambda held: f"{held.build.time:%Y-%m-%d %H:%M}"),
    *(
        Column(name, name, attrgetter(name))
        for name in ("files", "kernels", "spilling", "failed", "gaps", "parts", "part_bytes")
    ),
    Column("meta", "meta", lambda held: held.build.meta, left=True, text=_pairs),
]
