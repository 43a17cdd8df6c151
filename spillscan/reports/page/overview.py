"""Overview of a build for a page, as JSON: spills, limiters, registers and input issues.

Changes and findings are here, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from spillscan.judging.compare.metrics import totals
from spillscan.model import Build, Delta, Finding, Issue, Kernel, Severity
from spillscan.model.metrics import find_metric, rank
from spillscan.model.symbols import natural
from spillscan.naming import Names
from spillscan.occupancy.summary import WORTH_SHOWING_BYTES
from spillscan.output.safe import clip
from spillscan.reports.page.columns import (
    LIMITERS,
    LONGEST_ARCH,
    LONGEST_UNIT,
    Summaries,
    binds,
    shown_arch,
    shown_family,
    shown_file,
    shown_name,
    shown_namespace,
)
from spillscan.reports.pairings import because
from spillscan.reports.report import Report
from spillscan.reports.words import UNCOUNTED

BIN_REGISTERS = 8
"""Width of a histogram bar: registers are allocated in units of 8."""
MOST_ISSUES, LONGEST_MESSAGE, LONGEST_PLACE = 200, 600, 300


def overview(build: Build, summaries: Summaries) -> dict[str, Any]:
    """Data of the first page, as JSON."""
    entries = [kernel for kernel in build.kernels if kernel.role != "function"]
    arches = _by_arch(entries, summaries)
    return {
        "kernels": {name: sum(each[name] for each in arches) for name in _spilling(())},
        "functions": _spilling([kernel for kernel in build.kernels if kernel.role == "function"]),
        "ambiguous": sum(kernel.confidence == "ambiguous" for kernel in build.kernels),
        "not_final": sum(kernel.final is False and kernel.role == "entry" for kernel in build.kernels),
        "arches": arches,
        "limiters": LIMITERS,
        "registers": _registers(entries),
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


def _by_arch(kernels: Sequence[Kernel], summaries: Summaries) -> list[dict[str, Any]]:
    """Per arch: its kernels, how many spill, and the number per limiter (in the order of :data:`LIMITERS`)."""
    groups: dict[str | None, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(kernel.key.arch, []).append(kernel)
    found = []
    for arch in sorted(groups, key=natural):
        summed = [summaries.of(kernel) for kernel in groups[arch]]
        distinct = {id(each): each for each in summed}
        bound: Counter[str] = Counter()
        for each, kernels_of_it in Counter(map(id, summed)).items():
            bound[binds(distinct[each])] += kernels_of_it
        found.append(
            {
                "arch": shown_arch(arch),
                **_spilling(groups[arch]),
                "assumed": sum(each is not None and each.assumed and each.occupancy is not None for each in summed),
                "bound": [bound[name] for name in LIMITERS],
            }
        )
    return found


def _registers(kernels: Iterable[Kernel]) -> dict[str, Any]:
    """Histogram of kernels by allocated registers, separately for those that spill and those that do not."""
    bars = [[0, 0] for _ in range(256 // BIN_REGISTERS)]
    unreported = 0
    counted = Counter((kernel.usage.registers, sum(kernel.spills or (0,)) > 0) for kernel in kernels)
    for (registers, spills), number in counted.items():
        if registers is None or not 0 <= registers <= 256:
            unreported += number
            continue
        step = max(0, -(-registers // BIN_REGISTERS) - 1)
        bars[step][spills] += number
    return {
        "step": BIN_REGISTERS,
        "quiet": [bar[0] for bar in bars],
        "spill": [bar[1] for bar in bars],
        "unreported": unreported,
    }


def issues(found: Sequence[Issue]) -> dict[str, Any]:
    """The most severe issues, and the number of issues of each severity."""
    order: tuple[Severity, ...] = ("error", "warning", "note")
    ranked = sorted(found, key=lambda issue: order.index(issue.severity))
    counts = Counter(issue.severity for issue in found)
    return {
        "counts": [[severity, counts[severity]] for severity in order if counts[severity]],
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
    found: Sequence[Finding], index: Index, called: Names, place: Callable[[Finding], str]
) -> list[dict[str, Any]]:
    """All findings, most severe first; ``kernel`` is the kernel's index in the table, ``None`` if it has none."""
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "message": clip(finding.message, LONGEST_MESSAGE),
            "place": clip(place(finding), LONGEST_PLACE) if finding.origin else "",
            "state": finding.baseline_state,
            "excused": finding.excused,
            "kernel": index.get(id(finding.kernel)),
            **named(finding.kernel, called),
        }
        for finding in found
    ]


def named(kernel: Kernel, called: Names) -> dict[str, Any]:
    """Name and arch of a kernel, as in tables."""
    return {"name": shown_name(kernel.named_by, called), "arch": shown_arch(kernel.key.arch)}


def changes(severities: Mapping[int, Severity], index: Index, report: Report, unchanged: int) -> dict[str, Any]:
    """All changes of a report.
    Figures are (index in ``metrics``, before, after). ``severities`` are those of findings, by the ``id`` of their
    kernel. ``library`` tells copies of a kernel apart; ``because`` is the evidence for a rename.
    """
    called, found = report.names, report.changes
    base = report.base.kernels if report.base is not None else ()
    metrics: dict[str, int] = {}
    rows = []
    for change in found:
        kernel = change.kernel
        row: dict[str, Any] = {
            "state": change.state,
            "severity": severities.get(id(change.after or change.before)),
            "kernel": index.get(id(kernel)),
            **named(kernel, called),
            "figures": [[_number(metrics, each[0]), *each[1:]] for each in change.metrics if _worth(each)],
        }
        if library := report.libraries.get(id(kernel)):
            row["library"] = clip(library, LONGEST_UNIT)
        if row["kernel"] is None:
            row |= {
                "family": shown_family(kernel.named_by, called),
                "namespace": shown_namespace(kernel.named_by),
                "file": shown_file(kernel),
                "object": clip(kernel.key.unit, LONGEST_UNIT),
            }
        if change.unknown:
            row["unknown"] = [[_number(metrics, name), before, after] for name, before, after in change.unknown]
        if change.state in ("added", "removed"):
            row["registers"] = kernel.usage.registers
            row["spills"] = kernel.spills
        if change.state == "renamed" and change.before is not None:
            row["old"] = clip(change.before.key.symbol, _LONGEST_SYMBOL)
            row["old_name"] = shown_name(change.before.named_by, called)
            row["new"] = clip(kernel.key.symbol, _LONGEST_SYMBOL)
            row["because"] = because(change)
        if change.appeared:
            row["appeared"] = list(change.appeared)
        rows.append(row)
    known = [find_metric(name) for name in metrics]
    return {
        "metrics": [
            {
                "label": each.label,
                "unit": each.unit,
                "grows": each.worse == "more",
                "main": each.name.partition("[")[0] in _MAIN,
            }
            for each in known
        ],
        "rows": rows,
        "states": [[state, count] for state, count in Counter(change.state for change in found).items()],
        "total": [
            {
                "label": find_metric(each.name).label,
                "unit": find_metric(each.name).unit,
                "main": each.name.partition("[")[0] in _MAIN,
            }
            | {name: getattr(each, name) for name in ("before", "after", "up", "down", "kept")}
            for each in sorted(totals(base, found), key=lambda each: rank(each.name))
        ],
        "unsettled": len(report.unsettled),
        "equal": unchanged,
    }


_MAIN = ("spill_store_bytes", "spill_load_bytes", "registers", "resident_blocks", "code_bytes")
"""Metrics of a diff shown at once; the others are folded."""


def _worth(metric: Delta) -> bool:
    """Whether a page shows the metric; small memory footprints are omitted."""
    name, before, after = metric
    return not name.startswith("footprint_bytes") or max(before or 0, after or 0) >= WORTH_SHOWING_BYTES


def _number(metrics: dict[str, int], name: str) -> int:
    return metrics.setdefault(name, len(metrics))
