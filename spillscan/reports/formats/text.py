"""Tables for people: worst first, the rest folded, unknown values marked as unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from spillscan.model import Build, Kernel
from spillscan.model.symbols import natural
from spillscan.output.nouns import count, size
from spillscan.output.safe import printable
from spillscan.output.terminal import RED, YELLOW, Row, Style, fold, hung, table
from spillscan.reports import listing, words
from spillscan.reports.groups import Group
from spillscan.reports.report import ALL_KINDS, Report

if TYPE_CHECKING:
    from spillscan.model.code import PortableCode
    from spillscan.reports.kernels import KernelRow

FORMAT = "text"
HELP = "tables, worst first (default)"
KINDS = ALL_KINDS

_SPARE = ("cmem", "bar", "stack", "unit", "smem", "in loops", "limited by")
"""Columns omitted on a narrow terminal, in this order."""


def render(report: Report, style: Style) -> Iterator[str]:
    """Yield the report as lines that fit the style's width if the names can be cut."""
    for line in _LINES[report.kind](report, style):
        yield line + "\n"


# ---- scan ---------------------------------------------------------------------------------------------------------


def _scan(report: Report, style: Style) -> Iterator[str]:
    from spillscan.reports.kernels import kernel_table

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
        yield "4 to 8: lower and upper bound; the code does not show which accesses are spills"
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
    yield from hung(words.not_checked_lines(report), style, indent=2)


def _diff(report: Report, style: Style) -> Iterator[str]:
    from spillscan.reports.differences import lines

    return lines(report, style)


_LINES: dict[str, Callable[[Report, Style], Iterator[str]]] = {
    "scan": _scan,
    "check": _check,
    "diff": _diff,
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
