"""What a dataset holds, and its upkeep.

info lists the builds. compact makes few large files of many small ones, brings older ones to the present schema, and
deletes what killed appends left behind; not while one of the builds is being appended to.
"""

from __future__ import annotations

import argparse

from spillscan.commands import _common, _dataset

NAME = "dataset"
HELP = "list the builds of a dataset, or compact it"
ORDER = 75
EPILOG = "Example: spillscan dataset compact -d s3://bucket/kernels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", choices=("info", "compact"), help="what to do")
    parser.add_argument("--label", action="append", metavar="LABEL", help="only this build; repeatable")
    parser.add_argument(
        "--older-than",
        type=_common.whole_number,
        default=24,
        metavar="HOURS",
        help="compact: files of killed appends are deleted once they are so old (default: 24)",
    )
    _dataset.add_dataset(parser)
    _dataset.add_order(parser)
    _dataset.add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where there is no dataset."""
    return _compact(arguments) if arguments.action == "compact" else _info(arguments)


def _compact(arguments: argparse.Namespace) -> int:
    from spillscan.dataset.compaction import compact

    outcome = compact(_dataset.dataset_of(arguments), arguments.label, arguments.older_than)
    columns = ("builds", "files before", "files after", "swept")
    row = (outcome.labels, outcome.files_before, outcome.files_after, outcome.swept)
    _dataset.show(columns, [row], arguments.format)
    return 0


def _info(arguments: argparse.Namespace) -> int:
    from spillscan.dataset.listing import summary
    from spillscan.output.safe import printable

    dataset = _dataset.dataset_of(arguments)
    builds = [
        build
        for build in _dataset.builds_of(dataset, arguments)
        if not arguments.label or build.label in arguments.label
    ]
    text = arguments.format == "text"
    rows = []
    for held in summary(dataset, builds):
        build = held.build
        meta = " ".join(f"{key}={value}" for key, value in build.meta.items() if key != "time") if text else build.meta
        time = f"{build.time:%Y-%m-%d %H:%M}" if text else build.time
        counts = [held.kernels, held.units, held.failures, held.files, held.size_bytes]
        rows.append([printable(build.label) if text else build.label, time, *counts, meta])
    columns = ("label", "time", "kernels", "units", "failures", "files", "bytes", "meta")
    _dataset.show(columns, rows, arguments.format, ("label", "time", "meta"))
    return 0
