"""Findings and gaps for a terminal: a line for problem matchers, and an aligned block below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spillscan.judging.places import source_place
from spillscan.model import Finding
from spillscan.output.safe import printable
from spillscan.output.terminal import BOLD, DIM, RED, YELLOW, Style, fold, paint, wrapped
from spillscan.reports.groups import shared_label
from spillscan.reports.report import Report
from spillscan.reports.words import (
    LONGEST_ARCH,
    LONGEST_NAME,
    PLACED_BY_NAME,
    alike,
    baseline_lines,
    copy_of,
    counted,
    label_of,
    lines_of,
    message_of,
    severities,
    step_facts,
)

COLORS = {"error": RED, "warning": YELLOW, "note": DIM}


def finding_lines(findings: Sequence[Finding], report: Report, style: Style) -> Iterator[str]:
    """``src/gemm.cu:50: error: gemm<8> (sm_80) spills … [spill]``, with an aligned block below it.
    Shows at most ``style.rows`` findings. If there are more, findings of a family by one rule share a line: the worst,
    and their number.
    """
    many = style.rows is not None and len(findings) > style.rows
    groups = alike(findings, report) if many or report.by else [[finding] for finding in findings]
    shown = groups[: style.rows]
    steps = {id(step.finding): step for step in report.details.steps}
    for group in shown:
        yield _finding_line(group, report, style)
        step = steps.get(id(group[0]))
        lines = lines_of(group[0], report)
        yield from block([*([("lines", lines)] if lines else []), *(step_facts(step) if step else ())], style)
    yield from fold(len(findings) - sum(map(len, shown)), style)


_HEADING = 6
"""Width of a heading in a block, in columns."""


def block(rows: Iterable[tuple[str, str]], style: Style) -> Iterator[str]:
    """``  cause   …``: rows of (heading, text), wrapped to the style's width; commands stay whole for pasting."""
    for heading, text in rows:
        line = f"  {heading:<{_HEADING}} {text}"
        yield from [printable(line)] if heading == "next" else wrapped([line], style, _HEADING + 3)


def _finding_line(group: Sequence[Finding], report: Report, style: Style) -> str:
    """One finding as a single line, never wrapped, for editors and problem matchers."""
    finding, kernel = group[0], group[0].kernel
    source = source_place(finding, report.tree)
    place = str(source) if source else printable(str(finding.origin)) if finding.origin else ""
    state = f", {finding.baseline_state}" if finding.baseline_state else ""
    family = printable(shared_label(kernel, report.by or "family", report.names), LONGEST_NAME)
    more = f" (+{len(group) - 1:,} of {family})" if len(group) > 1 else ""
    arch = printable(kernel.key.arch or "arch unknown", LONGEST_ARCH)
    unit = copy_of(kernel, report.names, report.copies.get(id(kernel), ""))
    return (
        f"{place}{': ' if place else ''}{paint(finding.severity, COLORS[finding.severity], style)}: "
        f"{report.names.of(kernel.named_by)} ({arch}{', ' if unit else ''}{unit}) {message_of(finding)}"
        f" [{finding.rule}{state}]{more}{PLACED_BY_NAME if source and source.by_name else ''}"
    )


def incomplete_lines(report: Report, style: Style) -> Iterator[str]:
    """``build.log:48: incomplete: the log ends … [truncated]`` and its fix, then gaps that the policy accepts."""
    if not report.gaps and not report.accepted:
        return  # as most builds
    from spillscan.judging.rule_docs import explanations
    from spillscan.reports.gaps import few_of_a_kind, gap_lines

    fixes = dict(explanations("gaps"))  # each is shown once
    for each in few_of_a_kind(report.gaps, report.names):
        if isinstance(each, str):
            yield paint(each, DIM, style)
            continue
        known = fixes.pop(each.code, None)  # absent if a newer release wrote the snapshot
        line = f"{each.place}incomplete: {each.text} [{each.code}]"
        yield from wrapped([line], style, color=YELLOW) if style.width <= 80 else [paint(line, YELLOW, style)]
        yield from block([("fix", known.fix)] if known else (), style)
    yield from wrapped([f"accepted gap: {line}" for line in gap_lines(report.accepted, report.names)], style, color=DIM)


def verdict_lines(report: Report, style: Style, listed: Sequence[Finding]) -> Iterator[str]:
    """Findings of a diff that its table does not show, next steps, gaps, and the number of findings."""
    yield from finding_lines(listed, report, style)
    shown = set(map(id, listed)) if style.rows is None or len(listed) <= style.rows else set()
    for step in report.details.steps:
        if id(step.finding) not in shown:
            yield paint(label_of(step.kernel, report.names), BOLD, style)
            yield from block(step_facts(step), style)
    yield from baseline_lines(report)
    yield from incomplete_lines(report, style)
    findings = report.open_findings
    if findings:
        hidden = "" if len(counted(report)) == len(findings) else " (--fail-on note --all lists the notes)"
        added = {id(change.kernel) for change in report.changes if change.state == "added"}
        yield paint(severities(findings, added) + hidden, BOLD, style)
