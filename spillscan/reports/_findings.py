"""Findings for people: a line each, as compilers write theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from spillscan.model import Finding
from spillscan.output.table import BOLD, DIM, RED, YELLOW, clean, fold, paint
from spillscan.policy import SEVERITIES
from spillscan.reports import Report, Style
from spillscan.reports._words import count, label_of, message_of


def finding_lines(findings: Sequence[Finding], style: Style) -> Iterator[str]:
    """``build.log:12: error: gemm<8> (sm_80): spills … [spill]``; no more lines than the style has rows."""
    shown = findings if style.rows is None else findings[: style.rows]
    for finding in shown:
        place = f"{clean(str(finding.origin))}: " if finding.origin else ""
        color = {"error": RED, "warning": YELLOW, "note": DIM}[finding.severity]
        severity = paint(finding.severity, color, style)
        state = f", {finding.baseline_state}" if finding.baseline_state else ""
        yield f"{place}{severity}: {label_of(finding.kernel)}: {message_of(finding)} [{finding.rule}{state}]"
    yield from fold(len(findings) - len(shown), style)


def baseline_line(report: Report) -> Iterator[str]:
    """``baseline: 1 new, 1 worse, 40 outstanding``: only what there is."""
    if report.baseline is not None:
        counts = [f"{number:,} {state}" for state, number in report.baseline.counts().items() if number]
        yield f"baseline: {', '.join(counts) or 'nothing recorded, nothing found'}"


def regression_lines(report: Report, style: Style) -> Iterator[str]:
    """What got worse between builds; notes only where they count, since their figures stand in the table."""
    findings = report.open_findings
    if not findings:
        yield from baseline_line(report)
        return
    shown = [finding for finding in findings if finding.severity != "note" or report.fail_on == "note"]
    numbers = Counter(finding.severity for finding in findings)
    tally = ", ".join(count(numbers[severity], severity) for severity in reversed(SEVERITIES) if numbers[severity])
    hidden = "" if len(shown) == len(findings) else " (--fail-on note lists the notes)"
    yield paint(tally + hidden + (":" if shown else ""), BOLD, style)
    yield from finding_lines(shown, style)
    yield from baseline_line(report)
