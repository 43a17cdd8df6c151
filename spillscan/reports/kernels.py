"""Kernel table that ``scan`` prints, in text and in Markdown: its rows, the worst first, and its columns."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from spillscan.judging.places import source_of
from spillscan.model import Kernel
from spillscan.model.build import damage
from spillscan.model.metrics import BY_NAME
from spillscan.naming.libraries import library_of
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.summary import Summary, summarise
from spillscan.output.markdown import code
from spillscan.output.nouns import count
from spillscan.output.terminal import RED, YELLOW
from spillscan.reports import words
from spillscan.reports.groups import INSTANCES, By, Group, archs_cell, grouped
from spillscan.reports.report import Report
from spillscan.reports.table import Column, Line, Table

_FEW = 4
"""Most rows of a table without families, whose titles would take too many of the rows."""
_SEVERAL = 16
"""Kernels examined per row: a kernel may have as many archs."""
UNKNOWN, UNSURE = "-", "?"


class KernelRow(NamedTuple):
    """One kernel, with all archs that share the row."""

    archs: Sequence[Kernel]
    summary: Summary
    """Residency at the kernel's launch."""
    under: bool = False
    """Whether the row is below the title of its family."""

    @property
    def kernel(self) -> Kernel:
        """Kernel of the first arch."""
        return self.archs[0]


def kernel_table(report: Report, most: int | None) -> Table[KernelRow]:
    """The worst kernels in at most ``most`` rows, by family if there are many more."""
    kernels = [kernel for kernel in report.build.kernels if not kernel.is_helper]
    many = most is not None and _FEW < most < len(kernels)
    by: By = report.by or ("family" if many and not report.sort else "kernel")
    rows: list[KernelRow | Line] = []
    if by == "kernel":
        order = _order(report.sort)
        ranked = sorted(kernels, key=order) if most is None else nsmallest(_SEVERAL * most, kernels, key=order)
        rows += equal_archs(ranked, report.launches, most)
    else:
        for group, several in _of_groups(grouped(kernels, by, report.names), most, report.launches):
            rows += [Line(group.title)] if len(group.kernels) > 1 else []
            rows += [row._replace(under=group.family) for row in several]
    shown = kernel_rows(rows)
    return Table(
        columns=_columns(report, shown),
        rows=rows,
        hidden=len(kernels) - sum(len(row.archs) for row in shown),
        color=lambda row: _color(row.kernel),
        caption=by != "kernel",
    )


def kernel_rows(rows: Iterable[KernelRow | Line]) -> list[KernelRow]:
    """Rows of kernels, without the titles of groups."""
    return [row for row in rows if isinstance(row, KernelRow)]


def _color(kernel: Kernel) -> str:
    if sum(kernel.spills or (0,)):
        return RED
    return YELLOW if kernel.confidence == "ambiguous" else ""


def _columns(report: Report, shown: Sequence[KernelRow]) -> list[Column[KernelRow]]:
    copies = any(id(row.kernel) in report.copies for row in shown)
    names = report.names

    def archs(row: KernelRow) -> str:
        return archs_cell((each.key.arch for each in row.archs), _missing(row))

    def name(row: KernelRow) -> str:
        return code(words.named(row.kernel, names))

    columns: list[Column[KernelRow]] = [
        Column("kernel", None, lambda row: words.cell(row.kernel, names, under=row.under), True, marked=name),
        Column("arch", None, archs, True, marked=lambda row: code(archs(row))),
        Column("regs", None, _registers),
        Column("spill st", None, lambda row: words.spills_of(row.kernel, _missing(row))[0]),
        Column("spill ld", None, lambda row: words.spills_of(row.kernel, _missing(row))[1]),
        Column("stack", None, _stack, spare=3),
        Column("smem", None, lambda row: _number(row, row.kernel.usage.shared_bytes), spare=5),
        Column("cmem", None, _constant, spare=1),
        Column("bar", None, lambda row: _number(row, row.kernel.usage.barriers), spare=2),
        Column("occ", None, lambda row: _occupancy(row)[0]),
        Column("limited by", None, lambda row: _occupancy(row)[1], True, spare=7),
    ]
    if any(row.kernel.sass for row in shown):
        columns.append(Column("in loops", None, lambda row: _in_loops(row.kernel), True, spare=6))
    if any(row.kernel.sass and row.kernel.sass.live_peak for row in shown):
        columns.append(Column("live", None, lambda row: _live(row.kernel)))
    if report.inputs > 1 or any(row.kernel.key.unit for row in shown):
        columns.append(
            Column("unit", None, lambda row: _unit(row.archs, report.inputs, report), True, 0 if copies else 4)
        )
    return columns


def _missing(row: KernelRow) -> str:
    return UNSURE if row.kernel.confidence == "ambiguous" else UNKNOWN


def _number(row: KernelRow, value: int | None) -> str:
    return _missing(row) if value is None else f"{value:,}"


def _registers(row: KernelRow) -> str:
    registers = row.kernel.usage.registers
    return _number(row, registers) + "*" * (row.kernel.final is False and registers is not None)


def _stack(row: KernelRow) -> str:
    frame = row.kernel.usage.stack_bytes
    if not row.kernel.dynamic_stack:
        return _number(row, frame)
    return f"≥{frame:,}" if frame else _missing(row)


def _constant(row: KernelRow) -> str:
    banks = row.kernel.usage.constant_bytes
    return _number(row, None if banks is None else sum(size for _, size in banks))


def _occupancy(row: KernelRow) -> tuple[str, str]:
    if row.kernel.role == "function" or row.summary.occupancy is None:
        return UNKNOWN, UNKNOWN
    cells = row.summary.cells
    limiter = cells["limiter"].replace(" slots", "s").replace("registers", "regs").replace("shared memory", "smem")
    return cells["occupancy"].replace(" ", ""), limiter


def _in_loops(kernel: Kernel) -> str:
    """``48 (depth ≤2)``: spill instructions inside loops, and their greatest loop depth."""
    if kernel.sass is None or not kernel.sass.instructions:
        return UNKNOWN
    looping = kernel.sass.local.spills_in_loops
    return f"{sum(looping.values()):,} (depth {'≤' * (len(looping) > 1)}{max(looping)})" if looping else "0"


def _live(kernel: Kernel) -> str:
    """``≥30``: most registers live at once, ``≥`` if it is a lower bound."""
    peak = kernel.sass.live_peak if kernel.sass else None
    return UNKNOWN if peak is None else f"{'≥' * peak.at_least}{peak.registers:,}"


def _unit(archs: Sequence[Kernel], inputs: int, report: Report) -> str:
    """Library of a copy, else the source, else the object; with several inputs, else the input in parentheses."""
    units = set()
    for kernel in archs:
        unit = library_of(kernel, str) or source_of(kernel) or kernel.key.unit
        if unit or inputs <= 1 or not kernel.origins:
            units.add(posixpath.basename(unit) or UNKNOWN)
        else:
            units.add(f"({posixpath.basename(kernel.origins[0].input)})")
    return units.pop() if len(units) == 1 else count(len(units), "file")


# ---- choice of rows -----------------------------------------------------------------------------------------------


def _order(sort: str | None) -> Callable[[Kernel], tuple[Any, ...]]:
    """Sort key of kernels: damage, or a metric with the largest first and unknown values last."""
    get = BY_NAME[sort].get if sort else None
    if get is None:
        return damage

    def order(kernel: Kernel) -> tuple[Any, ...]:
        value = get(kernel)
        return (value is None, -value if isinstance(value, int) else 0, *damage(kernel))

    return order


def equal_archs(kernels: Iterable[Kernel], launches: Launches, most: int | None) -> list[KernelRow]:
    """Rows of kernels in the given order, at most ``most``; archs of one kernel with equal cells share a row."""
    merged: list[tuple[list[Kernel], Summary]] = []
    alike: dict[object, list[list[Kernel]]] = {}
    for kernel in kernels:
        summary = summarise(kernel.usage, kernel.key.arch, launches.launch_of(kernel))
        key = (kernel.named_by, kernel.role, kernel.usage, kernel.final, kernel.confidence, kernel.spill_bounds,
               *_occupancy(KernelRow([kernel], summary)), _live(kernel))  # fmt: skip
        rows = alike.setdefault(key, [])
        row = next((row for row in rows if _in_loops(row[0]) == _in_loops(kernel)), None)  # slow, so compared last
        if row is not None:
            row.append(kernel)
        elif most is None or len(merged) < most:
            merged.append(([kernel], summary))
            rows.append(merged[-1][0])
    return [KernelRow(archs, summary) for archs, summary in merged]


def _of_groups(
    groups: Iterable[Group], most: int | None, launches: Launches
) -> Iterator[tuple[Group, list[KernelRow]]]:
    """Groups with their rows, at most ``most`` rows in all: the worst kernel of each, several if several spill."""
    room = most
    for group in () if room == 0 else groups:
        if room is None:
            yield group, equal_archs(group.kernels, launches, None)
            continue
        wanted = min(room, max(1, min(INSTANCES, group.spilling)))
        some = group.kernels[: min(_SEVERAL * wanted, group.spilling or _SEVERAL)]
        worst = equal_archs(some, launches, wanted)
        room -= len(worst)
        yield group, worst
        if not room:
            return
