"""``diff --why``: why a kernel takes more registers or spills more, with evidence from code and records.

For binaries (sm_75 and later), live registers are compared and, if compiled with -lineinfo, source lines; for logs and
disassembly, the reported metrics. Nothing is guessed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from spillscan.commands import _answers, _inputs, _issues, _options, _policy
from spillscan.commands._selection import Selection
from spillscan.judging.compare.causes import Growth
from spillscan.judging.compare.metrics import metrics_of
from spillscan.model import Kernel
from spillscan.model.metrics import find_metric
from spillscan.naming import Names
from spillscan.naming.pairs import pair
from spillscan.output.errors import InputError
from spillscan.output.files import parse_forms
from spillscan.output.safe import printable
from spillscan.output.terminal import fold, wrapped
from spillscan.reading.binary import fetch

_METRICS = ("registers", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "instructions")
_NONE = "no kernel that is in both builds uses more registers or spills more"


def run(arguments: argparse.Namespace) -> int:
    """Return 0. With --kernel show all matching kernels, else those with more registers or spills, worst first."""
    forms = parse_forms(arguments.format, ("text", "json"))
    _policy.policy_of(arguments)  # report mistakes in it, although it has no effect here
    builds = [_inputs.scan(path) for path in arguments.inputs]
    names = Names(*([kernel.named_by for kernel in build.kernels] for build in builds))
    base, head = Selection(arguments.arch, arguments.kernel).of_all(builds)
    chosen = {id(kernel) for build in (base, head) for kernel in build.kernels}
    pairs = [
        (each.before, each.after)
        for each in pair(builds[0].kernels, builds[1].kernels)
        if each.before is not None and each.after is not None and chosen & {id(each.before), id(each.after)}
    ]
    if not pairs:
        raise InputError("no selected kernel is in both builds", "`spillscan diff` lists added and removed kernels")
    if not arguments.kernel:
        grown = [pair for pair in pairs if any(after > before for before, after in _grown(*pair))]
        pairs = sorted(grown, key=lambda pair: [before - after for before, after in _grown(*pair)])
    code = fetch.pressures_of([kernel for pair in pairs for kernel in pair])
    reports = [_Report(names.of(after.named_by), Growth(before, after, code)) for before, after in pairs]
    most = _options.rows_of(arguments)
    shown = [line for each in reports[:most] for line in each.lines()] or [_NONE]
    _answers.answer(
        forms,
        text=lambda style: (*wrapped(shown, style), *fold(len(reports[most:]) if most else 0, style)),
        json=lambda: [report.document() for report in reports],
    )
    _issues.report_issues([issue for build in builds for issue in build.issues])
    return 0


def _grown(before: Kernel, after: Kernel) -> list[tuple[int, int]]:
    """Spills and registers (before, after), as far as both builds report them."""
    spills = [sum(each.spills) if each.spills else None for each in (before, after)]
    both = (spills, [each.usage.registers for each in (before, after)])
    return [(old, new) if old is not None and new is not None else (0, 0) for old, new in both]


class _Report:
    """Report on one kernel."""

    def __init__(self, called: str, growth: Growth) -> None:
        self.called, self.growth = printable(called), growth
        sides = metrics_of(growth.before), metrics_of(growth.after)
        self.metrics = {name: tuple(side.get(name) for side in sides) for name in _METRICS}
        peaks = [each.peak if each else None for each in growth.codes]
        self.metrics["live_registers"] = tuple(peak.registers if peak else None for peak in peaks)
        self.at_least = [bool(peak and peak.at_least) for peak in peaks]

    def lines(self) -> Iterator[str]:
        """Text: metrics of both builds, then differences, then unknowns."""

        growth = self.growth
        yield f"{self.called}  {growth.after.key.arch or 'unknown arch'}"
        for name, (before, after) in self.metrics.items():
            if before is None and after is None:
                continue
            least = ["at least " if name == "live_registers" and each else "" for each in self.at_least]
            both = zip((before, after), least, strict=True)
            words = ["unknown" if value is None else f"{mark}{value:,}" for value, mark in both]
            yield f"  {find_metric(name).label:15}{words[0]} → {words[1]}" + ("" if before != after else " (equal)")
        grown = any(new > old for old, new in _grown(growth.before, growth.after))
        none = "no known difference explains the growth" if grown else "no known growth of registers or spills"
        yield "  differences, largest first:" if growth.causes else f"  {none}"
        for number, cause in enumerate(growth.causes, 1):
            yield f"    {number}. {printable(cause.evidence)}"
        yield from (f"  {printable(line, 600)}" for line in growth.peaks())
        yield from (f"  unknown: {text}" for text in growth.unknown)

    def document(self) -> dict[str, Any]:
        """JSON data; pairs are [old, new]."""
        growth = self.growth
        return {
            "symbol": growth.after.key.symbol,
            "name": growth.after.name,
            "arch": growth.after.key.arch,
            "metrics": self.metrics,
            "live_registers_at_least": self.at_least,
            "causes": [{"kind": c.kind, "evidence": c.evidence} for c in growth.causes],
            "written_at_peak": growth.at_peak,
            "unknown": growth.unknown,
        }
