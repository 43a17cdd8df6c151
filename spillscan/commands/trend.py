"""How a kernel's registers, spills and resident blocks went over the builds of a dataset, drawn here or as a page."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from spillscan.commands import _answers, _datasets, _options, _policy
from spillscan.commands._datasets import PERCENT, turn_ends, turn_tables, turned
from spillscan.history.dataset.history import Series, steps
from spillscan.history.dataset.records import KeptBuild
from spillscan.model.figures import TRACED, figure
from spillscan.model.symbols import tuned_for
from spillscan.naming import Names
from spillscan.naming.identity import canonical
from spillscan.output import records, terminal
from spillscan.output.nouns import count
from spillscan.output.safe import clip, printable
from spillscan.output.terminal import Style
from spillscan.reports.page.document import STATIC
from spillscan.reports.page.history import trend_document

EPILOG = "Example: spillscan history trend 'gemm*' --launch 'gemm*=256'"

_SHOWN = ("registers", "spill_bytes", "resident_blocks")
_STEPS_SHOWN, _LONGEST_LABEL = 8, 32
_WIDEST = 100
"""Columns of a chart."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_followed(parser)
    _options.add_arch(parser)
    _options.add_metric(parser, TRACED, f"what is drawn (default: {', '.join(_SHOWN)})")
    _options.number(parser, "--last", "only the last N builds", default=0)
    _options.add_dataset(parser)
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_formats(parser, "text", "json", "csv", "html")
    _options.add_rows(parser, 10, "kernels to draw", "kernels")


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where no kernel is called so."""
    forms = _answers.forms_of(arguments)
    followed = _datasets.followed(arguments, lambda builds: builds[-arguments.last :])
    builds, names_of = followed.builds, followed.names_of
    metrics = tuple(dict.fromkeys(arguments.metric)) or _SHOWN
    ordered = sorted(followed.series, key=lambda series: _liveliest(series, metrics))
    shown = ordered[: _options.rows_of(arguments)]

    def text(style: Style) -> Iterator[str]:
        names = names_of(shown)
        for series in shown:
            yield from _lines(series, builds, metrics, style, names)
            yield ""
        if len(shown) < len(ordered):
            yield f"… {count(len(ordered) - len(shown), 'more kernel')} (--all shows them)"

    _answers.answer(
        forms,
        text=text,
        json=lambda: records.objects(_rows(followed.series, builds)),
        csv=lambda: _rows(followed.series, builds),
        html=lambda: _page(followed, ordered, arguments, metrics, text(STATIC)),
    )
    return _datasets.answered(followed.dataset)


def _page(
    followed: _datasets.Followed,
    ordered: Sequence[Series],
    arguments: argparse.Namespace,
    metrics: Sequence[str],
    lines: Iterator[str],
) -> Iterator[str]:
    """What happened is said of families, as ``history`` says it."""
    dataset, builds, names = followed.dataset, followed.builds, followed.names
    families = {names.base(each.kernel.named_by) for each in ordered}
    some = [
        turn for turn in turned(dataset, builds, ordered, names, arguments.metric, PERCENT) if turn.family in families
    ]
    tables = turn_tables(some, builds, names, dataset)
    yield from trend_document(
        arguments.pattern, builds, ordered, metrics, names, lines, tables=tables, ends=turn_ends(tables)
    )


def _liveliest(series: Series, metrics: Sequence[str]) -> tuple[Any, ...]:
    """Those that changed most first."""
    changes = len(series.events) + sum(len(list(steps(series, metric))) for metric in metrics)
    return -changes, series.canonical, series.kernel.key.arch or ""


def _rows(found: Sequence[Series], builds: Sequence[KeptBuild]) -> Iterator[Sequence[Any]]:
    """A kernel in a build, the heads first."""
    identity = ("label", "time", "canonical", "name", "arch", "configuration", "copies", "event", "was")
    yield (*identity, *(each.name for each in TRACED))
    for series in found:
        kernel = series.kernel
        events = {event.first: event for event in series.events}
        for at, (build, point) in enumerate(zip(builds, series.points, strict=True)):
            if point is not None:
                event = events.get(at)
                was = None if event is None or event.was is None else canonical(event.was.key.symbol)
                named = [build.label, build.time, series.canonical, kernel.name, kernel.key.arch]
                named += [", ".join(tuned_for(kernel.configuration)), series.copies, event and event.state, was]
                yield named + [point[each.name] for each in TRACED]


def _lines(
    series: Series, builds: Sequence[KeptBuild], metrics: Sequence[str], style: Style, names: Names
) -> Iterator[str]:
    kernel = series.kernel
    labels = [clip(printable(build.named), _LONGEST_LABEL) for build in builds]
    held = sum(point is not None for point in series.points)
    copies = f", up to {count(series.copies, 'copy', 'copies')}, the worst counts" if series.copies > 1 else ""
    name = f"{names.of(kernel.named_by)}  {kernel.key.arch or 'arch unknown'}"
    yield printable(f"{name}  in {held} of {count(len(builds), 'build')}{copies}")
    for event in series.events:
        was = "" if event.was is None else f" from {names.of(event.was.named_by)}"
        yield printable(f"  {labels[event.first]}: {event.state}{was}, after {labels[event.last]}")
    for metric in metrics:
        shown = figure(metric)
        label = shown.head
        values = series.values(metric)
        known = [value for value in values if value is not None]
        if not known and metric == "resident_blocks" and kernel.role == "function":
            continue  # it is not launched
        if not known:
            why = ", for its launch is not known (--launch 'GLOB=THREADS')" if metric == "resident_blocks" else ""
            yield f"  {label}: not known{why}"
            continue
        changed = list(steps(series, metric))
        if not changed:
            yield f"  {label}: {known[0]:,}"
            continue
        yield f"  {label}: {known[0]:,} → {known[-1]:,}"
        narrow = style._replace(width=min(style.width, _WIDEST))
        yield from terminal.bars(values, labels[0], labels[-1], narrow, fewer_is_worse=shown.worse == "fewer")
        for step in changed[-_STEPS_SHOWN:]:
            yield f"    {labels[step.first]}: {step.before:,} → {step.after:,} ({step.after - step.before:+,})"
        if len(changed) > _STEPS_SHOWN:
            yield f"    {count(len(changed) - _STEPS_SHOWN, 'earlier change')}"
