"""Builds or archs side by side, for people: a table a metric, the widest spread first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from spillscan.compare.matrix import ABSENT, KernelRow, Matrix
from spillscan.model.figures import figure
from spillscan.naming import Names
from spillscan.output.terminal import DIM, GREEN, RED, Row, Style, fold, paint, table
from spillscan.reports import Report
from spillscan.reports._words import count, counted, named, verdict_lines

NOT_SAID = "-"
_NAME_AND_ARCH = 36
"""Columns that a kernel's name and arch should have."""


def lines(report: Report, style: Style) -> Iterator[str]:
    """The kernels in which a metric differs, or all of them where all rows are wanted; a table a metric."""
    matrix = report.matrix
    assert matrix is not None
    heads = list(matrix.builds)
    if matrix.by == "arch":
        heads = [arch or "arch?" for arch, _ in groupby(column.arch for column in matrix.columns)]
        if len(matrix.builds) > 1:
            yield from (paint(line, "", style) for line in _legend_by_arch(matrix))
    elif sum(len(head) + 2 for head in heads) > style.width - _NAME_AND_ARCH:
        heads = [f"[{at + 1}]" for at in range(len(matrix.builds))]
        yield from (paint(f"{head} {build}", "", style) for head, build in zip(heads, matrix.builds, strict=True))
        yield ""
    for number, metric in enumerate(matrix.metrics):
        yield from [""] if number else []
        yield from _table(report, matrix, metric, heads, style)
    if any(None in row.cells for row in matrix.rows):
        yield paint(f"{ABSENT} no such kernel there", DIM, style)
    if report.open_findings:
        yield ""
        yield paint(f"{matrix.builds[0]} → {matrix.builds[-1]}", "", style)
    yield from verdict_lines(report, style, counted(report))


def _legend_by_arch(matrix: Matrix) -> Iterator[str]:
    """What a cell's figures are, and which archs only some of the builds have."""
    yield (f"in each cell: {' → '.join(matrix.builds)}")
    for arch, group in groupby(matrix.columns, key=lambda column: column.arch):
        there = [matrix.builds[column.build] for column in group]
        if len(there) < len(matrix.builds):
            yield (f"{arch or 'arch?'}: {' → '.join(there)} only")
    yield ""


def _table(report: Report, matrix: Matrix, metric: str, heads: Sequence[str], style: Style) -> Iterator[str]:
    ranked = matrix.ranked(metric)
    differing = [row for row in ranked if _differs(matrix, row, metric)]
    wanted = ranked if style.rows is None else differing
    alike = _alike(matrix, wanted, metric, report.names)
    shown = alike[: style.rows]
    label = figure(metric).label
    unit = f" ({figure(metric).unit})" if figure(metric).unit else ""
    equal = count(len(ranked) - len(differing), "kernel")
    if not shown:
        yield f"{label}: no difference in {equal}"
        return
    columns = ["kernel", *(["arch"] if matrix.by == "build" else []), *heads]
    rows: list[Row] = [
        (_cells(matrix, row[0], metric, report.names), _color(matrix.values(row[0], metric))) for row in shown
    ]
    yield f"{label}{unit}"

    def fit(room: int) -> list[str]:
        more = [f" (+{len(row) - 1:,})" if len(row) > 1 else "" for row in shown]
        return [
            named(row[0].kernel, report.names, room - len(each)) + each for row, each in zip(shown, more, strict=True)
        ]

    yield from table(columns, rows, style, left=("kernel", "arch"), fit=fit)
    yield from fold(len(wanted) - sum(map(len, shown)), style)
    if len(differing) < len(ranked) and style.rows is not None:
        yield paint(f"{equal} without a difference", DIM, style)


def _alike(matrix: Matrix, rows: Sequence[KernelRow], metric: str, names: Names) -> list[list[KernelRow]]:
    """Instances of one family whose rows are equal, together."""
    found: dict[object, list[KernelRow]] = {}
    for row in rows:
        there = [cell is not None for cell in row.cells]
        arch = row.kernel.key.arch if matrix.by == "build" else None
        key = (names.base(row.kernel.named_by), arch, row.kernel.role, *matrix.values(row, metric), *there)
        found.setdefault(key, []).append(row)
    return list(found.values())


def _differs(matrix: Matrix, row: KernelRow, metric: str) -> bool:
    """Whether two cells hold different figures, or one holds none where another does."""
    values = {value for value, cell in zip(matrix.values(row, metric), row.cells, strict=True) if cell is not None}
    return len(values) > 1


def _cells(matrix: Matrix, row: KernelRow, metric: str, names: Names) -> list[str]:
    kernel = row.kernel
    name = named(kernel, names)
    texts = [
        ABSENT if cell is None else NOT_SAID if value is None else f"{value:,}"
        for value, cell in zip(matrix.values(row, metric), row.cells, strict=True)
    ]
    if matrix.by == "build":
        return [name, kernel.key.arch or NOT_SAID, *texts]
    by_arch = groupby(zip(matrix.columns, texts, strict=True), key=lambda pair: pair[0].arch)
    return [name, *(_chain([text for _, text in group]) for _, group in by_arch)]


def _chain(texts: list[str]) -> str:
    """``24 → 32``; ``24`` where all builds agree."""
    return texts[0] if len(set(texts)) == 1 else " → ".join(texts)


def _color(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < 2 or known[0] == known[-1]:
        return ""
    return RED if known[-1] > known[0] else GREEN
