"""By how much the machine code and the compile time of a build grew, and the families of kernels that it is due to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from spillscan.model import Build, Kernel
from spillscan.model.figures import BY_NAME
from spillscan.output.nouns import count, size
from spillscan.reports.report import Report

_FAMILIES = 5
"""How many families code grew by are named."""
_NOISE, _NOISE_MS = 0.25, 1000
"""Compile times that differ by less, as a part of all and in milliseconds, say nothing."""


def code(report: Report) -> Iterator[str]:
    """By how much the machine code grew, and the families that it is due to; nothing where a kernel's is not known."""
    code_bytes = BY_NAME["code_bytes"].get
    assert code_bytes is not None
    grown = _by_family(report, ((change.before, change.after) for change in report.changes), code_bytes)
    if grown and (total := sum(grown.values())):
        yield f"machine code {size(total, '+')}: {_largest(grown, size)}"


def compile_time(report: Report) -> Iterator[str]:
    """By how much compile time grew, of all kernels, and by family; nothing of differences that are as likely noise."""
    base = report.base or Build()
    times = (filter(None, map(attrgetter("compile_ms"), build.kernels)) for build in (base, report.build))
    before, after = (sum(map(round, each)) for each in times)
    if abs(after - before) <= max(_NOISE_MS, before * _NOISE):
        return
    pairs = (*((kernel, None) for kernel in base.kernels), *((None, kernel) for kernel in report.build.kernels))
    if slower := _by_family(report, pairs, _milliseconds):
        yield f"compile time {before:,} ms {after - before:+,} ms: {_largest(slower, _spent)}"


def _by_family(
    report: Report, pairs: Iterable[tuple[Kernel | None, Kernel | None]], get: Callable[[Kernel], int | None]
) -> Counter[str] | None:
    """By how much a figure grew; ``None`` where it is not known."""
    found: Counter[str] = Counter()
    for before, after in pairs:
        values = [0 if side is None else get(side) for side in (before, after)]
        kernel = after or before
        if values[0] is None or values[1] is None or kernel is None:
            return None
        found[report.names.base(kernel.named_by)] += values[1] - values[0]
    return found


def _milliseconds(kernel: Kernel) -> int | None:
    """Device functions of whole programs have no time of their own."""
    return (0 if kernel.role == "function" else None) if kernel.compile_ms is None else round(kernel.compile_ms)


def _spent(milliseconds: int, sign: str) -> str:
    return f"{milliseconds:{sign},} ms"


def _largest(grown: Counter[str], text: Callable[[int, str], str]) -> str:
    ranked = sorted(((name, each) for name, each in grown.items() if each), key=lambda pair: (-abs(pair[1]), pair[0]))
    listed = ", ".join(f"{name} {text(each, '+')}" for name, each in ranked[:_FAMILIES])
    return listed + (
        f", {count(len(ranked) - _FAMILIES, 'more family', 'more families')}" if len(ranked) > _FAMILIES else ""
    )
