"""Everything, for machines; of a scan it is a snapshot that spillscan reads again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from spillscan import __version__
from spillscan.compare.figures import figures
from spillscan.compare.matrix import KernelRow, Matrix
from spillscan.model import Change, Effect, Finding, Hole, Kernel, Metric, Origin, Usage
from spillscan.output.records import harmless
from spillscan.output.terminal import Style
from spillscan.reports import ALL_KINDS, Report
from spillscan.serialize import (
    SCHEMA_VERSION,
    advisory_to_json,
    bounds_to_json,
    issue_to_json,
    kernel_to_json,
    origin_to_json,
    stats_to_json,
    usage_to_json,
)
from spillscan.serialize_code import to_json as sass_to_json

if TYPE_CHECKING:
    from spillscan.baseline.judging import Accepted, Verdict

FORMAT = "json"
HELP = "everything, one kernel a line; itself readable as input"
KINDS = (*ALL_KINDS, "matrix")

_TRUTH = {True: "true", False: "false", None: "null"}
_string = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def render(report: Report, style: Style) -> Iterator[str]:
    """One JSON object; see ``schema/build.schema.json``."""
    return map(harmless, _pieces(report))


def _pieces(report: Report) -> Iterator[str]:
    yield f'{{"schema_version": {SCHEMA_VERSION},\n "tool_version": {_encode(__version__)},\n'
    if report.kind == "diff":
        yield from _array("changes", (_encode(_change(change)) for change in report.changes))
        yield from _array("unsettled", (_encode(_change(change)) for change in report.unsettled))
    elif report.matrix is not None:
        yield from _matrix(report.matrix)
    else:
        yield from _array("kernels", kernel_lines(report.build.kernels))
    if report.kind != "scan":
        yield from _array("findings", (_encode(_finding(finding)) for finding in report.findings))
        holes = (*report.holes, *report.accepted)
        yield from _array("holes", (_encode(_hole(hole)) for hole in holes))
    if report.baseline is not None:
        yield f' "baseline": {_encode(_baseline(report.baseline))},\n'
    yield from _array("issues", (_encode(issue_to_json(issue)) for issue in report.build.issues))
    yield f' "stats": {_encode(stats_to_json(report.build))}}}\n'


def kernel_lines(kernels: Iterable[Kernel]) -> Iterator[str]:
    """The text of :func:`~spillscan.serialize.kernel_to_json` for each kernel, equal parts written once.

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
            f'"origins":[{",".join(_origin(origin) for origin in kernel.origins)}],"source":{_string(kernel.source)},'
            f'"sass":{"null" if kernel.sass is None else _encode(sass_to_json(kernel.sass))},'
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
        "metrics": _metrics(change.metrics),
        "unknown": _metrics(change.unknown),
        "messages": {"appeared": list(change.appeared), "vanished": list(change.vanished)},
        "occupancy": [_effect(effect) for effect in change.effects],
    }


def _metrics(metrics: Iterable[Metric]) -> dict[str, list[int | None]]:
    return {name: [before, after] for name, before, after in metrics}


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "device": effect.device,
        "threads_per_block": effect.threads_per_block,
        "dynamic_shared_bytes": None if effect.threads_per_block is None else effect.dynamic_shared_bytes,
        "launch_source": effect.launch_source,
        "resident_blocks": list(effect.resident_blocks),
        "active_warps": list(effect.active_warps),
        "limiters": [list(side) for side in effect.limiters],
        "footprint_bytes": list(effect.footprint_bytes),
        "gpu": effect.gpu,
        "unknown": effect.unknown,
    }


def _matrix(matrix: Matrix) -> Iterator[str]:
    yield f' "by": "{matrix.by}",\n "builds": {_encode(matrix.builds)},\n'
    columns = [{"build": column.build, "arch": column.arch} for column in matrix.columns]
    yield f' "columns": {_encode(columns)},\n'
    yield from _array("rows", (_encode(_row(matrix, row)) for row in matrix.rows))


def _row(matrix: Matrix, row: KernelRow) -> dict[str, Any]:
    kernel = row.kernel
    return {
        "symbol": kernel.key.symbol,
        "name": kernel.name,
        "short_name": kernel.short_name,
        "arch": kernel.key.arch if matrix.by == "build" else None,
        "unit": kernel.key.unit,
        "role": kernel.role,
        "cells": [None if cell is None else _cell(matrix, cell) for cell in row.cells],
    }


def _cell(matrix: Matrix, kernel: Kernel) -> dict[str, Any]:
    more = {name: matrix.value(kernel, name) for name in ("constant_bytes", "resident_blocks")}
    key = {"symbol": kernel.key.symbol, "arch": kernel.key.arch, "confidence": kernel.confidence}
    return {**key, "final": kernel.final, "metrics": figures(kernel) | more}


def _brief(kernel: Kernel | None) -> dict[str, Any] | None:
    return None if kernel is None else kernel_to_json(kernel)


def _hole(hole: Hole) -> dict[str, Any]:
    key = hole.kernel.key if hole.kernel else None
    return {
        "code": hole.code,
        "hides": list(hole.hides),
        "message": hole.message,
        "symbol": key.symbol if key else None,
        "name": hole.kernel.name if hole.kernel else None,
        "arch": key.arch if key else None,
        "unit": key.unit if key else None,
        "origin": None if hole.origin is None else origin_to_json(hole.origin),
        "accepted": hole.accepted,
    }


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
        "baseline_state": finding.baseline_state,
        "suppression": finding.suppression,
    }


def _baseline(verdict: Verdict) -> dict[str, Any]:
    return {
        "counts": verdict.counts(),
        "fixed": [_accepted(each) for each in verdict.fixed],
        "untold": [_accepted(each) for each in verdict.untold],
        "stale": [_accepted(each) for each in verdict.stale],
    }


def _accepted(each: Accepted) -> dict[str, Any]:
    identity = each.identity
    return {
        "identity": identity.symbol,
        "short_name": each.name,
        "arch": identity.arch,
        "role": "function" if identity.function else "entry",
        "rule": each.rule or None,
    }
