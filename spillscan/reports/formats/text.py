"""Tables for people: worst first, the rest folded, unknown values marked as unknown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spillscan.model import Build
from spillscan.model.symbols import natural
from spillscan.output.nouns import count, size
from spillscan.output.safe import printable
from spillscan.output.terminal import Style, wrapped
from spillscan.reports import listing, words
from spillscan.reports.report import ALL_KINDS, Report

if TYPE_CHECKING:
    from spillscan.model.code import PortableCode
    from spillscan.reports.kernels import KernelRow

FORMAT = "text"
HELP = "tables, worst first (default)"
KINDS = ALL_KINDS


def render(report: Report, style: Style) -> Iterator[str]:
    """Yield the report as lines that fit the style's width if the names can be cut."""
    if report.kind == "diff":
        from spillscan.reports.differences import lines  # reads machine code's modules, which check does not need
    else:
        lines = _scan if report.kind == "scan" else _check
    yield from (f"{line}\n" for line in lines(report, style))


# ---- scan ---------------------------------------------------------------------------------------------------------


def _scan(report: Report, style: Style) -> Iterator[str]:
    from spillscan.reports.kernels import kernel_rows, kernel_table

    kernels = kernel_table(report, style.rows)
    yield from kernels.text(style)
    yield ""
    yield from wrapped(_below(report, kernel_rows(kernels.rows)), style, indent=2)


def _below(report: Report, shown: Sequence[KernelRow]) -> Iterator[str]:
    """Summary and legend below the table."""
    yield from words.summary(report.build).splitlines()
    yield from _portable_lines(report.build)
    if any(bounds and bounds[0] != bounds[1] for bounds in (row.kernel.own_spill_bounds for row in shown)):
        yield "4 to 8: lower and upper bound; the code does not show which accesses are spills"
    known = [row.summary for row in shown if row.summary.occupancy and row.kernel.role != "function"]
    if any(one.at_most and one.assumed for one in known):
        yield "≤ upper bound, block size unknown (--launch 'GLOB=THREADS')"
    if any(one.at_most and not one.assumed for one in known):
        yield "≤ upper bound, dynamic shared memory unknown (--launch 'GLOB=THREADS,BYTES')"
    if any(one.mark == "~" for one in known):
        yield "~ at the block size of the launch bounds"
    local = (row.summary.local_memory for row in shown if row.summary.local_memory)
    costliest = max(local, key=lambda each: each.total_bytes or 0, default=None)
    if costliest is not None and costliest.matters:
        from spillscan.occupancy.text import footprint_line

        yield footprint_line(costliest)
    yield from words.not_checked_lines(report)


# ---- check --------------------------------------------------------------------------------------------------------


def _check(report: Report, style: Style) -> Iterator[str]:
    findings = report.open_findings
    yield from listing.finding_lines(findings, report, style)
    yield from listing.incomplete_lines(report, style)
    if findings or report.gaps:
        yield ""
    mixed = f": {words.severities(findings)}" if len({each.severity for each in findings}) > 1 else ""
    head = f"{count(len(findings), 'finding')} in {words.checked(report.build)}{mixed}"
    effect = ": the gate cannot pass" * (report.fail_on != "never")
    verdict = f"{count(len(report.gaps), 'gap')}{effect}. {head}" if report.gaps else head
    yield from wrapped([verdict], style, indent=2)
    yield from words.baseline_lines(report)
    yield from report.details.accept
    yield from wrapped(words.not_checked_lines(report), style, indent=2)


def _portable_lines(build: Build) -> Iterator[str]:
    """``compute_90: 65 modules of PTX, 1,700 kernels, 135,774,621 B``: code without machine code yet."""
    groups: dict[tuple[str, str], list[PortableCode]] = {}
    for module in build.portable:
        groups.setdefault((module.arch or "arch unknown", module.form), []).append(module)
    for (arch, form), modules in sorted(groups.items(), key=lambda item: (natural(item[0][0]), item[0][1])):
        symbols = {symbol for module in modules for symbol in module.kernels or ()}
        known = any(module.kernels is not None for module in modules)
        kernels = count(len(symbols), "kernel") if known else "kernels unknown"
        content = f"{count(len(modules), 'module')} of {form}, {kernels}"
        yield f"{printable(arch, words.LONGEST_ARCH)}: {content}, {size(sum(module.bytes for module in modules))}"
