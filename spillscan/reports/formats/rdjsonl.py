"""Diagnostics for reviewdog (``-f=rdjsonl``): one JSON object a line, as ``proto/rdf/reviewdog.proto`` says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from spillscan.judging.places import Place, annotated_place, place_in_input
from spillscan.model import Severity
from spillscan.output.records import harmless
from spillscan.output.terminal import Style
from spillscan.reports.report import JUDGED, Report
from spillscan.reports.words import detail_of, label_of, one_of_a_kind

FORMAT = "rdjsonl"
HELP = "diagnostics for reviewdog"
KINDS = JUDGED

_SEVERITIES: dict[Severity, str] = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def render(report: Report, style: Style) -> Iterator[str]:
    """One diagnostic a finding that no baseline excuses."""
    for finding in report.annotated:
        place = annotated_place(finding, report.tree)
        diagnostic = {
            "message": f"{label_of(finding.kernel, report.names)} {detail_of(finding, report, place)}",
            "location": _location(place),
            "severity": _SEVERITIES[finding.severity],
            "source": {"name": "spillscan"},
            "code": {"value": finding.rule},
        }
        yield harmless(json.dumps(diagnostic)) + "\n"
    for code, gap, text in one_of_a_kind(report.gaps, report.names):
        place = place_in_input(gap.origin, report.tree)
        diagnostic = {
            "message": text,
            "location": _location(place),
            "severity": "ERROR",
            "source": {"name": "spillscan"},
            "code": {"value": code},
        }
        yield harmless(json.dumps(diagnostic)) + "\n"


def _location(place: Place) -> dict[str, Any]:
    return {"path": place.path, **({} if place.line is None else {"range": {"start": {"line": place.line}}})}
