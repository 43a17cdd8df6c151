"""Diagnostics for reviewdog (``-f=rdjsonl``): one JSON object per line, as ``proto/rdf/reviewdog.proto`` defines."""

from __future__ import annotations

import json
from collections.abc import Iterator

from spillscan.model import Severity
from spillscan.output.records import harmless
from spillscan.output.terminal import Style
from spillscan.reports.gaps import gap_fields
from spillscan.reports.report import GATE_KINDS, Report
from spillscan.reports.words import fields_of

FORMAT = "rdjsonl"
HELP = "diagnostics for reviewdog"
KINDS = GATE_KINDS

_SEVERITIES: dict[Severity | None, str] = {"error": "ERROR", "warning": "WARNING", "note": "INFO", None: "ERROR"}


def render(report: Report, style: Style) -> Iterator[str]:
    """One diagnostic per open finding and gap."""
    for fields in (*(fields_of(each, report) for each in report.open_findings), *gap_fields(report)):
        line = fields.place.line
        diagnostic = {
            "message": fields.text,
            "location": {
                "path": fields.place.path,
                **({} if line is None else {"range": {"start": {"line": line}}}),
            },
            "severity": _SEVERITIES[fields.severity],
            "source": {"name": "spillscan"},
            "code": {"value": fields.rule},
        }
        yield harmless(json.dumps(diagnostic)) + "\n"
