"""One row per kernel, finding or changed metric, for spreadsheets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from spillscan.model import Change, Kernel
from spillscan.model.usage import NUMBERS
from spillscan.output.records import row as _row
from spillscan.output.terminal import Style
from spillscan.reports.report import ALL_KINDS, Report

FORMAT = "csv"
HELP = "one row per kernel; for a diff, one row per changed metric"
KINDS = ALL_KINDS

_identity: Callable[[Kernel], tuple[Any, ...]] = attrgetter(
    "key.symbol", "name", "short_name", "key.arch", "key.unit", "role", "confidence", "final"
)
_IDENTITY = ("symbol", "name", "short_name", "arch", "unit", "role", "confidence", "final")
_METRICS = (*NUMBERS, "constant_bytes", "compile_ms")
_PLACE = ("input", "line")


def render(report: Report, style: Style) -> Iterator[str]:
    """RFC 4180 with a header; unknown values are empty.

    Cells that a spreadsheet would execute begin with a quote; characters that are not text are replaced.
    """
    if report.kind == "diff":
        yield _row(("state", *_IDENTITY[:5], "old_symbol", "metric", "before", "after"))
        for change in report.changes:
            yield from _change(change)
        return
    if report.kind == "check":
        yield _row(("rule", "severity", "message", *_IDENTITY[:5], "fingerprint", *_PLACE, "baseline_state"))
        for finding in report.findings:
            place = (finding.origin.input, finding.origin.line) if finding.origin else ("", "")
            head = (finding.rule, finding.severity, finding.message)
            yield _row((*head, *_identity(finding.kernel)[:5], finding.fingerprint, *place, finding.baseline_state))
        return
    yield _row((*_IDENTITY, *_METRICS, *_PLACE))
    for kernel in report.build.kernels:
        usage = kernel.usage
        banks = None if usage.constant_bytes is None else " ".join(f"{b}:{size}" for b, size in usage.constant_bytes)
        values = (*(getattr(usage, name) for name in NUMBERS), banks, kernel.compile_ms)
        origin = kernel.origins[0] if kernel.origins else None
        place = (origin.input, origin.line) if origin else ("", "")
        yield _row((*_identity(kernel), *values, *place))


def _change(change: Change) -> Iterator[str]:
    old = "" if change.before is None else change.before.key.symbol
    head = (change.state, *_identity(change.kernel)[:5], old)
    for metric, before, after in (*change.metrics, *change.unknown) or (("", None, None),):
        yield _row((*head, metric, before, after))
