"""GitLab's Code Quality report: one JSON array, shown beside a merge request.

Fields as in GitLab's documentation (``ci/testing/code_quality``): equal fingerprints become one entry, and paths are
relative to the repository.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import blake2s

from spillscan.judging.places import annotated_place, place_in_input
from spillscan.model import Severity
from spillscan.output.records import array
from spillscan.output.terminal import Style
from spillscan.reports.report import JUDGED, Report
from spillscan.reports.words import detail_of, label_of, one_of_a_kind

FORMAT = "gitlab"
HELP = "GitLab Code Quality report"
KINDS = JUDGED

_SEVERITIES: dict[Severity, str] = {"error": "major", "warning": "minor", "note": "info"}
_TOP = 1
"""The service takes no entry without a line: where only the file is known, its top."""


def render(report: Report, style: Style) -> Iterator[str]:
    """The array, one finding a line; what a baseline records stays: the service keeps new and old apart."""
    yield from array(_entries(report))
    yield "\n"


def _entries(report: Report) -> Iterator[str]:
    findings = [finding for finding in report.findings if finding.baseline_state != "suppressed"]
    for finding in findings:
        place = annotated_place(finding, report.tree)
        said = detail_of(finding, report, place)
        yield json.dumps(
            {
                "description": f"{label_of(finding.kernel, report.names)} {said} [{finding.rule}]",
                "check_name": f"spillscan-{finding.rule}",
                "fingerprint": finding.fingerprint,
                "severity": _SEVERITIES[finding.severity],
                "location": {"path": place.path, "lines": {"begin": place.line or _TOP}},
            }
        )
    for code, gap, text in one_of_a_kind(report.gaps, report.names):
        place = place_in_input(gap.origin, report.tree)
        yield json.dumps(
            {
                "description": text,
                "check_name": f"spillscan-{code}",
                "fingerprint": blake2s(text.encode("utf-8", "replace"), digest_size=16).hexdigest(),
                "severity": "critical",
                "location": {"path": place.path, "lines": {"begin": place.line or _TOP}},
            }
        )
