"""Each build of a dataset in which a figure of a kernel was another than before, or the kernel came, went or got
another name; the worst first.

Kernels are followed as diff pairs them. One that spills from birth is worse than none.
A figure that rose, fell and rose again has three rows; the one that holds is behind the value of the newest build.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.commands import _common, _policy
from spillscan.errors import InputError

if TYPE_CHECKING:
    from spillscan.dataset.builds import KeptBuild
    from spillscan.dataset.history import Series
    from spillscan.model import Kernel

NAME = "bisect"
HELP = "the builds of a dataset in which a figure changed, or a kernel came or went"
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
    from spillscan.dataset.history import histories, names_in
    from spillscan.identity import canonical
    from spillscan.model.figures import FOLLOWED
    from spillscan.names import tuned_for

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
    changes = [
        change
        for series in found
        for change in (*_changed(series, metrics), *_events(series, metrics, named=bool(arguments.metric)))
        if change.worsening > 0 or not arguments.worse
    ]
    changes.sort(key=_order)
    names = names_in(dataset)
    rows, machine = [], []
    for change in changes:
        kernel, was = change.series.kernel, change.was
        event = change.event if was is None else f"renamed from {names.of(was.named_by)}"
        what = change.metric or "" if event == "changed" else ": ".join(filter(None, (event, change.metric)))
        figures = [change.metric, change.before, change.after]
        at = [builds[change.first].label, builds[change.last].label]
        rows.append(
            [names.of(kernel.named_by), kernel.key.arch, what, *figures[1:], *at, "yes" if change.holds else "no"]
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
    return 0


class _Change(NamedTuple):
    """One row: a figure that changed, or what became of a kernel."""

    series: Series
    event: str
    metric: str | None
    before: int | None
    after: int | None
    first: int
    last: int
    worsening: int
    holds: bool
    was: Kernel | None = None


def _order(change: _Change) -> tuple[Any, ...]:
    """What got worse first, then other changes of figures, then kernels that came and went."""
    from spillscan.model.figures import rank

    worse = change.worsening > 0
    figure = () if change.metric is None else rank(change.metric)
    return not worse, not worse and change.event != "changed", figure, -abs(change.worsening), change.first


def _changed(series: Series, metrics: Sequence[str]) -> Iterator[_Change]:
    from spillscan.dataset.history import steps

    for metric in metrics:
        every = list(steps(series, metric))
        for step in every:
            held = step is every[-1]
            yield _Change(
                series, "changed", metric, step.before, step.after, step.first, step.last, step.worsening, held
            )


def _events(series: Series, metrics: Sequence[str], *, named: bool) -> Iterator[_Change]:
    """A kernel that spills from birth is a change for the worse. Where figures are ``named``, that is the only event
    that says something of them."""
    from spillscan.model.figures import rank

    for event in series.events:
        point = series.points[event.last if event.state == "gone" else event.first] or {}
        metric = next(
            (name for name in sorted(metrics, key=rank) if event.state in ("new", "gone") and point[name]), None
        )
        value = None if metric is None else point[metric]
        before, after = (value, None) if event.state == "gone" else (None, value)
        worsening = (value or 0) if event.state == "new" and metric == "spill_bytes" else 0
        if worsening or not named:
            held = event is series.events[-1]
            at = event.first, event.last
            yield _Change(series, event.state, metric, before, after, *at, worsening, held, event.was)


def _since(builds: Sequence[KeptBuild], label: str | None) -> Sequence[KeptBuild]:
    if label is None:
        return builds
    at = next((index for index, build in enumerate(builds) if build.label == label), None)
    if at is None:
        raise InputError(f"there is no build {label}", f"the first is {builds[0].label}, the last {builds[-1].label}")
    return builds[at:]
