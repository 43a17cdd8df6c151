"""Machine code of two builds as text: a verdict per kernel, the differences, and the growth of the code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from spillscan.model.findings import CodeChange, Hunk, Moved
from spillscan.output.safe import printable
from spillscan.output.terminal import DIM, RED, YELLOW, Row, Style, fold, hung, table
from spillscan.reports.report import Report
from spillscan.reports.words import cell, label_of

_COLORS = {"differs": RED, "not compared": YELLOW, "identical": DIM}
_HUNKS = 3
"""Hunks shown per kernel."""
_OPCODES = 4
"""Opcodes named per hunk."""
_KERNELS = 12
"""Kernels shown in Markdown; JSON has all."""
_KERNEL_WIDTH, _COLUMNS = 24, ("kernel", "arch", "code", "instructions", "why")


def summary(report: Report) -> str:
    """``code: 2 differ, 1 identical, 0 not compared``; empty if code was not compared."""
    if report.code_changes is None:
        return ""
    verdicts = Counter(each.verdict for each in report.code_changes)
    return (
        f"code: {verdicts['differs']:,} differ, {verdicts['identical']:,} identical,"
        f" {verdicts['not compared']:,} not compared"
    )


def text_lines(report: Report, style: Style) -> Iterator[str]:
    """One row per kernel that has reasons to show, its instruction diff if requested, and the counts."""
    if report.code_changes is None:
        return
    found = [each for each in report.code_changes if each.reasons]
    shown = found if style.rows is None else found[: style.rows]
    if shown:
        yield ""
        yield from _table(shown, report, style)
        yield from fold(len(found) - len(shown), style)
    for each in (each for each in shown if each.text):
        yield ""
        yield f"{label_of(each.change.kernel, report.names)}:"
        yield from (printable(f"  {line}") for line in each.text)
    yield ""
    yield summary(report)


def _table(shown: Sequence[CodeChange], report: Report, style: Style) -> Iterator[str]:
    rows = []
    for each in shown:
        kernel, (before, after) = each.change.kernel, each.instructions
        size_cell = "?" if after is None else f"{after:,}" if before == after else f"{before or 0:,} → {after:,}"
        cells = [cell(kernel, report.names), kernel.key.arch or "?", each.verdict, size_cell]
        rows.append((cells, _COLORS[each.verdict], "; ".join(each.reasons)))
    room = style.width - sum(max(len(str(cells[at])) for cells, _, _ in rows) for at in (1, 2)) - _KERNEL_WIDTH - 24
    fits = max(len(why) for _, _, why in rows) <= room
    lines: list[Row] = []
    for (cells, color, why), each in zip(rows, shown, strict=True):
        lines.append(([*cells, why] if fits else cells, color))
        below = [] if fits else [f"  {why}"] * bool(why)
        below += [f"  {hunk_line(hunk)}" for hunk in each.hunks[:_HUNKS]] if len(shown) <= _HUNKS else []
        lines += [([part], DIM) for part in hung(below, style, indent=4)]
    yield from table(_COLUMNS if fits else _COLUMNS[:-1], lines, style, left=("kernel", "arch", "code", "why"))


def markdown_lines(report: Report) -> list[tuple[str, tuple[str, ...]]]:
    """Kernels that differ or were not compared, as (kernel and verdict, reasons and hunks); at most ``_KERNELS``."""
    found = [each for each in report.code_changes or () if each.verdict != "identical"][:_KERNELS]
    return [
        (f"{label_of(each.change.kernel, report.names)}: {each.verdict}", tuple(code_lines(each)[1:])) for each in found
    ]


def code_lines(found: CodeChange) -> list[str]:
    """Verdict, reasons and first hunks of one kernel."""
    return [found.verdict, *found.reasons, *map(hunk_line, found.hunks[:_HUNKS])]


def hunk_line(hunk: Hunk) -> str:
    """``gemm.cu:31: FFMA 8 → 16; IMAD (2 altered)``."""
    altered = ", ".join(f"{name} ({number:,} altered)" for name, number in hunk.altered[:_OPCODES])
    return f"{hunk.place or 'lines unknown'}: {'; '.join(filter(None, (said(hunk.opcodes), altered)))}"


def said(moved: Sequence[Moved]) -> str:
    """``FFMA 8 → 16, LDG 4 → 6, 2 more``."""
    shown = [f"{name} {before:,} → {after:,}" for name, before, after in moved[:_OPCODES]]
    return ", ".join(shown + [f"{len(moved) - _OPCODES:,} more"] * (len(moved) > _OPCODES))
