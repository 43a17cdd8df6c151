"""What a dataset holds, and its upkeep.

info lists the builds. verify reads every byte and lists what is lost or damaged; repair restores all that is not, and
moves what is damaged aside. compact makes few large files of many small ones, brings older ones to the present schema,
and deletes what killed appends left behind. Neither repair nor compact while one of the builds is being appended to.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillscan.commands import _common
from spillscan.output.errors import InputError, UndecidedError

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset
    from spillscan.output.files import Form

NAME = "dataset"
HELP = "list the builds of a dataset, verify, repair or compact it"
ORDER = 75
EPILOG = "Example: spillscan dataset compact -d s3://bucket/kernels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("info", "verify", "repair", "compact"), help="what to do")
    parser.add_argument("--label", action="append", metavar="LABEL", help="only this build; repeatable")
    parser.add_argument(
        "--older-than",
        type=_common.whole_number,
        default=24,
        metavar="HOURS",
        help="compact: files of killed appends are deleted once they are so old (default: 24)",
    )
    _common.add_dataset(parser)
    _common.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where there is no dataset, or something in it is damaged."""
    forms = _common.forms_of(arguments)
    if arguments.action in ("verify", "repair"):
        return _check(arguments, forms)
    dataset = _common.dataset_of(arguments)
    for label in arguments.label or ():
        if label not in dataset.labels:
            raise InputError(f"there is no build {label!r}", f"the last one is {dataset.labels[-1]}")
    (_compact if arguments.action == "compact" else _info)(dataset, arguments, forms)
    return _common.answered(dataset)


def _check(arguments: argparse.Namespace, forms: Sequence[Form]) -> int:
    from spillscan.history.dataset.repair import repair, verify

    root = _common.place_of(arguments)
    verifying = arguments.action == "verify"
    found = [(each, "") for each in verify(root)] if verifying else repair(root)
    columns = ("build", "file", "damage", *([] if verifying else ["done"]))
    rows = [[", ".join(each.labels), each.path, each.why, *([] if verifying else [done])] for each, done in found]
    _common.show(forms, columns, rows, left=columns, empty="all is sound")
    if found:
        advice = "`spillscan dataset repair` restores the rest" if verifying else "audit its inputs again"
        raise UndecidedError(f"{len(found):,} files of {root} {'are' if verifying else 'were'} lost or damaged", advice)
    return 0


def _compact(dataset: Dataset, arguments: argparse.Namespace, forms: Sequence[Form]) -> None:
    from spillscan.history.dataset.compaction import compact

    outcome = compact(dataset, arguments.label, arguments.older_than)
    columns = ("builds", "files before", "files after", "swept")
    row = (outcome.labels, outcome.files_before, outcome.files_after, outcome.swept)
    _common.show(forms, columns, [row])


def _info(dataset: Dataset, arguments: argparse.Namespace, forms: Sequence[Form]) -> None:
    builds = [
        build
        for build in _common.builds_of(dataset, arguments)
        if not arguments.label or build.label in arguments.label
    ]
    rows, shown = [], []
    for held in dataset.summary(builds):
        build = held.build
        counts = [held.files, held.kernels, held.spilling, held.failed, held.holes, held.parts, held.part_bytes]
        rows.append([build.label, build.time, *counts, build.meta])
        meta = " ".join(f"{key}={value}" for key, value in build.meta.items() if key != "time")
        shown.append([build.label, f"{build.time:%Y-%m-%d %H:%M}", *counts, meta])
    columns = ("label", "time", "files", "kernels", "spilling", "failed", "holes", "parts", "part_bytes", "meta")
    _common.show(forms, columns, shown, left=("label", "time", "meta"), machine=(columns, rows))
