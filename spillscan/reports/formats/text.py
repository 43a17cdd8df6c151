"""Tables for people: worst first, the rest folded, unknown values marked as unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING

from spillscan.judging.compare.matrix import ABSENT, Matrix
from spillscan.judging.compare.matrix import KernelRow as MatrixRow
from spillscan.model import Build, Kernel
from spillscan.model.metrics import find_metric
from spillscan.model.symbols import natural
from spillscan.output.nouns import count, size
from spillscan.output.safe import printable
from spillscan.output.terminal import DIM, RED, YELLOW, Row, Style, fold, paint, table
from spillscan.reports import listing, words
from spillscan.reports.groups import Group
from spillscan.reports.kernels import UNKNOWN, KernelRow, kernel_table
from spillscan.reports.report import ALL_KINDS, Report
from spillscan.reports.table import of_rows

if TYPE_CHECKING:
    from spillscan.model.code import PortableCode

FORMAT = "text"
HELP = "tables, worst first (default)"
KINDS = (*ALL_KINDS, "matrix")

_SPARE = ("cmem", "bar", "stack", "unit", "smem", "in loops", "limited by")
"""Columns omitted on a narrow terminal, in this order."""


def render(report: Report, style: Style) -> Iterator[str]:
    """Yield the report as lines that fit the style's width if the names can be cut."""
    for line in _LINES[report.kind](report, style):
        yield line + "\n"


# ---- scan ---------------------------------------------------------------------------------------------------------


def _scan(report: Report, style: Style) -> Iterator[str]:
    found = kernel_table(report, style.rows)
    rows: list[Row] = [
        ([row.title(style.width)], "")
        if isinstance(row, Group)
        else ([column.cell(row) for column in found.columns], _color(row.kernel))
        for row in found.rows
    ]
    heads = [column.head or "" for column in found.columns]
    left = [column.head or "" for column in found.columns if column.left]
    spare = [name for name in _SPARE if name != "unit" or not found.units]
    yield from table(heads, rows, style, left=left, spare=spare, caption=found.grouped)
    yield from fold(found.hidden, style)
    yield ""
    for line in _below(report, found.kernels):
        yield from wrap(line, style.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _below(report: Report, shown: Sequence[KernelRow]) -> Iterator[str]:
    """Summary and legend below the table."""
    yield from words.summary(report.build).splitlines()
    yield from _portable_lines(report.build)
    if any(bounds and bounds[0] != bounds[1] for bounds in (row.kernel.own_spill_bounds for row in shown)):
        yield "4 to 8: lower and upper bound; the code does not say which accesses are spills"
    summaries = [row.summary for row in shown]
    known = [found for found in summaries if found.occupancy]
    if any(found.at_most and found.assumed for found in known):
        yield "≤ upper bound, block size unknown (--launch 'GLOB=THREADS')"
    if any(found.at_most and not found.assumed for found in known):
        yield "≤ upper bound, dynamic shared memory unknown (--launch 'GLOB=THREADS,BYTES')"
    if any(found.mark == "~" for found in known):
        yield "~ at the block size of its launch bounds"
    local = (found.local_memory for found in summaries if found.local_memory)
    heaviest = max(local, key=lambda each: each.total_bytes or 0, default=None)
    if heaviest is not None and heaviest.matters:
        from spillscan.occupancy.text import footprint_line

        yield footprint_line(heaviest)
    yield from words.not_checked_lines(report)


def _color(kernel: Kernel) -> str:
    if sum(kernel.spills or (0,)):
        return RED
    return YELLOW if kernel.confidence == "ambiguous" else ""


# ---- check --------------------------------------------------------------------------------------------------------


def _check(report: Report, style: Style) -> Iterator[str]:
    findings = report.open_findings
    yield from listing.finding_lines(findings, report, style)
    yield from listing.incomplete_lines(report, style)
    if findings or report.gaps:
        yield ""
    mixed = f": {words.severities(findings)}" if len({each.severity for each in findings}) > 1 else ""
    found = f"{count(len(findings), 'finding')} in {words.checked(report.build)}{mixed}"
    yield f"{count(len(report.gaps), 'gap')}: the gate cannot pass. {found}" if report.gaps else found
    yield from words.baseline_line(report)
    yield from report.details.accept
    yield from words.not_checked_lines(report)


def _diff(report: Report, style: Style) -> Iterator[str]:
    from spillscan.reports.differences import lines

    return lines(report, style)


def _matrix(report: Report, style: Style) -> Iterator[str]:
    """Archs side by side, one table per metric, the widest spread first.

    Tables have the kernels that differ, or all of them if ``style.rows`` is ``None``.
    """
    matrix = report.matrix
    assert matrix is not None
    heads = [arch or "arch?" for arch, _ in groupby(column.arch for column in matrix.columns)]
    if len(matrix.builds) > 1:
        lines = (f"in each cell: {' → '.join(matrix.builds)}", *_only_some(matrix))
        yield from (paint(line, "", style) for line in lines)
        yield ""
    for metric in matrix.metrics:
        ranked = matrix.ranked(metric)
        differing = [row for row in ranked if _differs(matrix, row, metric)]
        wanted = ranked if style.rows is None else differing
        known, equal = find_metric(metric), count(len(ranked) - len(differing), "kernel")
        yield from of_rows(
            ("kernel", *heads),
            [(words.named(row.kernel, report.names), *_matrix_cells(matrix, row, metric)) for row in wanted],
            ("kernel",),
            title=f"{known.label} ({known.unit})" if known.unit else known.label,
            empty=f"no difference in {equal}",
            notes=[f"{equal} without a difference"] if wanted and len(wanted) < len(ranked) else [],
        ).text(style, style.rows)
        yield ""
    if any(None in row.cells for row in matrix.rows):
        yield paint(f"{ABSENT} no such kernel there", DIM, style)
    if report.open_findings:
        yield paint(f"{matrix.builds[0]} → {matrix.builds[-1]}", "", style)
    yield from listing.verdict_lines(report, style, words.counted(report))


def _only_some(matrix: Matrix) -> Iterator[str]:
    """Archs that only some of the builds have, with those builds."""
    for arch, group in groupby(matrix.columns, key=lambda column: column.arch):
        there = [matrix.builds[column.build] for column in group]
        if len(there) < len(matrix.builds):
            yield f"{arch or 'arch?'}: {' → '.join(there)} only"


def _differs(matrix: Matrix, row: MatrixRow, metric: str) -> bool:
    """Whether two cells of the row have different values; unknown differs from known."""
    values = {value for value, cell in zip(matrix.values(row, metric), row.cells, strict=True) if cell is not None}
    return len(values) > 1


def _matrix_cells(matrix: Matrix, row: MatrixRow, metric: str) -> list[str]:
    """``24 → 32`` per arch; ``24`` if all builds agree."""
    texts = [
        ABSENT if cell is None else UNKNOWN if value is None else f"{value:,}"
        for value, cell in zip(matrix.values(row, metric), row.cells, strict=True)
    ]
    by_arch = groupby(zip(matrix.columns, texts, strict=True), key=lambda pair: pair[0].arch)
    cells = [[text for _, text in group] for _, group in by_arch]
    return [each[0] if len(set(each)) == 1 else " → ".join(each) for each in cells]


_LINES: dict[str, Callable[[Report, Style], Iterator[str]]] = {
    "scan": _scan,
    "check": _check,
    "diff": _diff,
    "matrix": _matrix,
}


def _portable_lines(build: Build) -> Iterator[str]:
    """``compute_90: 65 modules of PTX, 1,700 kernels, 135,774,621 B``: code without machine code yet."""
    groups: dict[tuple[str, str], list[PortableCode]] = {}
    for module in build.portable:
        groups.setdefault((module.arch or "arch unknown", module.form), []).append(module)
    for (arch, form), modules in sorted(groups.items(), key=lambda item: (natural(item[0][0]), item[0][1])):
        symbols = {symbol for module in modules for symbol in module.kernels or ()}
        known = any(module.kernels is not None for module in modules)
        kernels = count(len(symbols), "kernel") if known else "kernels unknown"
        held = f"{count(len(modules), 'module')} of {form}, {kernels}"
        yield f"{printable(arch, words.LONGEST_ARCH)}: {held}, {size(sum(module.bytes for module in modules))}"
