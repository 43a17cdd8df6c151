"""Tables for people: worst first, the tail folded, unknown shown as unknown."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from spillscan.judging.places import source_of
from spillscan.model import Build, Kernel
from spillscan.model.build import damage
from spillscan.model.figures import BY_NAME, figure
from spillscan.model.symbols import natural
from spillscan.naming import Names
from spillscan.occupancy.summary import Summary, summarise
from spillscan.output.nouns import count, size
from spillscan.output.safe import printable
from spillscan.output.terminal import DIM, GREEN, RED, YELLOW, Row, Style, fold, paint, table
from spillscan.reports import listing, words
from spillscan.reports.groups import INSTANCES, By, Group, archs_cell, grouped
from spillscan.reports.report import ALL_KINDS, Report

if TYPE_CHECKING:
    from spillscan.judging.compare.matrix import KernelRow, Matrix
    from spillscan.model.code import PortableCode

FORMAT = "text"
HELP = "tables, worst first (default)"
KINDS = (*ALL_KINDS, "matrix")

NOT_SAID, UNSURE = "-", "?"

_SPARE = ("cmem", "bar", "stack", "unit", "smem", "in loops", "limited by")
_LEFT = ("kernel", "arch", "limited by", "in loops", "unit")


def render(report: Report, style: Style) -> Iterator[str]:
    """The report as lines of text no wider than the style's width where the names can be cut."""
    for line in _LINES[report.kind](report, style):
        yield line + "\n"


# ---- scan ---------------------------------------------------------------------------------------------------------


_FEW = 4
"""Rows of which families would take too many for their titles."""
_SEVERAL = 16
"""Kernels that are looked at for a row: as many as a kernel has archs."""


def _scan(report: Report, style: Style) -> Iterator[str]:
    kernels = [kernel for kernel in report.build.kernels if not kernel.is_helper]
    many = style.rows is not None and _FEW < style.rows < len(kernels)
    by: By = report.by or ("family" if many and not report.sort else "kernel")
    order = _order(report.sort)
    alike = _Alike(report)
    listed = [] if by == "kernel" else list(_of_groups(grouped(kernels, by, report.names), style.rows, alike))
    if listed:
        rowed = [row for _, several in listed for row in several]
    else:
        ranked = (
            sorted(kernels, key=order) if style.rows is None else nsmallest(_SEVERAL * style.rows, kernels, key=order)
        )
        rowed = alike.rows(ranked, style.rows)
    shown = [row[0] for row in rowed]
    header = ["kernel", "arch", "regs", "spill st", "spill ld", "stack", "smem", "cmem", "bar", "occ", "limited by"]
    inputs = len({kernel.origins[0].input for kernel in kernels if kernel.origins})
    units = inputs > 1 or any(kernel.key.unit for kernel in shown)
    dumps = any(kernel.sass for kernel in shown)
    live = any(kernel.sass and kernel.sass.live_peak for kernel in shown)
    summaries = [alike.summary(kernel) for kernel in shown]

    def row(archs: Sequence[Kernel], under: bool) -> Row:
        kernel = archs[0]
        more = [*([_in_loops(kernel)] if dumps else []), *([_live(kernel)] if live else [])]
        more += [_unit(archs, inputs, report)] if units else []
        occupancy = _occupancy(kernel, alike.summary(kernel))
        return [words.cell(kernel, report.names, under=under), *_cells(archs), *occupancy, *more], _color(kernel)

    columns = [*header, *(["in loops"] if dumps else []), *(["live"] if live else []), *(["unit"] if units else [])]
    rows: list[Row] = [] if listed else [row(archs, under=False) for archs in rowed]
    for group, several in listed:
        rows += [([group.title(style.width)], "")] if len(group.kernels) > 1 else []
        rows += [row(archs, group.family) for archs in several]
    copies = units and any(id(kernel) in report.libraries for kernel in shown)
    spare = [name for name in _SPARE if name != "unit" or not copies]
    yield from table(columns, rows, style, left=_LEFT, spare=spare, caption=bool(listed))
    yield from fold(len(kernels) - sum(map(len, rowed)), style)
    yield ""
    for line in _below(report, shown, summaries):
        yield from wrap(line, style.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _below(report: Report, shown: Sequence[Kernel], summaries: Sequence[Summary]) -> Iterator[str]:
    """The sentences under the table."""
    yield from words.summary(report.build).splitlines()
    yield from _portable_lines(report.build)
    if any(bounds and bounds[0] != bounds[1] for bounds in (kernel.own_spill_bounds for kernel in shown)):
        yield "4 to 8: lower and upper bound; the code does not say which accesses are spills"
    known = [found for found in summaries if found.occupancy]
    if any(found.assumed for found in known):
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


def _order(sort: str | None) -> Callable[[Kernel], tuple[Any, ...]]:
    """The sort key of kernels: damage, or a figure, the largest first, what is not known last."""
    get = BY_NAME[sort].get if sort else None
    if get is None:
        return damage

    def order(kernel: Kernel) -> tuple[Any, ...]:
        value = get(kernel)
        return (value is None, -value if isinstance(value, int) else 0, *damage(kernel))

    return order


class _Alike:
    """Archs of one kernel on one row where all that the row shows is equal."""

    def __init__(self, report: Report) -> None:
        self._launches = report.launches

    def summary(self, kernel: Kernel) -> Summary:
        """What residency knows of it."""
        return summarise(kernel.usage, kernel.key.arch, self._launches.launch_of(kernel))

    def rows(self, kernels: Iterable[Kernel], most: int | None) -> list[list[Kernel]]:
        """The first rows of kernels in that order, at most so many."""
        found: list[list[Kernel]] = []
        alike: dict[object, list[list[Kernel]]] = {}
        for kernel in kernels:
            residency = _occupancy(kernel, self.summary(kernel))
            key = (kernel.named_by, kernel.role, kernel.usage, kernel.final, kernel.confidence, *residency)
            rows = alike.setdefault((*key, kernel.spill_bounds, _live(kernel)), [])
            row = next((row for row in rows if _in_loops(row[0]) == _in_loops(kernel)), None)  # takes long: the last
            if row is not None:
                row.append(kernel)
            elif most is None or len(found) < most:
                found.append([kernel])
                rows.append(found[-1])
        return found


def _of_groups(groups: Iterable[Group], most: int | None, alike: _Alike) -> Iterator[tuple[Group, list[list[Kernel]]]]:
    """The groups of which so many rows in all are shown: of each the worst, and of those that spill several."""
    room = most
    for group in () if room == 0 else groups:
        if room is None:
            yield group, alike.rows(group.kernels, None)
            continue
        wanted = min(room, max(1, min(INSTANCES, group.spilling)))
        worst = alike.rows(group.kernels[: min(_SEVERAL * wanted, group.spilling or _SEVERAL)], wanted)
        room -= len(worst)
        yield group, worst
        if not room:
            return


def _occupancy(kernel: Kernel, summary: Summary) -> list[str]:
    if kernel.role == "function" or summary.occupancy is None:
        return [NOT_SAID, NOT_SAID]
    return [summary.cells["occupancy"].replace(" ", ""), summary.cells["limiter"].replace(" slots", "s")]


def _unit(archs: Sequence[Kernel], inputs: int, report: Report) -> str:
    """The library of one of several copies; the source that the kernel was compiled from, else the object; else, of
    several inputs, the one that names it."""
    found = set()
    for kernel in archs:
        unit = report.libraries.get(id(kernel)) or source_of(kernel) or kernel.key.unit
        if unit or inputs <= 1 or not kernel.origins:
            found.add(posixpath.basename(unit) or NOT_SAID)
        else:
            found.add(f"({posixpath.basename(kernel.origins[0].input)})")
    return found.pop() if len(found) == 1 else count(len(found), "file")


def _in_loops(kernel: Kernel) -> str:
    """``48 to depth 2``: spill instructions inside loops, and how deep the deepest stand."""
    if kernel.sass is None:
        return NOT_SAID
    looping = kernel.sass.local.spills_in_loops
    return f"{sum(looping.values()):,} to depth {max(looping)}" if looping else "0"


def _live(kernel: Kernel) -> str:
    """``≥30``: at least so many registers are live at once."""
    peak = kernel.sass.live_peak if kernel.sass else None
    return NOT_SAID if peak is None else f"{'≥' * peak.at_least}{peak.registers:,}"


def _cells(archs: Sequence[Kernel]) -> list[str]:
    kernel = archs[0]
    usage = kernel.usage
    missing = UNSURE if kernel.confidence == "ambiguous" else NOT_SAID

    def cell(value: int | None) -> str:
        return missing if value is None else f"{value:,}"

    banks = usage.constant_bytes
    return [
        archs_cell((each.key.arch for each in archs), missing),
        cell(usage.registers) + ("*" if kernel.final is False and usage.registers is not None else ""),
        *words.spills_of(kernel, missing),
        cell(usage.stack_bytes),
        cell(usage.shared_bytes),
        cell(None if banks is None else sum(size for _, size in banks)),
        cell(usage.barriers),
    ]


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
    """Archs side by side, a table a metric, the widest spread first: the kernels in which it differs, or all
    of them where all rows are wanted."""
    from spillscan.judging.compare.matrix import ABSENT

    matrix = report.matrix
    assert matrix is not None
    heads = [arch or "arch?" for arch, _ in groupby(column.arch for column in matrix.columns)]
    if len(matrix.builds) > 1:
        yield from (paint(line, "", style) for line in _legend_by_arch(matrix))
    for number, metric in enumerate(matrix.metrics):
        yield from [""] if number else []
        yield from _matrix_table(report, matrix, metric, heads, style)
    if any(None in row.cells for row in matrix.rows):
        yield paint(f"{ABSENT} no such kernel there", DIM, style)
    if report.open_findings:
        yield ""
        yield paint(f"{matrix.builds[0]} → {matrix.builds[-1]}", "", style)
    yield from listing.verdict_lines(report, style, words.counted(report))


def _legend_by_arch(matrix: Matrix) -> Iterator[str]:
    """What a cell's figures are, and which archs only some of the builds have."""
    yield (f"in each cell: {' → '.join(matrix.builds)}")
    for arch, group in groupby(matrix.columns, key=lambda column: column.arch):
        there = [matrix.builds[column.build] for column in group]
        if len(there) < len(matrix.builds):
            yield (f"{arch or 'arch?'}: {' → '.join(there)} only")
    yield ""


def _matrix_table(report: Report, matrix: Matrix, metric: str, heads: Sequence[str], style: Style) -> Iterator[str]:
    ranked = matrix.ranked(metric)
    differing = [row for row in ranked if _differs(matrix, row, metric)]
    wanted = ranked if style.rows is None else differing
    alike = _equal_rows(matrix, wanted, metric, report.names)
    shown = alike[: style.rows]
    label = figure(metric).label
    unit = f" ({figure(metric).unit})" if figure(metric).unit else ""
    equal = count(len(ranked) - len(differing), "kernel")
    if not shown:
        yield f"{label}: no difference in {equal}"
        return
    columns = ["kernel", *heads]
    rows: list[Row] = []
    for row, *others in shown:
        name = words.named(row.kernel, report.names) + (f" (+{len(others):,})" if others else "")
        cells = [name, *_matrix_cells(matrix, row, metric)]
        rows.append((cells, _spread_color(matrix.values(row, metric))))
    yield f"{label}{unit}"
    yield from table(columns, rows, style, left=("kernel", "arch"))
    yield from fold(len(wanted) - sum(map(len, shown)), style)
    if len(differing) < len(ranked) and style.rows is not None:
        yield paint(f"{equal} without a difference", DIM, style)


def _equal_rows(matrix: Matrix, rows: Sequence[KernelRow], metric: str, names: Names) -> list[list[KernelRow]]:
    """Instances of one family whose rows are equal, together."""
    found: dict[object, list[KernelRow]] = {}
    for row in rows:
        there = [cell is not None for cell in row.cells]
        key = (names.base(row.kernel.named_by), row.kernel.role, *matrix.values(row, metric), *there)
        found.setdefault(key, []).append(row)
    return list(found.values())


def _differs(matrix: Matrix, row: KernelRow, metric: str) -> bool:
    """Whether two cells hold different figures, or one holds none where another does."""
    values = {value for value, cell in zip(matrix.values(row, metric), row.cells, strict=True) if cell is not None}
    return len(values) > 1


def _matrix_cells(matrix: Matrix, row: KernelRow, metric: str) -> list[str]:
    from spillscan.judging.compare.matrix import ABSENT

    texts = [
        ABSENT if cell is None else NOT_SAID if value is None else f"{value:,}"
        for value, cell in zip(matrix.values(row, metric), row.cells, strict=True)
    ]
    by_arch = groupby(zip(matrix.columns, texts, strict=True), key=lambda pair: pair[0].arch)
    return [_chain([text for _, text in group]) for _, group in by_arch]


def _chain(texts: list[str]) -> str:
    """``24 → 32``; ``24`` where all builds agree."""
    return texts[0] if len(set(texts)) == 1 else " → ".join(texts)


def _spread_color(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    if len(known) < 2 or known[0] == known[-1]:
        return ""
    return RED if known[-1] > known[0] else GREEN


_LINES: dict[str, Callable[[Report, Style], Iterator[str]]] = {
    "scan": _scan,
    "check": _check,
    "diff": _diff,
    "matrix": _matrix,
}


def _portable_lines(build: Build) -> Iterator[str]:
    """``compute_90: 65 modules of PTX, 1,700 kernels, 135,774,621 B``: what is still to be made machine code of."""
    groups: dict[tuple[str, str], list[PortableCode]] = {}
    for module in build.portable:
        groups.setdefault((module.arch or "arch unknown", module.form), []).append(module)
    for (arch, form), modules in sorted(groups.items(), key=lambda item: (natural(item[0][0]), item[0][1])):
        symbols = {symbol for module in modules for symbol in module.kernels or ()}
        known = any(module.kernels is not None for module in modules)
        kernels = count(len(symbols), "kernel") if known else "kernels unknown"
        held = f"{count(len(modules), 'module')} of {form}, {kernels}"
        yield f"{printable(arch, words.LONGEST_ARCH)}: {held}, {size(sum(module.bytes for module in modules))}"
