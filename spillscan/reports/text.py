"""Tables for people: worst first, the tail folded, unknown shown as unknown."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from spillscan.model import Change, Finding, Kernel
from spillscan.names import display_name
from spillscan.reports import ALL_KINDS, Report, Style
from spillscan.reports._table import BOLD, DIM, GREEN, RED, YELLOW, Row, clean, fold, paint, table
from spillscan.reports._words import count, metric_name, summary
from spillscan.residency.footprint import Footprint
from spillscan.residency.summary import Summary, summarise
from spillscan.residency.text import footprint_line

FORMAT = "text"
HELP = "tables, worst first (the default)"
KINDS = ALL_KINDS

NOT_SAID, UNSURE = "-", "?"

_SPARE = ("cmem", "bar", "stack", "smem")
_LEFT = ("kernel", "arch", "limited by", "in loops", "unit")
_DIFF_COLUMNS = ("kernel", "arch", "change", "metric", "before → after")


def render(report: Report, style: Style) -> Iterator[str]:
    """The report as lines of text no wider than the style's width where the names can be cut."""
    parts = {"scan": _scan, "check": _check, "diff": _diff}[report.kind](report, style)
    for line in parts:
        yield line + "\n"


# ---- scan ---------------------------------------------------------------------------------------------------------


def damage(kernel: Kernel) -> tuple[object, ...]:
    """Sort key: most spilled bytes, then most registers, first."""
    usage, key = kernel.usage, kernel.key
    return (
        -sum(kernel.spills or (0,)),
        -(usage.registers or 0),
        -(usage.stack_bytes or 0),
        key.symbol,
        key.arch or "",
        key.unit,
    )


def _scan(report: Report, style: Style) -> Iterator[str]:
    kernels = sorted(report.build.kernels, key=damage)
    shown = kernels if style.rows is None else kernels[: style.rows]
    header = ["kernel", "arch", "regs", "spill st", "spill ld", "stack", "smem", "cmem", "bar", "occ", "limited by"]
    inputs = len({kernel.origins[0].input for kernel in kernels if kernel.origins})
    units = inputs > 1 or any(kernel.key.unit for kernel in shown)
    dumps = any(kernel.sass for kernel in shown)
    summaries = [summarise(kernel.usage, kernel.key.arch, report.launches.launch_of(kernel)) for kernel in shown]
    rows: list[Row] = [
        (
            [
                *_cells(kernel),
                *_occupancy(kernel, summary),
                *([_in_loops(kernel)] if dumps else []),
                *([_unit(kernel, inputs)] if units else []),
            ],
            _color(kernel),
        )
        for kernel, summary in zip(shown, summaries, strict=True)
    ]
    columns = [*header, *(["in loops"] if dumps else []), *(["unit"] if units else [])]
    yield from table(columns, rows, style, left=_LEFT, spare=_SPARE)
    yield from fold(len(kernels) - len(shown), style)
    yield ""
    yield summary(report.build)
    if any(found.assumed and found.occupancy for found in summaries):
        yield "≤ at the best block size: a log does not say how kernels are launched (--launch 'GLOB=THREADS' does)"
    heaviest = max((found.local_memory for found in summaries if found.local_memory), key=_reserved, default=None)
    if heaviest is not None and heaviest.matters:
        yield footprint_line(heaviest)


def _reserved(local: Footprint) -> int:
    return local.total_bytes or 0


def _occupancy(kernel: Kernel, summary: Summary) -> list[str]:
    if kernel.role == "function" or summary.occupancy is None:
        return [NOT_SAID, NOT_SAID]
    return [summary.cells["occupancy"].replace(" ", ""), summary.cells["limiter"]]


def _unit(kernel: Kernel, inputs: int) -> str:
    """The object that the kernel was compiled into; else, of several inputs, the one that names it."""
    if kernel.key.unit or inputs <= 1 or not kernel.origins:
        return kernel.key.unit or NOT_SAID
    return f"({posixpath.basename(kernel.origins[0].input)})"


def _in_loops(kernel: Kernel) -> str:
    """``48 to depth 2``: spill instructions inside loops, and how deep the deepest stand."""
    if kernel.sass is None:
        return NOT_SAID
    looping = kernel.sass.local.spills_in_loops
    return f"{sum(looping.values()):,} to depth {max(looping)}" if looping else "0"


def _cells(kernel: Kernel) -> list[str]:
    usage = kernel.usage
    missing = UNSURE if kernel.confidence == "ambiguous" else NOT_SAID

    def cell(value: int | None) -> str:
        return missing if value is None else f"{value:,}"

    banks = usage.constant_bytes
    role = {"entry": "", "function": " (function)", "unknown": " (?)"}[kernel.role]
    return [
        display_name(kernel.key.symbol) + role,
        kernel.key.arch or missing,
        cell(usage.registers) + ("*" if kernel.final is False and usage.registers is not None else ""),
        cell(kernel.spills[0] if kernel.spills else None),
        cell(kernel.spills[1] if kernel.spills else None),
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
    yield from _findings(report.findings, style)
    found = count(len(report.findings), "finding") if report.findings else "no findings"
    yield f"{found} in {summary(report.build)}"


def _findings(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    shown = findings if style.rows is None else findings[: style.rows]
    for finding in shown:
        kernel = finding.kernel
        place = f"{clean(str(finding.origin))}: " if finding.origin else ""
        color = {"error": RED, "warning": YELLOW, "note": DIM}[finding.severity]
        name = clean(display_name(kernel.key.symbol))
        unit = f", {clean(kernel.key.unit)}" if kernel.key.unit else ""
        where = f" ({clean(kernel.key.arch or 'arch unknown')}{unit})"
        severity = paint(finding.severity, color, style)
        yield f"{place}{severity}: {name}{where}: {clean(finding.message)} [{finding.rule}]"
    yield from fold(len(findings) - len(shown), style)


# ---- diff ---------------------------------------------------------------------------------------------------------


def _diff(report: Report, style: Style) -> Iterator[str]:
    changes = report.changes
    shown = changes if style.rows is None else changes[: style.rows]
    rows = [row for change in shown for row in _change_rows(change)]
    if rows:
        yield from table(_DIFF_COLUMNS, rows, style, left=_DIFF_COLUMNS)
        yield from fold(len(changes) - len(shown), style)
        yield ""
    states = {state: sum(change.state == state for change in changes) for state in ("changed", "added", "removed")}
    unchanged = len(report.build.kernels) - states["changed"] - states["added"]
    yield ", ".join(f"{count:,} {state}" for state, count in states.items()) + f", {unchanged:,} unchanged"
    errors = [finding for finding in report.findings if finding.severity == "error"]
    if errors:
        yield paint(f"{count(len(errors), 'regression')}:", BOLD, style)
        yield from _findings(errors, style)


def _change_rows(change: Change) -> Iterator[Row]:
    kernel = change.after or change.before
    assert kernel is not None
    name, arch = display_name(kernel.key.symbol), kernel.key.arch or NOT_SAID
    name += " (function)" if kernel.role == "function" else ""
    if change.state != "changed":
        usage = kernel.usage
        registers = f"{usage.registers} registers" if usage.registers is not None else "registers not said"
        spills = f", spills {usage.spill_bytes:,} B" if usage.spill_bytes else ""
        color = RED if spills and change.state == "added" else ""
        yield [name, arch, change.state, "", registers + spills], color
        return
    for index, (metric, before, after) in enumerate(change.metrics):
        worse = (after or 0) > (before or 0)
        important = metric.startswith("spill") or metric == "registers"
        color = (RED if worse else GREEN) if important else ""
        delta = (after or 0) - (before or 0)
        unit = " B" if "bytes" in metric else ""
        figures = f"{before or 0:,} → {after or 0:,}{unit} ({delta:+,})"
        lead = [name, arch, "changed"] if index == 0 else ["", "", ""]
        yield [*lead, metric_name(metric), figures], color
