"""What a page tells of changes and findings, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from spillscan.compare.figures import figure
from spillscan.model import Change, Kernel
from spillscan.output.safe import printable
from spillscan.page.columns import LONGEST_ARCH, shown_name
from spillscan.page.overview import LONGEST_MESSAGE, LONGEST_PLACE
from spillscan.places import place_of
from spillscan.policy import SEVERITIES
from spillscan.reports import Report

Index = dict[int, int]
"""A kernel's number in the table by the ``id`` of its object."""
_LONGEST_SYMBOL = 400


def findings(report: Report, index: Index) -> list[dict[str, Any]]:
    """Every finding, gravest first; ``kernel`` is its number in the table, ``None`` where it is not in it."""
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "message": printable(finding.message, LONGEST_MESSAGE),
            "place": printable(str(place_of(finding, report.tree)), LONGEST_PLACE) if finding.origin else "",
            "state": finding.baseline_state,
            "excused": finding.excused,
            "kernel": index.get(id(finding.kernel)),
            "name": shown_name(finding.kernel.key.symbol),
            "arch": _arch(finding.kernel),
        }
        for finding in report.findings
    ]


def verdict(report: Report) -> dict[str, Any]:
    """How many findings of each severity are open, what keeps the gate from deciding, and what a baseline says."""
    counts = Counter(finding.severity for finding in report.open_findings)
    baseline = report.baseline.counts() if report.baseline is not None else {}
    return {
        "counts": [[severity, counts[severity]] for severity in reversed(SEVERITIES) if counts[severity]],
        "fail_on": report.fail_on,
        "undecided": [
            {
                "name": shown_name(kernel.key.symbol),
                "arch": _arch(kernel),
                "reason": printable(reason, LONGEST_MESSAGE),
            }
            for kernel, reason in report.undecided[:100]
        ],
        "undecided_count": len(report.undecided),
        "baseline": [[state, number] for state, number in baseline.items() if number],
    }


def changes(report: Report, index: Index) -> dict[str, Any]:
    """Every change, gravest first as the report has them. Figures are (number in ``metrics``, before, after)."""
    severities = _severities(report)
    metrics: dict[str, int] = {}
    rows = []
    for change in report.changes:
        kernel = change.kernel
        row: dict[str, Any] = {
            "state": change.state,
            "severity": severities.get(id(change.after or change.before)),
            "kernel": index.get(id(kernel)),
            "name": shown_name(kernel.key.symbol),
            "arch": _arch(kernel),
            "figures": [[_number(metrics, name), before, after] for name, before, after in change.metrics],
        }
        if change.unknown:
            row["unknown"] = [[_number(metrics, name), before, after] for name, before, after in change.unknown]
        if change.state in ("added", "removed"):
            row["registers"] = kernel.usage.registers
            row["spills"] = kernel.spills
        if change.state == "renamed" and change.before is not None:
            row["old"] = printable(change.before.key.symbol, _LONGEST_SYMBOL)
            row["old_name"] = shown_name(change.before.key.symbol)
            row["new"] = printable(kernel.key.symbol, _LONGEST_SYMBOL)
            row["score"] = round(change.score, 3)
        if change.appeared:
            row["appeared"] = list(change.appeared)
        rows.append(row)
    known = [figure(name) for name in metrics]
    return {
        "metrics": [{"label": each.label, "unit": each.unit, "grows": each.name not in _BETTER_HIGH} for each in known],
        "rows": rows,
        "states": [[state, count] for state, count in Counter(change.state for change in report.changes).items()],
        "total": _total(report.changes),
        "unsettled": len(report.unsettled),
        "equal": _unchanged(report),
    }


_BETTER_HIGH = ("resident_blocks", "active_warps")
"""Figures that are worse where they fall."""


def _unchanged(report: Report) -> int:
    told = sum(change.after is not None for change in (*report.changes, *report.unsettled))
    return len(report.build.kernels) - told


def _severities(report: Report) -> dict[int, str]:
    """The gravest open finding's severity of each kernel."""
    found: dict[int, str] = {}
    for finding in report.open_findings:
        found.setdefault(id(finding.kernel), finding.severity)
    return found


def _total(found: Sequence[Change]) -> list[dict[str, Any]]:
    """By how much each figure grew and fell, over all pairs, worst first."""
    grown: dict[str, list[int]] = {}
    for change in found:
        for name, before, after in change.metrics:
            if before is not None and after is not None:
                sums = grown.setdefault(name, [0, 0, 0, 0])
                sums[0] += before
                sums[1] += after
                sums[2] += after > before
                sums[3] += after < before
    return [
        {"label": figure(name).label, "unit": figure(name).unit, "before": a, "after": b, "up": up, "down": down}
        for name, (a, b, up, down) in grown.items()
    ]


def _number(metrics: dict[str, int], name: str) -> int:
    return metrics.setdefault(name, len(metrics))


def _arch(kernel: Kernel) -> str | None:
    return None if kernel.key.arch is None else printable(kernel.key.arch, LONGEST_ARCH)
