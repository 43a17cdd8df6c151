"""What the first page says of a build: how many spill, how much, what limits them, and what was not understood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from spillscan.model import Build, Issue, Kernel, Severity
from spillscan.names import natural
from spillscan.output.safe import clip
from spillscan.page.columns import LIMITERS, LONGEST_ARCH, Summaries, binds, shown_arch

BIN_REGISTERS = 8
"""Registers are allocated in eights: a bar of the histogram is one allocation step."""
MOST_ISSUES, LONGEST_MESSAGE, LONGEST_PLACE = 200, 600, 300


def overview(build: Build, summaries: Summaries) -> dict[str, Any]:
    """The figures of the first page, as JSON."""
    entries = [kernel for kernel in build.kernels if kernel.role != "function"]
    return {
        "kernels": _spilling(entries),
        "functions": _spilling([kernel for kernel in build.kernels if kernel.role == "function"]),
        "ambiguous": sum(kernel.confidence == "ambiguous" for kernel in build.kernels),
        "not_final": sum(kernel.final is False and kernel.role == "entry" for kernel in build.kernels),
        "arches": _by_arch(entries, summaries),
        "limiters": LIMITERS,
        "registers": _registers(entries),
        "read": {name: getattr(build.stats, name) for name in _READ},
        "issues": issues(build.issues),
    }


_READ = ("inputs", "lines", "bytes", "recognised_lines", "unknown_lines", "unknown_clauses")


def _spilling(kernels: Sequence[Kernel]) -> dict[str, int]:
    known = [kernel.spills for kernel in kernels if kernel.spills is not None]
    return {
        "count": len(kernels),
        "spilling": sum(sum(spills) > 0 for spills in known),
        "stores": sum(stores for stores, _ in known),
        "loads": sum(loads for _, loads in known),
        "silent": len(kernels) - len(known),
    }


def _by_arch(kernels: Sequence[Kernel], summaries: Summaries) -> list[dict[str, Any]]:
    """Of each arch its kernels, how many spill, and how many each limiter binds (as :data:`LIMITERS`)."""
    groups: dict[str | None, list[Kernel]] = {}
    for kernel in kernels:
        groups.setdefault(kernel.key.arch, []).append(kernel)
    found = []
    for arch in sorted(groups, key=natural):
        summed = [summaries.of(kernel) for kernel in groups[arch]]
        bound = Counter(binds(each) for each in summed)
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
    """Kernels by allocation step, those that spill and those that do not."""
    bars = [[0, 0] for _ in range(256 // BIN_REGISTERS)]
    unreported = 0
    for kernel in kernels:
        registers = kernel.usage.registers
        if registers is None or not 0 <= registers <= 256:
            unreported += 1
            continue
        step = max(0, -(-registers // BIN_REGISTERS) - 1)
        bars[step][sum(kernel.spills or (0,)) > 0] += 1
    return {
        "step": BIN_REGISTERS,
        "quiet": [bar[0] for bar in bars],
        "spill": [bar[1] for bar in bars],
        "unreported": unreported,
    }


def issues(found: Sequence[Issue]) -> dict[str, Any]:
    """The most severe, and how many there are of each severity."""
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
