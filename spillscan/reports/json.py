"""Everything, for machines; of a scan it is a snapshot that spillscan reads again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from spillscan import __version__
from spillscan.model import Change, Finding, Kernel
from spillscan.reports import Report, Style
from spillscan.snapshot import SCHEMA_VERSION, issue_to_json, kernel_to_json, origin_to_json, stats_to_json

FORMAT = "json"
HELP = "everything, one kernel a line; itself readable as input"

_encode = json.JSONEncoder(ensure_ascii=True, separators=(", ", ": ")).encode


def render(report: Report, style: Style) -> Iterator[str]:
    """One JSON object; see ``schema/build.schema.json``."""
    yield f'{{"schema_version": {SCHEMA_VERSION},\n "tool_version": {_encode(__version__)},\n'
    if report.kind == "diff":
        yield from _array("changes", (_encode(_change(change)) for change in report.changes))
    else:
        yield from _array("kernels", (_encode(kernel_to_json(kernel)) for kernel in report.build.kernels))
    if report.kind != "scan":
        yield from _array("findings", (_encode(_finding(finding)) for finding in report.findings))
    yield from _array("issues", (_encode(issue_to_json(issue)) for issue in report.build.issues))
    yield f' "stats": {_encode(stats_to_json(report.build))}}}\n'


def _array(name: str, values: Iterator[str]) -> Iterator[str]:
    yield f' "{name}": ['
    separator = "\n  "
    for value in values:
        yield separator + value
        separator = ",\n  "
    yield "],\n"


def _change(change: Change) -> dict[str, Any]:
    return {
        "state": change.state,
        "score": change.score,
        "before": _brief(change.before),
        "after": _brief(change.after),
        "metrics": {name: [before, after] for name, before, after in change.metrics},
    }


def _brief(kernel: Kernel | None) -> dict[str, Any] | None:
    return None if kernel is None else kernel_to_json(kernel)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "symbol": finding.kernel.key.symbol,
        "name": finding.kernel.name,
        "arch": finding.kernel.key.arch,
        "unit": finding.kernel.key.unit,
        "fingerprint": finding.fingerprint,
        "origin": None if finding.origin is None else origin_to_json(finding.origin),
    }
