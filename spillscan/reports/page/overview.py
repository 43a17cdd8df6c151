"""Overview of a build for a page, as JSON: spills, input issues, findings and changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spillscan.judging.compare.metrics import totals
from spillscan.model import SEVERITIES, Build, Delta, Finding, Issue, Kernel
from spillscan.model.metrics import find_metric, rank
from spillscan.naming import Names
from spillscan.output.safe import clip
from spillscan.reports.differences import brief, worth_showing
from spillscan.reports.page.columns import LONGEST_ARCH, LONGEST_UNIT, shortened, shown_arch
from spillscan.reports.pairings import because
from spillscan.reports.report import Report
from spillscan.reports.words import UNCOUNTED, by_severity

MOST_ISSUES, LONGEST_MESSAGE, LONGEST_PLACE = 200, 600, 300


def overview(build: Build) -> dict[str, Any]:
    """Data of the first page, as JSON."""
    return {
        "kernels": _spilling([kernel for kernel in build.kernels if kernel.role != "function"]),
        "functions": _spilling([kernel for kernel in build.kernels if kernel.role == "function"]),
        "read": {name: getattr(build.stats, name) for name in _READ},
        "issues": issues(build.issues),
        "note": "" if build.units else f"{UNCOUNTED[0].upper()}{UNCOUNTED[1:]}.",
    }


_READ = ("inputs", "lines", "unknown_lines", "unknown_clauses")


def _spilling(kernels: Sequence[Kernel]) -> dict[str, int]:
    known = [spills for kernel in kernels if (spills := kernel.spills) is not None]
    return {
        "count": len(kernels),
        "spilling": sum(sum(spills) > 0 for spills in known),
        "stores": sum(stores for stores, _ in known),
        "loads": sum(loads for _, loads in known),
        "silent": len(kernels) - len(known),
    }


def issues(every: Sequence[Issue]) -> dict[str, Any]:
    """The most severe issues, and the number of issues of each severity."""
    ranked = sorted(every, key=lambda issue: -SEVERITIES.index(issue.severity))
    return {
        "counts": by_severity(every),
        "shown": [
            {
                "severity": issue.severity,
                "code": clip(issue.code, LONGEST_ARCH * 2),
                "message": clip(issue.message, LONGEST_MESSAGE),
                "place": "" if issue.origin is None else clip(str(issue.origin), LONGEST_PLACE),
            }
            for issue in ranked[:MOST_ISSUES]
        ],
    }


Index = dict[int, int]
"""Index of a kernel in the table, by the ``id`` of its object."""
_LONGEST_SYMBOL = 400


def findings(
    every: Sequence[Finding], index: Index, called: Names, place: Callable[[Finding], str]
) -> list[dict[str, Any]]:
    """All findings, most severe first; ``kernel`` is the kernel's index in the table, ``None`` if it has none."""
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "message": clip(finding.message, LONGEST_MESSAGE),
            "place": clip(place(finding), LONGEST_PLACE) if finding.origin else "",
            "state": finding.baseline_state,
            "accepted": finding.accepted,
            "kernel": index.get(id(finding.kernel)),
            **named(finding.kernel, called),
        }
        for finding in every
    ]


def named(kernel: Kernel, called: Names) -> dict[str, Any]:
    """Name and arch of a kernel, as in tables."""
    return {"name": called.of(kernel.named_by), "arch": shown_arch(kernel.key.arch)}


def changes(report: Report, index: Index) -> dict[str, Any]:
    """All changes of a report.
    Deltas are (index in ``metrics``, before, after). ``library`` tells copies of a kernel apart; ``about`` describes a
    kernel that was added, removed or renamed.
    """
    called, listed = report.names, report.changes
    base = report.base.kernels if report.base is not None else ()
    paired = sum(change.after is not None for change in (*listed, *report.unsettled))
    severities = {id(each.kernel): each.severity for each in reversed(report.open_findings)}  # the worst of each kernel
    metrics: dict[str, int] = {}

    def deltas(some: Iterable[Delta]) -> list[list[Any]]:
        return [[metrics.setdefault(name, len(metrics)), before, after] for name, before, after in some]

    rows = []
    for change in listed:
        kernel, before = change.kernel, change.before
        row: dict[str, Any] = {
            "state": change.state,
            "severity": severities.get(id(kernel)),
            "kernel": index.get(id(kernel)),
            **named(kernel, called),
            "deltas": deltas(filter(worth_showing, change.metrics)),
            "unknown": deltas(change.unknown),
            "appeared": change.appeared,
            "library": clip(report.copies.get(id(kernel), ""), LONGEST_UNIT),
        }
        if row["kernel"] is None:
            row["family"] = shortened(called.base(kernel.named_by))
        if change.state in ("added", "removed"):
            row["about"] = brief(kernel)
        if change.state == "renamed" and before is not None:
            symbols = [clip(each.key.symbol, _LONGEST_SYMBOL) for each in (before, kernel)]
            row |= {"about": because(change), "old_name": called.of(before.named_by), "symbols": symbols}
        rows.append({name: value for name, value in row.items() if value not in ("", ())})
    return {
        "metrics": [_metric(name) for name in metrics],
        "rows": rows,
        "states": list(Counter(change.state for change in listed).items()),
        "total": [
            _metric(each.name) | {name: getattr(each, name) for name in ("before", "after", "up", "down", "kept")}
            for each in sorted(totals(base, listed), key=lambda each: rank(each.name))
        ],
        "unsettled": len(report.unsettled),
        "equal": len(report.build.named.kernels) - paired,
    }


def _metric(name: str) -> dict[str, Any]:
    known = find_metric(name)
    main = name.partition("[")[0] in _MAIN
    return {"label": known.label, "unit": known.unit, "grows": known.worse == "more", "main": main}


_MAIN = ("spill_store_bytes", "spill_load_bytes", "registers", "resident_blocks", "code_bytes")
"""Metrics of a diff shown at once; the others are folded."""
