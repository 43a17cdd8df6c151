"""SARIF 2.1.0 (OASIS standard, errata 01) for code scanning, within GitHub's limits.

GitHub's limits (docs: "SARIF support for code scanning"): 10 MB after gzip; 25,000 results per run, of which the 5,000
most severe are kept; 25,000 rules; 1,024 characters per description; no empty strings; every result needs a location;
only the fingerprint ``primaryLocationLineHash`` counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from spillscan import __version__
from spillscan.judging.places import log_path
from spillscan.judging.rule_docs import SITE, address, explanations
from spillscan.judging.rules import all_rules
from spillscan.model import Finding, Issue, Kernel, Rule
from spillscan.naming import Names
from spillscan.output.markdown import code
from spillscan.output.nouns import count
from spillscan.output.records import array, harmless
from spillscan.output.safe import printable
from spillscan.output.terminal import Style
from spillscan.reports.gaps import merged
from spillscan.reports.report import GATE_KINDS, Report
from spillscan.reports.words import family_of, fields_of, label_of, step_facts, step_markdown

FORMAT = "sarif"
HELP = "SARIF 2.1.0 for code scanning"
KINDS = GATE_KINDS

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 25_000
"""Results per run that GitHub accepts."""
_MOST_NOTIFICATIONS = 100
_LONGEST_DESCRIPTION = 1024
_LONGEST_NAME = 200
"""Longer symbols and full names are omitted; fingerprint and short name remain."""
_STATES = {"new": "new", "worse": "updated", "better": "updated", "known": "unchanged"}
_PROBLEMS = {"error": "error", "warning": "warning", "note": "recommendation"}
_PLACEHOLDER = re.compile(r"\{(\d+)\}")


def render(report: Report, style: Style) -> Iterator[str]:
    """One log with one run, one result per line."""
    yield f'{{"$schema": "{SCHEMA}",\n "version": "2.1.0",\n "runs": [{{\n'
    driver = {
        "name": "spillscan",
        "semanticVersion": __version__,
        "version": __version__,
        "informationUri": SITE,
    }
    yield f'  "tool": {{"driver": {json.dumps(driver)[:-1]}, "rules": '
    yield from array((json.dumps(_rule(rule, report)) for rule in all_rules().values()), "   ")
    yield f'}}}},\n  "invocations": [{harmless(json.dumps(_invocation(report)))}],\n'
    yield '  "columnKind": "unicodeCodePoints",\n  "results": '
    results = (_result(report, finding) for finding in report.findings[:MOST_RESULTS])
    yield from array((json.dumps(result) for result in results), "   ")
    yield "\n }]\n}\n"


def _rule(rule: Rule, report: Report) -> dict[str, Any]:
    about = explanations("rules")[rule.id]
    plain = [f"{title}: {text}" for title, text in about.parts.items()]
    marked = [f"**{title}**\n\n{text}" for title, text in about.parts.items()]
    for step in (each for each in report.details.steps if each.finding.rule == rule.id):
        label = label_of(step.kernel, report.names)
        lines = (f"  {heading}: {text}" for heading, text in step_facts(step))
        plain.append("\n".join((f"What to do here: {label}", *lines)))
        lines = (f"  - {each}" for each in step_markdown(step))
        marked.append("\n".join((f"**What to do here**: {code(label)}", "", *lines)))
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": f"{about.title}."},
        "fullDescription": {"text": about.parts["What it means"][:_LONGEST_DESCRIPTION]},
        "helpUri": address("rules", rule.id),
        "help": {
            "text": "\n\n".join(plain),
            "markdown": "\n\n".join(marked),
        },
        "defaultConfiguration": {"level": rule.severity},
        "properties": {
            "tags": ["cuda", "performance"],
            "precision": "very-high",
            "problem.severity": _PROBLEMS[rule.severity],
        },
    }


def _result(report: Report, finding: Finding) -> dict[str, Any]:
    fields = fields_of(finding, report)
    place = fields.place
    line = place.line or 1  # GitHub rejects results without a line
    return {
        "ruleId": fields.rule,
        "level": fields.severity,
        "message": {"text": _text(fields.text)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {
                        "uri": place.uri,
                        **({} if place.is_absolute else {"uriBaseId": "%SRCROOT%"}),
                    },
                    "region": {"startLine": line, "startColumn": 1, "endLine": line},
                },
                "logicalLocations": [_function(finding.kernel, report.names)],
            }
        ],
        "partialFingerprints": dict.fromkeys(("primaryLocationLineHash", "spillscan/v1"), fields.fingerprint),
        **_state(report, finding),
        "properties": _properties(finding.kernel, report.names),
    }


def _state(report: Report, finding: Finding) -> dict[str, Any]:
    """``baselineState`` and suppressions of a result.

    The state is the one from the baseline; regressions of a diff are new.
    """
    state = _STATES.get(finding.baseline_state or ("new" if report.kind == "diff" else ""))
    known: dict[str, Any] = {"baselineState": state} if state else {}
    if finding.baseline_state == "suppressed":
        reason = printable(finding.suppression or "", 600)
        note = {"justification": reason} if reason else {}
        known["suppressions"] = [{"kind": "external", "status": "accepted", **note}]
    return known


def _function(kernel: Kernel, called: Names) -> dict[str, str]:
    names = {"fullyQualifiedName": kernel.name, "decoratedName": kernel.key.symbol}
    known = {key: printable(name) for key, name in names.items() if 0 < len(name) <= _LONGEST_NAME}
    return {"kind": "function", "name": called.of(kernel.named_by), **known}


def _properties(kernel: Kernel, called: Names) -> dict[str, str]:
    """Properties by which viewers can group results."""
    arch = printable(kernel.key.arch or "unknown")
    return {"arch": arch, "role": kernel.role, "family": family_of(kernel, called)}


def _invocation(report: Report) -> dict[str, Any]:
    """Result of the run: whether the input was complete, with issues and gaps as notifications."""
    notes = [_notification(report, issue) for issue in report.build.issues[:_MOST_NOTIFICATIONS]]
    known = {(issue.code, issue.origin) for issue in report.build.issues}
    notes += [
        {"level": "error", "message": {"text": _text(each.text)}, "descriptor": {"id": each.code}}
        for each in merged(report.gaps, report.names)[:_MOST_NOTIFICATIONS]
        if (each.code, each.gap.origin) not in known
    ]
    if len(report.findings) > MOST_RESULTS:
        text = f"only the {MOST_RESULTS:,} most severe of {count(len(report.findings), 'finding')} are listed"
        notes.append({"level": "warning", "message": {"text": text}})
    return {"executionSuccessful": not report.gaps, "toolExecutionNotifications": notes}


def _notification(report: Report, issue: Issue) -> dict[str, Any]:
    text = _text(printable(issue.message, 600)) or issue.code
    note: dict[str, Any] = {"level": issue.severity, "message": {"text": text}}
    if issue.origin is not None:
        line = "" if issue.origin.line is None else f":{issue.origin.line}"
        note["message"]["text"] = f"{_text(printable(log_path(issue.origin.input, report.tree)))}{line}: {text}"
    return {**note, "descriptor": {"id": issue.code}}


def _text(text: str) -> str:
    """Plain message, with embedded links and placeholders escaped (SARIF 2.1.0, 3.11.5 and 3.11.6)."""
    if "](" in text:
        text = re.sub(r"([\[\]\\])", r"\\\1", text)
    return _PLACEHOLDER.sub(r"{{\1}}", text)
