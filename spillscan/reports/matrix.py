"""Kernels by archs and builds, as ``diff --by arch`` prints them: a table per metric, or one record per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from spillscan.judging.compare.matrix import ABSENT, KernelRow, Matrix
from spillscan.model.metrics import find_metric
from spillscan.naming import Names
from spillscan.output.nouns import count
from spillscan.output.terminal import DIM, Style, paint
from spillscan.reports import words
from spillscan.reports.table import of_rows


def lines(matrix: Matrix, names: Names, style: Style) -> Iterator[str]:
    """A table per metric, the widest spread first.

    Tables have the kernels that differ, or all of them if ``style.rows`` is ``None``.
    """
    heads = [arch or "arch?" for arch, _ in groupby(column.arch for column in matrix.columns)]
    if len(matrix.builds) > 1:
        above = (f"in each cell: {' → '.join(matrix.builds)}", *_only_some(matrix), "")
        yield from (paint(line, "", style) for line in above)
    shown: list[KernelRow] = []
    for metric in matrix.metrics:
        ranked = [(row, _cells(matrix, row, metric)) for row in matrix.ranked(metric)]
        differing = [(row, cells) for row, cells in ranked if _differs(matrix, row, cells)]
        wanted = ranked if style.rows is None else differing
        shown += (row for row, _ in wanted[: style.rows])
        known, equal = find_metric(metric), count(len(ranked) - len(differing), "kernel")
        yield from of_rows(
            ("kernel", *heads),
            [(words.named(row.kernel, names), *cells) for row, cells in wanted],
            ("kernel",),
            title=f"{known.label} ({known.unit})" if known.unit else known.label,
            empty=f"no difference in {equal}",
            notes=[f"{equal} without a difference"] if wanted and len(wanted) < len(ranked) else [],
        ).text(style, style.rows)
        yield ""
    if any(None in row.cells for row in shown):
        yield paint(f"{ABSENT} no such kernel in that build", DIM, style)


def records(matrix: Matrix) -> Iterator[Sequence[Any]]:
    """One record per kernel and metric, column names first."""
    heads = [f"{matrix.builds[column.build]} {column.arch or ''}".rstrip() for column in matrix.columns]
    yield "symbol", "name", "unit", "role", "metric", *heads
    for row in matrix.rows:
        kernel = row.kernel
        for metric in matrix.metrics:
            values = matrix.values(row, metric)
            yield kernel.key.symbol, kernel.name, kernel.key.unit, kernel.role, metric, *values


def _only_some(matrix: Matrix) -> Iterator[str]:
    """Archs that only some of the builds have, with those builds."""
    for arch, group in groupby(matrix.columns, key=lambda column: column.arch):
        there = [matrix.builds[column.build] for column in group]
        if len(there) < len(matrix.builds):
            yield f"{arch or 'arch?'}: {' → '.join(there)} only"


def _differs(matrix: Matrix, row: KernelRow, cells: Sequence[str]) -> bool:
    """Whether a build lacks the kernel, for one of its archs or for all, or two ``cells`` differ; unknown differs from
    known."""
    here = {cell for cell in cells if cell != ABSENT}
    builds = {column.build for column, kernel in zip(matrix.columns, row.cells, strict=True) if kernel is not None}
    return len(here) > 1 or "→" in "".join(here) or len(builds) < len(matrix.builds)


def _cells(matrix: Matrix, row: KernelRow, metric: str) -> list[str]:
    """``24 → 32`` per arch; ``24`` if all builds agree."""
    texts = [
        ABSENT if cell is None else "-" if value is None else f"{value:,}"
        for value, cell in zip(matrix.values(row, metric), row.cells, strict=True)
    ]
    by_arch = groupby(zip(matrix.columns, texts, strict=True), key=lambda pair: pair[0].arch)
    cells = [[text for _, text in group] for _, group in by_arch]
    return [each[0] if len(set(each)) == 1 else " → ".join(each) for each in cells]
