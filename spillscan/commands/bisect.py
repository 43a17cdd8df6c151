"""The first build of a dataset in which a figure of a kernel was another than before."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillscan.commands import _common, _policy
from spillscan.errors import InputError

if TYPE_CHECKING:
    from spillscan.dataset.builds import KeptBuild

NAME = "bisect"
HELP = "the first build of a dataset in which a figure changed"
ORDER = 74
EPILOG = "Example: spillscan bisect 'flash::fwd<128>' --metric spill_bytes --since v2.3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("kernel", metavar="KERNEL", help="any name of a kernel, a glob, or re:EXPRESSION")
    _common.add_metric(parser, "FOLLOWED", "only this figure (default: all)")
    parser.add_argument("--since", metavar="LABEL", help="compare from this build on (default: the first)")
    _common.add_arch(parser)
    _common.add_dataset(parser)
    _common.add_launches(parser)
    _policy.add_file(parser)
    _common.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """0, whether something changed or not; 2 where no kernel is called so, or no build knows the figure."""
    from spillscan.dataset.answers import histories, names_in, steps
    from spillscan.model.figures import FOLLOWED

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
    rows, full_names = [], []
    for series in found:
        kernel = series.kernel
        for metric in metrics:
            step = next(steps(series, metric), None)
            if step is not None:
                change = [metric, step.before, step.after, builds[step.first].label, builds[step.last].label]
                rows.append([names.of(kernel.key.symbol), kernel.key.arch, *change])
                full_names.append([series.canonical, kernel.name])
    _common.show(
        forms,
        ("kernel", "arch", "metric", "before", "after", "first build", "last build before"),
        rows,
        left=("kernel", "arch", "metric", "first build", "last build before"),
        machine=(
            ("canonical", "name", "arch", "metric", "before", "after", "first_build", "last_build_before"),
            [[*identity, *row[1:]] for identity, row in zip(full_names, rows, strict=True)],
        ),
        empty=f"nothing changed in {len(builds)} builds",
    )
    return 0


def _since(builds: Sequence[KeptBuild], label: str | None) -> Sequence[KeptBuild]:
    if label is None:
        return builds
    at = next((index for index, build in enumerate(builds) if build.label == label), None)
    if at is None:
        raise InputError(f"there is no build {label}", f"the first is {builds[0].label}, the last {builds[-1].label}")
    return builds[at:]
