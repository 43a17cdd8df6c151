"""Everything, for machines; of a scan it is a snapshot that spillscan reads again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from spillscan import __version__
from spillscan.model import Change, Finding, Kernel, Origin, Usage
from spillscan.reports import Report, Style
from spillscan.snapshot import (
    SCHEMA_VERSION,
    advisory_to_json,
    bounds_to_json,
    issue_to_json,
    kernel_to_json,
    origin_to_json,
    stats_to_json,
    usage_to_json,
)

FORMAT = "json"
HELP = "everything, one kernel a line; itself readable as input"

_TRUTH = {True: "true", False: "false", None: "null"}
_string = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def render(report: Report, style: Style) -> Iterator[str]:
    """One JSON object; see ``schema/build.schema.json``."""
    yield f'{{"schema_version": {SCHEMA_VERSION},\n "tool_version": {_encode(__version__)},\n'
    if report.kind == "diff":
        yield from _array("changes", (_encode(_change(change)) for change in report.changes))
    else:
        yield from _array("kernels", kernel_lines(report.build.kernels))
    if report.kind != "scan":
        yield from _array("findings", (_encode(_finding(finding)) for finding in report.findings))
    yield from _array("issues", (_encode(issue_to_json(issue)) for issue in report.build.issues))
    yield f' "stats": {_encode(stats_to_json(report.build))}}}\n'


def kernel_lines(kernels: Iterable[Kernel]) -> Iterator[str]:
    """The text of :func:`~spillscan.snapshot.kernel_to_json` for each kernel, equal parts written once.

    Builds have hundreds of thousands of kernels and few distinct figures; a test holds both ways equal.
    """
    usages: dict[int, str] = {}  # by identity: readers share equal figures, and the kernels keep them alive
    kept: list[Usage] = []
    for kernel in kernels:
        usage = usages.get(id(kernel.usage))
        if usage is None:
            figures = usage_to_json(kernel.usage)
            del figures["compile_ms"]
            usage = usages[id(kernel.usage)] = _encode(figures)[:-1]
            kept.append(kernel.usage)
        key, milliseconds = kernel.key, kernel.compile_ms
        yield (
            f'{{"symbol":{_string(key.symbol)},"name":{_string(kernel.name)},'
            f'"short_name":{_string(kernel.short_name)},'
            f'"arch":{"null" if key.arch is None else _string(key.arch)},"unit":{_string(key.unit)},'
            f'"role":"{kernel.role}","confidence":"{kernel.confidence}",'
            f'"reasons":{_encode(kernel.reasons) if kernel.reasons else "[]"},"final":{_TRUTH[kernel.final]},'
            f'"usage":{usage},"compile_ms":{"null" if milliseconds is None else repr(milliseconds)}}},'
            f'"advisories":{_advisories(kernel) if kernel.advisories else "[]"},'
            f'"origins":[{",".join(_origin(origin) for origin in kernel.origins)}],'
            f'"sass":{"null" if kernel.sass is None else _encode(kernel.sass.to_json())},'
            f'"launch_bounds":{_encode(bounds_to_json(kernel.launch_bounds))}}}'
        )


def _advisories(kernel: Kernel) -> str:
    return _encode([advisory_to_json(advisory) for advisory in kernel.advisories])


def _origin(origin: Origin) -> str:
    line = "null" if origin.line is None else origin.line
    return f'{{"input":{_string(origin.input)},"line":{line},"format":{_string(origin.format)}}}'


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
