"""Each build of a dataset in which a figure of a kernel was another than before, or the kernel came, went or got
another name; the worst first.

Kernels are followed as diff pairs them. One that spills from birth is worse than none.
A figure that rose, fell and rose again has three rows; the one that holds is behind the value of the newest build.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillscan.commands import _common, _policy
from spillscan.output.errors import InputError

if TYPE_CHECKING:
    from spillscan.history.dataset.builds import KeptBuild

NAME = "bisect"
HELP = "the builds of a dataset in which a figure changed, or a kernel came or went"
ORDER = 74
EPILOG = "Example: spillscan bisect 'flash::fwd<128>' --metric spill_bytes --since v2.3"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("kernel", metavar="KERNEL", help="any name of a kernel, a glob, or re:EXPRESSION")
    _common.add_metric(parser, "TRACED", "only this figure (default: all but compile_ms)")
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
    from spillscan.history.dataset.history import happenings, histories, names_in
    from spillscan.model.figures import FOLLOWED
    from spillscan.model.symbols import tuned_for
    from spillscan.naming.identity import canonical

    forms = _common.forms_of(arguments)
    dataset = _common.dataset_of(arguments)
    builds = _since(_common.builds_of(dataset, arguments), arguments.since)
    policy = _policy.policy_of(arguments)
    found = histories(dataset, builds, arguments.kernel, policy, arguments.arch, policy.labels)
    _common.refuse_unmatched([series.kernel for series in found], arguments)
    metrics = tuple(dict.fromkeys(arguments.metric)) or tuple(each.name for each in FOLLOWED)
    if all(value is None for series in found for metric in metrics for value in series.values(metric)):
        raise InputError(
            f"no build reports {' or '.join(metrics)} of it", "resident_blocks needs --launch 'GLOB=THREADS'"
        )
    changes = [
        change
        for change in happenings(found, metrics, named=bool(arguments.metric))
        if change.worsening > 0 or not arguments.worse
    ]
    names = names_in(dataset, [build.label for build in builds], found, policy.labels)
    rows, machine = [], []
    for change in changes:
        kernel, was = change.series.kernel, change.was
        figures = [change.metric, change.before, change.after]
        at = [builds[change.first].label, builds[change.last].label]
        rows.append(
            [
                *(names.of(kernel.named_by), kernel.key.arch, change.what(names), *figures[1:]),
                *(*at, "yes" if change.holds else "no"),
            ]
        )
        old = None if was is None else canonical(was.key.symbol)
        identity = [change.series.canonical, kernel.name, kernel.key.arch, ", ".join(tuned_for(kernel.configuration))]
        machine.append([*identity, change.event, old, *figures, *at, change.holds])
    most = _common.rows_of(arguments)
    left_out = 0 if most is None else max(0, len(rows) - most)
    said = "got worse" if arguments.worse else "changed"
    _common.show(
        forms,
        ("kernel", "arch", "metric", "before", "after", "first build", "last build before", "holds"),
        rows,
        left=("kernel", "arch", "metric", "first build", "last build before", "holds"),
        most=most,
        fit=lambda room: [names.of(change.series.kernel.named_by, room) for change in changes[:most]],
        more=[f"… {left_out:,} more changes (--all shows them)"] if left_out else [],
        machine=(
            (
                *("canonical", "name", "arch", "configuration", "event", "was"),
                *("metric", "before", "after", "first_build", "last_build_before", "holds"),
            ),
            machine,
        ),
        empty=f"nothing {said} in {len(builds)} builds",
    )
    return _common.answered(dataset)


def _since(builds: Sequence[KeptBuild], label: str | None) -> Sequence[KeptBuild]:
    if label is None:
        return builds
    at = next((index for index, build in enumerate(builds) if build.label == label), None)
    if at is None:
        raise InputError(f"there is no build {label}", f"the first is {builds[0].label}, the last {builds[-1].label}")
    return builds[at:]
