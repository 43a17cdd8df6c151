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
from spillscan.reports.report import JUDGED, Report
from spillscan.reports.words import LONGEST_ARCH, fields_of, gap_lines, name_of, summary, way_facts

FORMAT = "github"
HELP = "GitHub annotations, 10 of each severity, worst first"
KINDS = JUDGED

SHOWN = 10
"""Annotations per type that the runner keeps for a step."""
_LONGEST = 4096
_COMMANDS: dict[Severity, str] = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report, style: Style) -> Iterator[str]:
    """One workflow command per line: gaps, baseline issues, then findings.

    If there are more than the runner shows, the last notice says so.
    """
    findings = report.open_findings
    counts = Counter(finding.severity for finding in findings)
    unknown = "\n".join(gap_lines(report.gaps, report.names))
    if unknown:
        yield f"::error title=spillscan%3A incomplete input::{_data(unknown)}\n"
    if report.accepted:
        accepted = "\n".join(gap_lines(report.accepted, report.names))
        yield f"::notice title=spillscan%3A accepted gaps::{_data(accepted)}\n"
    room: dict[Severity, int] = {"error": SHOWN - bool(unknown), "warning": SHOWN, "note": SHOWN}
    room["note"] -= bool(report.accepted)
    for issue in report.of_baseline[: SHOWN // 2]:
        yield f"::{_COMMANDS[issue.severity]} title=spillscan%3A {issue.code}::{_data(printable(issue.message))}\n"
        room[issue.severity] -= 1
    room["note"] -= any(counts[severity] > room[severity] for severity in counts)
    shown: Counter[Severity] = Counter()
    for finding in findings:
        severity = finding.severity
        if shown[severity] >= room[severity]:
            continue
        shown[severity] += 1
        fields = fields_of(finding, report)
        arch = printable(finding.kernel.key.arch or "arch unknown", LONGEST_ARCH)
        title = f"{name_of(finding.kernel, report.names)} ({arch}) [{finding.rule}]"
        line = "" if fields.place.line is None else f"line={fields.place.line},"
        properties = f"file={_property(fields.place.path)},{line}title={_property(title)}"
        yield f"::{_COMMANDS[severity]} {properties}::{_data(_message(finding, report, fields.detail))}\n"
    rest = [f"{number - shown[name]:,} {name}s" for name, number in counts.items() if number > shown[name]]
    if rest:
        text = f"{count(len(findings), 'finding')}; not shown here: {', '.join(rest)}"
        yield f"::notice title=spillscan::{_data(text)}\n"
    if not findings and not unknown:
        yield f"spillscan: no findings in {_data(summary(report.build).splitlines()[0])}\n"


def _message(finding: Finding, report: Report, message: str) -> str:
    """``message``, followed by cause, fixes and next command if ``finding`` is the first of its family."""
    for way in report.details.ways:
        for heading, text in way_facts(way) if way.finding is finding else ():
            if len(message) + len(heading) + len(text) + 3 <= _LONGEST:
                message += f"\n{heading}: {text}"
    return message


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
