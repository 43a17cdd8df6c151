"""What a dataset holds, and its upkeep.

info lists the builds. compact makes few large files of many small ones, brings older ones to the present schema, and
deletes what killed appends left behind; not while one of the builds is being appended to.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from operator import attrgetter

from spillscan.commands import _answers, _datasets, _options
from spillscan.history.dataset.reading import Dataset, Held
from spillscan.history.dataset.writing import compact
from spillscan.output.errors import InputError
from spillscan.output.files import Form
from spillscan.reports.table import Column, Table, of_rows

EPILOG = "Example: spillscan dataset compact -d s3://bucket/kernels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("info", "compact"), help="what to do")
    parser.add_argument("--label", action="append", metavar="LABEL", help="only this build; repeatable")
    _options.number(
        parser,
        "--older-than",
        "compact: files of killed appends are deleted once they are so old (default: 24)",
        metavar="HOURS",
        default=24,
    )
    _options.add_dataset(parser)
    _options.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where there is no dataset."""
    forms = _answers.forms_of(arguments)
    dataset = _datasets.dataset_of(arguments)
    for label in arguments.label or ():
        if label not in dataset.labels:
            raise InputError(f"there is no build {label!r}", f"the last one is {dataset.labels[-1]}")
    return _compact(dataset, arguments, forms) if arguments.action == "compact" else _info(dataset, arguments, forms)


def _compact(dataset: Dataset, arguments: argparse.Namespace, forms: Sequence[Form]) -> int:
    outcome = compact(dataset, arguments.label, arguments.older_than)
    heads = ("builds", "files before", "files after", "swept")
    row = (outcome.labels, outcome.files_before, outcome.files_after, outcome.swept)
    _answers.show(forms, of_rows(heads, [row]))
    return 0


def _info(dataset: Dataset, arguments: argparse.Namespace, forms: Sequence[Form]) -> int:
    builds = _datasets.builds_of(dataset, arguments)
    chosen = [build for build in builds if not arguments.label or build.label in arguments.label]
    _answers.show(forms, Table(columns=_COLUMNS, rows=list(dataset.summary(chosen))))
    return 0


def _pairs(held: Held) -> str:
    return " ".join(f"{key}={value}" for key, value in held.build.meta.items() if key != "time")


_COLUMNS: list[Column[Held]] = [
    Column("label", "label", lambda held: held.build.label, left=True),
    Column("time", "time", lambda held: held.build.time, True, text=lambda held: f"{held.build.time:%Y-%m-%d %H:%M}"),
    *(
        Column(name, name, attrgetter(name))
        for name in ("files", "kernels", "spilling", "failed", "holes", "parts", "part_bytes")
    ),
    Column("meta", "meta", lambda held: held.build.meta, left=True, text=_pairs),
]
