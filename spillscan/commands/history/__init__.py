"""List regressions and improvements over the builds of a dataset.

spillscan history                    regressions and improvements of all kernels
spillscan history --kernel 'flash*'  one row per build for each matching kernel
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from spillscan.commands import _answers, _options, _policy, add_verbs
from spillscan.commands._selection import Selection
from spillscan.commands.history._datasets import answered, dataset_of
from spillscan.history.dataset.history import Series, Step, histories, names_of
from spillscan.history.dataset.reading import BuildSummary, Dataset
from spillscan.history.dataset.records import KeptBuild, date_in
from spillscan.history.dataset.regressions import Row, occurrences, reasons, rows
from spillscan.model.metrics import TRACEABLE, TRACKED, find_metric, rank
from spillscan.naming import Names
from spillscan.output.markdown import code
from spillscan.output.nouns import count
from spillscan.output.terminal import Style, spark
from spillscan.reports.groups import archs_cell
from spillscan.reports.page.history import history_document
from spillscan.reports.table import Column, Table

_VERBS = {
    "audit": "add a build to the dataset",
    "query": "run a DuckDB query (read-only)",
    "verify": "check every file of the dataset",
}
EPILOG = "Example: spillscan history --dataset data/ --launch 'gemm*=256' -f markdown:history.md"
_EXPLAINED = 50
"""Maximum number of rows whose cause is looked up."""
_MAIN = ("spill_bytes", "registers", "resident_blocks")
"""Metrics of a kernel that are always shown; on a narrow terminal, others of the highest ranks are hidden first."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _options.words(parser, "--kernel", "GLOB", "print one row per build for each kernel that matches GLOB")
    _options.add_arch(parser)
    _options.add_metric(parser, TRACEABLE, "only this metric")
    _options.add_rows(parser, 20, "rows per table", "rows, and all tables")
    _options.add_dataset(parser)
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_formats(parser, "text", "json", "markdown", "html")
    add_verbs(parser, {name: (about, import_module(f"{__name__}.{name}")) for name, about in _VERBS.items()})


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 if there is no dataset, or if part of it is damaged."""
    forms = _answers.forms_of(arguments)
    dataset = dataset_of(arguments)
    policy = _policy.policy_of(arguments)
    metrics = sorted(arguments.metric or [each.name for each in TRACKED], key=rank)
    most = _options.rows_of(arguments)
    answer = (
        _kernels(dataset, arguments, policy, arguments.metric)
        if arguments.kernel
        else _regressions(dataset, arguments, policy, metrics)
    )
    _answers.answer(
        forms,
        text=lambda style: answer.text(style, most),
        json=answer.document,
        markdown=lambda: answer.markdown(most),
        html=lambda: history_document(dataset.root, answer.tables, answer.folded, answer.summary),
    )
    return answered(dataset)


class _Answer(NamedTuple):
    """Tables by name, tables shown only on request (``folded``), and summary lines."""

    tables: Mapping[str, Table[Any]]
    folded: Mapping[str, Table[Any]]
    summary: Sequence[str]

    def text(self, style: Style, most: int | None) -> Iterator[str]:
        """Tables with rows, then the summary; folded tables only if all rows are requested."""
        shown = [*self.tables.values(), *(self.folded.values() if most is None else ())]
        for table in (each for each in shown if each.rows):
            yield from table.text(style, most)
            yield ""
        yield from (*self.summary, *["--all lists all changes and builds"] * bool(self.folded and most is not None))

    def document(self) -> dict[str, Any]:
        """All tables, by name."""
        return {name: list(table.document()) for name, table in (*self.tables.items(), *self.folded.items())}

    def markdown(self, most: int | None) -> Iterator[str]:
        """Tables as sections, folded ones in ``<details>``."""
        for table in (each for each in self.tables.values() if each.rows):
            yield from (*table.markdown(most), "")
        yield from (line for each in self.summary for line in (each, ""))
        for table in (each for each in self.folded.values() if each.rows):
            yield from ("<details><summary>" + f"{table.title} ({len(table.rows):,})</summary>", "")
            yield from (*table.markdown(most), "")
            yield "</details>"


# ---- all kernels --------------------------------------------------------------------------------------------------


def _regressions(dataset: Dataset, arguments: argparse.Namespace, policy: Any, metrics: Sequence[str]) -> _Answer:
    builds = dataset.builds
    series = histories(dataset, builds, "*", policy, arguments.arch, timed="compile_ms" in metrics, changing=True)
    Selection(arguments.arch, (), arguments.launch).refuse_unmatched([each.kernel for each in series])
    names = names_of(dataset, builds, series)
    changes = rows(occurrences(series, metrics, policy, alone=bool(arguments.metric)), names)
    regressed, improved = [row for row in changes if row.regressed], [row for row in changes if row.improved]
    others = [row for row in changes if not row.regressed and not row.improved]
    summaries = list(dataset.summary(builds))

    def table(some: Sequence[Row], title: str, counted: str) -> Table[Any]:
        return Table(columns=_columns(some, dataset, builds, names), rows=some, title=title, counted=counted)

    shown = {
        "regressions": table(regressed, "", "regression"),
        "improvements": table(improved, "Improvements", "improvement"),
    }
    folded = {"others": table(others, "Other changes", "change"), "builds": _builds(summaries)}
    return _Answer(shown, folded, list(_summary(changes, builds, summaries)))


def _summary(changes: Sequence[Row], builds: Sequence[KeptBuild], summaries: Sequence[BuildSummary]) -> Iterator[str]:
    ends = (each.label if _dated(each) else f"{each.time:%Y-%m-%d}" for each in (builds[0], builds[-1]))
    days = " to ".join(dict.fromkeys(ends))
    yield f"{count(sum(row.regressed for row in changes), 'regression')} in {count(len(builds), 'build')} ({days})"
    events = {"new": "added", "gone": "removed", "renamed": "renamed"}
    numbers = Counter("improved" if row.improved else events.get(row.worst.state, "") for row in changes)
    if counts := [f"{numbers[word]:,} {word}" for word in ("improved", *events.values()) if numbers[word]]:
        yield ", ".join(counts)
    for each in (each for each in summaries if each.failed or each.gaps):
        first = f": {each.issues[0].message}" if each.issues else ""
        yield f"incomplete: {each.build.label} ({count(each.failed, 'failed file')}, {count(each.gaps, 'gap')}{first})"


def _columns(changes: Sequence[Row], dataset: Dataset, builds: Sequence[KeptBuild], names: Names) -> list[Column[Row]]:
    """Columns for text and JSON: the change, its build and its cause."""
    causes = {id(changes[at]): why for at, why in reasons(dataset, builds, changes[:_EXPLAINED]).items()}
    one_year = len({build.time.year for build in builds}) == 1

    def since(row: Row) -> str:
        build = builds[row.worst.first]
        day = "" if _dated(build) else f"{build.time:%m-%d}" if one_year else f"{build.time:%Y-%m-%d}"
        return " ".join(filter(None, (day, build.label, build.commit)))

    def name(row: Row) -> str:
        key = row.worst.series.kernel.named_by
        return names.of(key) if row.names == 1 else f"{names.base(key)} ({count(row.names, 'kernel')})"

    def archs(row: Row) -> str:
        return archs_cell(row.archs)

    return [
        Column("kernel", None, name, left=True),
        Column(None, "symbol", lambda row: row.worst.series.kernel.key.symbol),
        Column(None, "name", lambda row: row.worst.series.kernel.name),
        Column("arch", "archs", lambda row: list(row.archs), True, text=archs, marked=lambda row: code(archs(row))),
        Column(None, "kernels", lambda row: row.kernels),
        Column("trend", "trend", _trend, left=True, text=lambda row: sparkline(_trend(row))),
        Column(None, "state", lambda row: row.worst.state),
        Column("change", "change", _steps, left=True, text=lambda row: _change(row, names)),
        Column(None, "severity", lambda row: row.worst.severity or None),
        Column(None, "rules", lambda row: list(row.worst.rules)),
        Column("since", "since", lambda row: builds[row.worst.first].label, left=True, text=since),
        Column(None, "date", lambda row: builds[row.worst.first].time),
        Column(None, "commit", lambda row: builds[row.worst.first].meta.get("commit")),
        Column(None, "before", lambda row: builds[row.worst.last].label),
        Column("why", "why", lambda row: causes.get(id(row)), True, -1, text=lambda row: causes.get(id(row), "")),
    ]


def _dated(build: KeptBuild) -> bool:
    """Whether the build's label contains a date."""
    return date_in(build.label) is not None


def _trend(row: Row) -> list[int | None]:
    metric = row.worst.steps[0].metric if row.worst.steps else "spill_bytes"
    return row.worst.series.values(metric)


def _steps(row: Row) -> list[list[Any]]:
    return [[step.metric, step.before, step.after] for step in row.worst.steps]


def _change(row: Row, names: Names) -> str:
    """Changed metrics, ``spills 0 → 520 B, blocks/SM 2 → 4``, or the kernel's event."""
    if row.worst.steps:
        summed = any(step.metric == "spill_bytes" for step in row.worst.steps)
        shown = [_step(step) for step in row.worst.steps if not (summed and step.metric in _SUMMANDS)]
        while len(text := ", ".join(shown)) > _LONGEST_CHANGE and len(shown) > 1:
            shown.pop()
        return text
    if row.worst.was is not None:
        return f"renamed from {names.of(row.worst.was.named_by)}"
    spills = row.worst.series.kernel_at(row.worst.first).usage.spill_bytes if row.worst.state == "new" else 0
    event = {"new": "added", "gone": "removed", "back": "back"}[row.worst.state]
    return f"{event}, spills {spills:,} B" if spills else event


_LONGEST_CHANGE = 36
"""Maximum characters of the changed metrics in a row, after the first."""
_SUMMANDS = ("spill_store_bytes", "spill_load_bytes")


def _step(step: Step) -> str:
    shown = find_metric(step.metric)
    head = "blocks/SM" if step.metric == "resident_blocks" else shown.label
    unit = f" {shown.unit}" if shown.unit in ("B", "ms") else ""
    return f"{head} {step.before:,} → {step.after:,}{unit}"


_WIDTH = 8
"""Characters of a sparkline."""


def sparkline(values: Sequence[int | None]) -> str:
    """Sparkline that begins at the minimum; blank if no value is known."""
    return spark(values, _WIDTH, least=min((each for each in values if each is not None), default=0))


def _of_build(build_of: Callable[[Any], KeptBuild]) -> list[Column[Any]]:
    """Columns for label, date and commit of a row's build."""

    def day(row: Any) -> str:
        return "" if _dated(build_of(row)) else f"{build_of(row).time:%Y-%m-%d}"

    return [
        Column("build", "build", lambda row: build_of(row).label, left=True),
        Column("date", "date", lambda row: build_of(row).time, True, True, day),
        Column(
            "commit",
            "commit",
            lambda row: build_of(row).meta.get("commit"),
            True,
            True,
            lambda row: build_of(row).commit,
        ),
    ]


def _builds(summaries: Sequence[BuildSummary]) -> Table[BuildSummary]:
    def spills(each: BuildSummary) -> str:
        return "-" if each.spill_bytes is None else f"{'≥' * bool(each.unknown)}{each.spill_bytes:,}"

    columns: list[Column[BuildSummary]] = [
        *_of_build(lambda each: each.build),
        Column(None, "meta", lambda each: dict(each.build.meta)),
        Column("kernels", "kernels", lambda each: each.kernels),
        Column("spilling", "spilling", lambda each: each.spilling),
        Column("spills, B", "spill_bytes", lambda each: each.spill_bytes, text=spills),
        Column(None, "spill_bytes_unknown", lambda each: each.unknown),
        Column("code, B", "code_bytes", lambda each: each.code_bytes),
        Column("files", "files", lambda each: each.files),
        Column("failed", "failed", lambda each: each.failed),
        Column("gaps", "gaps", lambda each: each.gaps),
    ]
    return Table(columns=columns, rows=summaries[::-1], title="Builds, newest first")


# ---- some kernels -------------------------------------------------------------------------------------------------


class _Point(NamedTuple):
    """A kernel in one build."""

    series: Series
    build: KeptBuild
    values: Mapping[str, int | None]


def _kernels(dataset: Dataset, arguments: argparse.Namespace, policy: Any, asked: Sequence[str]) -> _Answer:
    """Tables of the matching kernels, with one row per build that has the kernel."""
    builds = dataset.builds
    timed = "compile_ms" in asked
    by_series = {
        (each.canonical, each.kernel.key.arch, each.kernel.configuration): each
        for pattern in arguments.kernel
        for each in histories(dataset, builds, pattern, policy, arguments.arch, timed=timed)
    }
    series = list(by_series.values())
    Selection(arguments.arch, (), arguments.launch).refuse_unmatched([each.kernel for each in series])
    names = names_of(dataset, builds, series)
    moved = {each.name for each in TRACKED for one in series if len({*one.values(each.name)} - {None}) > 1}
    metrics = sorted(asked or {*_MAIN, *moved}, key=rank)
    tables = {f"kernel_{at}": _of_kernel(each, builds, names, metrics) for at, each in enumerate(series)}
    return _Answer(tables, {}, [f"{count(len(series), 'kernel')} in {count(len(builds), 'build')}"])


def _of_kernel(series: Series, builds: Sequence[KeptBuild], names: Names, metrics: Iterable[str]) -> Table[_Point]:
    kernel = series.kernel
    points = [
        _Point(series, build, {metric: point[metric] for metric in metrics})
        for build, point in zip(builds, series.points, strict=True)
        if point is not None
    ]

    def column(metric: str) -> Column[_Point]:
        one = find_metric(metric)
        return Column(one.head, metric, lambda at: at.values[metric], spare=(metric not in _MAIN) * (999 - one.rank))

    columns: list[Column[_Point]] = [
        Column(None, "symbol", lambda point: kernel.key.symbol),
        Column(None, "name", lambda point: kernel.name),
        Column(None, "arch", lambda point: kernel.key.arch),
        *_of_build(lambda point: point.build),
        *map(column, metrics),
    ]
    title = f"{names.of(kernel.named_by)}  {kernel.key.arch or 'arch unknown'}"
    return Table(columns=columns, rows=points, title=title)
