"""GitHub Actions annotations: workflow commands, as many as the runner shows, worst first.

Limits and escapes follow actions/runner (``ExecutionContext.cs``, ``ActionCommand.cs``): 10 annotations per type and
step, 4,096 characters per message; ``%``, CR and LF are escaped, in properties also ``:`` and ``,``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from spillscan.model import Finding, Severity
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.output.terminal import Style
from spillscan.reports.gaps import gap_lines
from spillscan.reports.report import GATE_KINDS, Report
from spillscan.reports.words import LONGEST_ARCH, fields_of, step_facts, summary

FORMAT = "github"
HELP = "GitHub annotations, 10 of each severity, worst first"
KINDS = GATE_KINDS

SHOWN = 10
"""Annotations per type that the runner keeps for a step."""
_LONGEST = 4096
_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}


_Annotation = tuple[Severity, str, str]
"""Severity, properties and text."""


def render(report: Report, style: Style) -> Iterator[str]:
    """One workflow command per line: gaps, baseline issues, then findings.

    If there are more than the runner shows, the last notice says so.
    """
    shown: Counter[Severity] = Counter()
    left_out: Counter[Severity] = Counter()
    for severity, properties, text in (*_of_input(report), *_of_findings(report)):
        if shown[severity] == SHOWN - (severity == "note"):  # the last notice counts the rest
            left_out[severity] += 1
            continue
        shown[severity] += 1
        yield f"::{_COMMANDS[severity]} {properties}::{_data(text)}\n"
    if left_out:
        rest = ", ".join(count(number, severity) for severity, number in left_out.items())
        yield f"::notice title=spillscan::{count(len(report.open_findings), 'finding')}; not shown here: {rest}\n"
    yield from (f"{_data(each)}\n" for each in report.details.accept)
    if not report.open_findings and not report.gaps:
        yield f"spillscan: no findings in {_data(summary(report.build).splitlines()[0])}\n"


def _of_input(report: Report) -> Iterator[_Annotation]:
    """Gaps, accepted gaps and issues of the baseline, which have no place in a source."""
    if report.gaps:
        yield "error", "title=spillscan%3A incomplete input", "\n".join(gap_lines(report.gaps, report.names))
    if report.accepted:
        yield "note", "title=spillscan%3A accepted gaps", "\n".join(gap_lines(report.accepted, report.names))
    for issue in report.of_baseline[: SHOWN // 2]:
        yield issue.severity, f"title=spillscan%3A {issue.code}", printable(issue.message)


def _of_findings(report: Report) -> Iterator[_Annotation]:
    for finding in report.open_findings:
        fields = fields_of(finding, report)
        arch = printable(finding.kernel.key.arch or "arch unknown", LONGEST_ARCH)
        title = _property(f"{report.names.of(finding.kernel.named_by)} ({arch}) [{finding.rule}]")
        line = "" if fields.place.line is None else f"line={fields.place.line},"
        properties = f"file={_property(fields.place.path)},{line}title={title}"
        yield finding.severity, properties, _message(finding, report, fields.detail)


def _message(finding: Finding, report: Report, message: str) -> str:
    """``message``, followed by cause, fixes and next command if ``finding`` is the first of its family."""
    for step in report.details.steps:
        for heading, text in step_facts(step) if step.finding is finding else ():
            if len(message) + len(heading) + len(text) + 3 <= _LONGEST:
                message += f"\n{heading}: {text}"
    return message


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
