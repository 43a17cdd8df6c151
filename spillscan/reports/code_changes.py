"""Machine code of two builds as text: a verdict per kernel, the differences, and the growth of the code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from spillscan.model.findings import CodeChange, Hunk, Moved
from spillscan.naming import Names
from spillscan.output.nouns import count, listed
from spillscan.output.safe import printable
from spillscan.output.terminal import DIM, RED, YELLOW, Style, wrapped
from spillscan.reports.report import Report
from spillscan.reports.table import Column, Line, Table
from spillscan.reports.words import cell, label_of

_COLORS = {"differs": RED, "not compared": YELLOW, "identical": DIM}
_HUNKS = 3
"""Hunks shown per kernel."""
_OPCODES = 4
"""Opcodes named per hunk."""


def summary(report: Report) -> str:
    """``code: 2 differ, 1 identical, 0 not compared``; empty if code was not compared."""
    if report.code_changes is None:
        return ""
    verdicts = Counter(each.verdict for each in report.code_changes)
    return (
        f"code of {count(len(report.code_changes), 'pair')}: {verdicts['differs']:,} differ,"
        f" {verdicts['identical']:,} identical, {verdicts['not compared']:,} not compared"
    )


def text_lines(report: Report, style: Style) -> Iterator[str]:
    """One row per kernel that has reasons to show, its instruction diff if requested, and the counts."""
    if report.code_changes is None:
        return
    changes = [each for each in report.code_changes if each.reasons]
    shown = changes[: style.rows]
    if shown:
        yield ""
        yield from _table(shown, len(changes) - len(shown), report.names).text(style)
    for each in (each for each in shown if each.text):
        yield ""
        yield f"{label_of(each.change.kernel, report.names)}:"
        yield from (printable(f"  {line}") for line in each.text)
    yield from ("", summary(report))
    reasons = Counter(each.reasons[0] for each in report.code_changes if each.verdict == "not compared")
    lines = [f"not compared, {count(number, 'kernel')}: {reason}" for reason, number in reasons.most_common(_HUNKS)]
    yield from wrapped(lines, style)


def _table(shown: Sequence[CodeChange], hidden: int, names: Names) -> Table[CodeChange]:
    """A row per kernel, with reasons below it, and of few kernels the first hunks."""
    rows: list[CodeChange | Line] = []
    for each in shown:
        below = ["; ".join(each.reasons)]
        below += map(hunk_line, each.hunks[:_HUNKS]) if len(shown) <= _HUNKS else ()
        rows += [each, *(Line(f"  {text}", DIM) for text in below)]
    columns: list[Column[CodeChange]] = [
        Column("kernel", None, lambda each: cell(each.change.kernel, names), True),
        Column("arch", None, lambda each: each.change.kernel.key.arch or "?", True),
        Column("code", None, lambda each: each.verdict, True),
        Column("instructions", None, _instructions),
    ]
    return Table(columns=columns, rows=rows, hidden=hidden, counted="kernel", color=lambda each: _COLORS[each.verdict])


def _instructions(change: CodeChange) -> str:
    before, after = change.instructions
    if after is None:
        return "?"
    return f"{after:,}" if before == after else f"{before or 0:,} → {after:,}"


def code_lines(change: CodeChange) -> list[str]:
    """Verdict, reasons and first hunks of one kernel."""
    return [change.verdict, *change.reasons, *map(hunk_line, change.hunks[:_HUNKS])]


def hunk_line(hunk: Hunk) -> str:
    """``gemm.cu:31: FFMA 8 → 16; IMAD (2 altered)``."""
    altered = ", ".join(f"{name} ({number:,} altered)" for name, number in hunk.altered[:_OPCODES])
    return f"{hunk.place or 'lines unknown'}: {'; '.join(filter(None, (moves(hunk.opcodes), altered)))}"


def moves(moved: Sequence[Moved]) -> str:
    """``FFMA 8 → 16, LDG 4 → 6 and 2 more``."""
    shown = [f"{name} {before:,} → {after:,}" for name, before, after in moved[:_OPCODES]]
    return listed(shown, len(moved) - _OPCODES)
