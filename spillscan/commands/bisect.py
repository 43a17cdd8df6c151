"""Each build of a dataset in which a figure of a kernel was another than before, or the kernel came, went or got
another name; the worst first.

Kernels are followed as diff pairs them. One that spills from birth is worse than none.
A figure that rose, fell and rose again has three rows; the one that holds is behind the value of the newest build.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spillscan.commands import _answers, _datasets, _options, _policy
from spillscan.history.dataset.builds import KeptBuild
from spillscan.history.dataset.history import Happening, happenings
from spillscan.model import Kernel
from spillscan.model.figures import FOLLOWED, TRACED
from spillscan.model.symbols import tuned_for
from spillscan.naming import Names
from spillscan.naming.identity import canonical
from spillscan.output.errors import InputError
from spillscan.reports.table import Column, Table

EPILOG = "Example: spillscan bisect 'flash::fwd<128>' --metric spill_bytes --since v2.3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_followed(parser)
    _options.add_metric(parser, TRACED, "only this figure (default: all but compile_ms)")
    parser.add_argument("--since", metavar="LABEL", help="compare from this build on (default: the first)")
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
    changes = [
        change
        for change in happenings(followed.series, metrics, named=bool(arguments.metric))
        if change.worsening > 0 or not arguments.worse
    ]
    said = "got worse" if arguments.worse else "changed"
    table = Table(
        columns=_columns(names, builds),
        rows=changes,
        empty=f"nothing {said} in {len(builds)} builds",
        called=lambda change, room: names.of(change.series.kernel.named_by, room),
        counted="changes",
    )
    _answers.show(forms, table, _options.rows_of(arguments))
    return _datasets.answered(followed.dataset)


def _columns(names: Names, builds: Sequence[KeptBuild]) -> list[Column[Happening]]:
    def kernel(change: Happening) -> Kernel:
        return change.series.kernel

    return [
        Column("kernel", None, lambda change: names.of(kernel(change).named_by), left=True),
        Column(None, "canonical", lambda change: change.series.canonical),
        Column(None, "name", lambda change: kernel(change).name),
        Column("arch", "arch", lambda change: kernel(change).key.arch, left=True),
        Column(None, "configuration", lambda change: ", ".join(tuned_for(kernel(change).configuration))),
        Column(None, "event", lambda change: change.event),
        Column(None, "was", lambda change: None if change.was is None else canonical(change.was.key.symbol)),
        Column("metric", "metric", lambda change: change.metric, left=True, text=lambda change: change.what(names)),
        Column("before", "before", lambda change: change.before),
        Column("after", "after", lambda change: change.after),
        Column("first build", "first_build", lambda change: builds[change.first].label, left=True),
        Column("last build before", "last_build_before", lambda change: builds[change.last].label, left=True),
        Column("holds", "holds", lambda change: change.holds, True, text=lambda change: ("no", "yes")[change.holds]),
    ]


def _since(builds: Sequence[KeptBuild], label: str | None) -> Sequence[KeptBuild]:
    if label is None:
        return builds
    at = next((index for index, build in enumerate(builds) if build.label == label), None)
    if at is None:
        raise InputError(f"there is no build {label}", f"the first is {builds[0].label}, the last {builds[-1].label}")
    return builds[at:]
