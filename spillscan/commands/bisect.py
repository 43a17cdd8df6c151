"""Each build of a dataset in which a figure of a kernel was another than before, or the kernel came, went or got
another name; the worst first.

Kernels are followed as diff pairs them. One that spills from birth is worse than none.
A figure that rose, fell and rose again has three rows; the one that holds is behind the value of the newest build.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spillscan.commands import _answers, _datasets, _options, _policy
from spillscan.commands._datasets import turn_columns
from spillscan.history.dataset.history import Happening, happenings
from spillscan.history.dataset.records import KeptBuild
from spillscan.history.dataset.turns import Turn, turns
from spillscan.model.figures import FOLLOWED, TRACED
from spillscan.naming import Names
from spillscan.output.errors import InputError
from spillscan.output.nouns import count
from spillscan.reports.table import Table

EPILOG = "Example: spillscan history bisect 'flash::fwd<128>' --metric spill_bytes --since v2.3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_followed(parser)
    _options.add_metric(parser, TRACED, "only this figure (default: all but compile_ms)")
    parser.add_argument("--since", metavar="LABEL", help="compare from this build on (default: the first)")
    parser.add_argument(
        "--by", choices=("kernel", "family"), default="kernel", help="a row a kernel (default), or a family and build"
    )
    _options.flag(parser, "--worse", "only what got worse")
    _options.add_rows(parser, 20, "changes to print", "changes")
    _options.add_arch(parser)
    _options.add_dataset(parser)
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """0, whether something changed or not; 2 where no kernel is called so, or no build knows the figure."""
    forms = _answers.forms_of(arguments)
    followed = _datasets.followed(arguments, lambda builds: _since(builds, arguments.since))
    builds, names = followed.builds, followed.names
    metrics = tuple(dict.fromkeys(arguments.metric)) or tuple(each.name for each in FOLLOWED)
    if all(value is None for series in followed.series for metric in metrics for value in series.values(metric)):
        raise InputError(
            f"no build reports {' or '.join(metrics)} of it", "resident_blocks needs --launch 'GLOB=THREADS'"
        )

    def called(each: Happening) -> str:
        key = each.series.kernel.named_by
        return names.base(key) if arguments.by == "family" else str(id(each.series))

    happened = happenings(followed.series, metrics, named=bool(arguments.metric))
    changes = [turn for turn in turns(happened, called) if turn.worsening > 0 or not arguments.worse]
    said = "got worse" if arguments.worse else "changed"
    table = Table(
        columns=list(turn_columns(builds, names, first=arguments.by)),
        rows=changes,
        empty=f"nothing {said} in {count(len(builds), 'build')}",
        called=None if arguments.by == "family" else lambda turn, room: _name(turn, names, room),
        counted="changes",
    )
    _answers.show(forms, table, _options.rows_of(arguments))
    return _datasets.answered(followed.dataset)


def _name(turn: Turn, names: Names, room: int) -> str:
    return names.of(turn.worst.series.kernel.named_by, room) if turn.worst else turn.family


def _since(builds: Sequence[KeptBuild], label: str | None) -> Sequence[KeptBuild]:
    if label is None:
        return builds
    at = next((index for index, build in enumerate(builds) if build.label == label), None)
    if at is None:
        raise InputError(f"there is no build {label}", f"the first is {builds[0].label}, the last {builds[-1].label}")
    return builds[at:]
