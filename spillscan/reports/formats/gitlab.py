"""GitLab Code Quality report: one JSON array, shown in a merge request.

Fields follow GitLab's documentation (``ci/testing/code_quality``): equal fingerprints become one entry, and paths are
relative to the repository.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from spillscan.model import Severity
from spillscan.output.records import array
from spillscan.output.terminal import Style
from spillscan.reports.gaps import gap_fields
from spillscan.reports.report import GATE_KINDS, Report
from spillscan.reports.words import Fields, fields_of

FORMAT = "gitlab"
HELP = "GitLab Code Quality report"
KINDS = GATE_KINDS

_SEVERITIES: dict[Severity | None, str] = {"error": "major", "warning": "minor", "note": "info", None: "critical"}
_TOP = 1
"""Line used if only the file is known: GitLab rejects entries without a line."""


def render(report: Report, style: Style) -> Iterator[str]:
    """JSON array with one finding per line, suppressed ones omitted.

    Includes known findings of the baseline, because GitLab compares with its own older report.
    """
    findings = (fields_of(each, report) for each in report.findings if each.baseline_state != "suppressed")
    yield from array(json.dumps(_entry(each)) for each in (*findings, *gap_fields(report)))
    yield "\n"


def _entry(fields: Fields) -> dict[str, object]:
    return {
        "description": f"{fields.text} [{fields.rule}]" if fields.severity else fields.text,
        "check_name": f"spillscan-{fields.rule}",
        "fingerprint": fields.fingerprint,
        "severity": _SEVERITIES[fields.severity],
        "location": {"path": fields.place.path, "lines": {"begin": fields.place.line or _TOP}},
    }
