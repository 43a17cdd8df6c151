"""Regressions and improvements: one row per change of the kernels of a family in a build.

A change is a regression if the rules of ``diff`` and ``check`` report it for the values before and after. A new kernel
that spills is one, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from spillscan.history.dataset.history import Series, Step, steps
from spillscan.judging.compare.causes import Growth
from spillscan.judging.compare.pairing import changed
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check_changes
from spillscan.model import Change, Kernel
from spillscan.model.metrics import rank
from spillscan.naming import Names

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset
    from spillscan.history.dataset.records import KeptBuild

_SEVERITIES = ("error", "warning", "note")


class Occurrence(NamedTuple):
    """A change of one kernel between two builds."""

    series: Series
    state: str
    """``changed``, or the state of an :class:`~spillscan.history.dataset.history.Event`."""
    steps: tuple[Step, ...]
    """Metrics that changed, the most important first; of a regression, one that got worse comes first."""
    last: int
    """Index of the build before."""
    first: int
    """Index of the build after."""
    was: Kernel | None = None
    """If ``renamed``: the kernel under its old name."""
    rules: tuple[str, ...] = ()
    """If a regression: the rules that report it."""
    severity: str = ""
    """If a regression: its highest severity."""

    @property
    def order(self) -> tuple[object, ...]:
        """Sort key: regressions first, by severity; then by metric, the largest change first."""
        severity = _SEVERITIES.index(self.severity) if self.severity else len(_SEVERITIES)
        step = self.steps[0] if self.steps else None
        about = () if step is None else (rank(step.metric), -abs(step.after - step.before))
        return severity, self.state != "changed", about, self.first, self.series.canonical


class Row(NamedTuple):
    """The same change of one or more kernels of a family in one build."""

    worst: Occurrence
    kernels: int
    """Number of kernels with this change, over all archs."""
    names: int
    """Number of distinct names of these kernels."""
    archs: tuple[str, ...]

    @property
    def regressed(self) -> bool:
        """Whether the change is a regression."""
        return bool(self.worst.severity)

    @property
    def improved(self) -> bool:
        """Whether the most important metric got better, and no rule is broken."""
        return not self.regressed and bool(self.worst.steps) and self.worst.steps[0].worsening < 0


def occurrences(
    kernels: Iterable[Series], metrics: Sequence[str], policy: Policy, *, alone: bool = False
) -> list[Occurrence]:
    """All changes of the kernels, regressions first.

    ``alone``: consider only ``metrics``; each that got worse is a regression.
    """
    if alone:
        every = [each for series in kernels for each in _changes(series, metrics)]
        grown = [any(step.worsening > 0 for step in each.steps) for each in every]
        every = [
            each._replace(steps=_worse_first(each.steps), severity="note") if worse else each
            for each, worse in zip(every, grown, strict=True)
        ]
    else:
        every = [each for series in kernels for each in (*_changes(series, metrics), *_events(series))]
        every = list(_with_rules(every, policy))
    return sorted(every, key=lambda each: each.order)


def _changes(series: Series, metrics: Sequence[str]) -> Iterator[Occurrence]:
    by_build: dict[int, list[Step]] = defaultdict(list)
    for metric in metrics:
        for step in steps(series, metric):
            by_build[step.first].append(step)
    for first, some in sorted(by_build.items()):
        some.sort(key=lambda step: rank(step.metric))
        yield Occurrence(series, "changed", tuple(some), max(step.last for step in some), first)


def _events(series: Series) -> Iterator[Occurrence]:
    for event in series.events:
        yield Occurrence(series, event.state, (), event.last, event.first, event.was)


def _with_rules(every: Sequence[Occurrence], policy: Policy) -> Iterator[Occurrence]:
    """The occurrences with the rules that each breaks."""
    changes: dict[int, Change] = {}
    for at, each in enumerate(every):
        if each.state == "new":
            changes[at] = Change(state="added", before=None, after=each.series.kernel_at(each.first))
        elif each.state == "changed":
            change = changed(each.series.kernel_at(each.last), each.series.kernel_at(each.first), policy)
            if change is not None:
                changes[at] = change
    place = {id(change.after): at for at, change in changes.items()}
    broken: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for finding in check_changes([*changes.values()], policy).findings:
        if finding.kernel is not None:
            broken[place[id(finding.kernel)]].append((finding.severity, finding.rule))
    for at, each in enumerate(every):
        broken_here = sorted(broken[at], key=lambda pair: _SEVERITIES.index(pair[0])) if at in broken else []
        spills = each.state == "new" and each.series.kernel_at(each.first).usage.spill_bytes
        if broken_here and (each.steps or spills):
            rules = tuple(rule for _, rule in broken_here)
            yield each._replace(steps=_worse_first(each.steps), rules=rules, severity=broken_here[0][0])
        else:
            yield each


def _worse_first(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps, led by the first that got worse."""
    worse = [step for step in steps if step.worsening > 0][:1]
    return (*worse, *(step for step in steps if step not in worse))


def rows(changes: Iterable[Occurrence], names: Names) -> list[Row]:
    """Group occurrences of one family, build and direction into a row under the worst, in the same order."""
    groups: dict[tuple[object, ...], list[Occurrence]] = defaultdict(list)
    for each in changes:
        better = bool(each.steps) and each.steps[0].worsening < 0
        family = names.base(each.series.kernel.named_by)
        groups[family, each.state, each.last, each.first, bool(each.severity), better].append(each)
    return [
        Row(
            worst=some[0],
            kernels=len(some),
            names=len({each.series.canonical for each in some}),
            archs=tuple(sorted({each.series.kernel.key.arch or "" for each in some})),
        )
        for some in groups.values()
    ]


def reasons(dataset: Dataset, builds: Sequence[KeptBuild], changes: Sequence[Row]) -> dict[int, str]:
    """Causes of changed values, by index of the row, as ``diff --why`` finds them in the records; absent if unknown."""
    asked = {at: row.worst for at, row in enumerate(changes) if row.worst.state == "changed"}
    wanted = {(builds[at].label, each.series.canonical) for each in asked.values() for at in (each.last, each.first)}
    recorded: dict[tuple[str, str, str | None], Kernel] = {}
    for label, name, kernels in dataset.kernels_of({label for label, _ in wanted}, wanted) if asked else ():
        for kernel in kernels:
            recorded.setdefault((label, name, kernel.key.arch), kernel)
    evidence = {}
    for at, each in asked.items():
        name, arch = each.series.canonical, each.series.kernel.key.arch
        before, after = (recorded.get((builds[index].label, name, arch)) for index in (each.last, each.first))
        if before is not None and after is not None and (shown := Growth(before, after, {}).causes):
            evidence[at] = shown[0].evidence
    return evidence
