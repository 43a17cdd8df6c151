"""Each build of a dataset in which a figure of a kernel was another than before, the worst first.

A figure that rose, fell and rose again has three rows; the one that holds is behind the value of the newest build.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillscan.commands import _common, _policy
from spillscan.errors import InputError

if TYPE_CHECKING:
    from spillscan.dataset.builds import KeptBuild

NAME = "bisect"
HELP = "the builds of a dataset in which a figure changed"
ORDER = 74
EPILOG = "Example: spillscan bisect 'flash::fwd<128>' --metric spill_bytes --since v2.3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("kernel", metavar="KERNEL", help="any name of a kernel, a glob, or re:EXPRESSION")
    _common.add_metric(parser, "FOLLOWED", "only this figure (default: all)")
    parser.add_argument("--since", metavar="LABEL", help="compare from this build on (default: the first)")
    parser.add_argument("--worse", action="store_true", help="only what got worse")
    _common.add_rows(parser, 20, "changes to print", "changes")
    _common.add_arch(parser)
    _common.add_dataset(parser)
    _common.add_launches(parser)
    _policy.add_file(parser)
    _common.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """0, whether something changed or not; 2 where no kernel is called so, or no build knows the figure."""
    from spillscan.dataset.answers import histories, names_in, steps
    from spillscan.model.figures import FOLLOWED, rank

    forms = _common.forms_of(arguments)
    dataset = _common.dataset_of(arguments)
    builds = _since(_common.builds_of(dataset, arguments), arguments.since)
    found = histories(dataset, builds, arguments.kernel, _policy.policy_of(arguments), arguments.arch)
    _common.refuse_unmatched([series.kernel for series in found], arguments)
    metrics = tuple(dict.fromkeys(arguments.metric)) or tuple(each.name for each in FOLLOWED)
    if all(value is None for series in found for metric in metrics for value in series.values(metric)):
        raise InputError(
            f"no build reports {' or '.join(metrics)} of it", "resident_blocks needs --launch 'GLOB=THREADS'"
        )
    names = names_in(dataset)
    changes = [
        (series, step, step is held)
        for series in found
        for metric in metrics
        for every in (list(steps(series, metric)),)
        for held in every[-1:]
        for step in every
        if step.worsening > 0 or not arguments.worse
    ]
    changes.sort(
        key=lambda each: (each[1].worsening <= 0, rank(each[1].metric), -abs(each[1].worsening), each[1].first)
    )
    rows, full_names = [], []
    for series, step, holds in changes:
        kernel = series.kernel
        change = [step.metric, step.before, step.after, builds[step.first].label, builds[step.last].label]
        rows.append([names.of(kernel.key.symbol), kernel.key.arch, *change, holds])
        full_names.append([series.canonical, kernel.name])
    most = _common.rows_of(arguments)
    left_out = 0 if most is None else max(0, len(rows) - most)
    what = "got worse" if arguments.worse else "changed"
    _common.show(
        forms,
        ("kernel", "arch", "metric", "before", "after", "first build", "last build before", "holds"),
        [[*row[:-1], "yes" if row[-1] else "no"] for row in rows],
        left=("kernel", "arch", "metric", "first build", "last build before", "holds"),
        most=most,
        more=[f"… {left_out:,} more changes (--all shows them)"] if left_out else [],
        machine=(
            ("canonical", "name", "arch", "metric", "before", "after", "first_build", "last_build_before", "holds"),
            [[*identity, *row[1:]] for identity, row in zip(full_names, rows, strict=True)],
        ),
        empty=f"nothing {what} in {len(builds)} builds",
    )
    return 0


def _since(builds: Sequence[KeptBuild], label: str | None) -> Sequence[KeptBuild]:
    if label is None:
        return builds
    at = next((index for index, build in enumerate(builds) if build.label == label), None)
    if at is None:
        raise InputError(f"there is no build {label}", f"the first is {builds[0].label}, the last {builds[-1].label}")
    return builds[at:]
