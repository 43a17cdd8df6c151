"""Say why a kernel takes more registers, or spills more, than before: what its code and records show, with evidence.

KERNEL is what a table calls it, a glob for any of its names, or a part of the symbol. Of binaries (sm_75 and later) the
live registers and, compiled with -lineinfo, the source lines are compared; of logs and dumps what they report.
Nothing is guessed: what the builds do not show is named as not known.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from spillscan.commands import _common, _policy
from spillscan.commands import _machine as machine
from spillscan.commands.show import wanted
from spillscan.errors import InputError
from spillscan.output.safe import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillscan.commands._machine import MachineCode
    from spillscan.model import Kernel
    from spillscan.output.terminal import Style

NAME = "why"
HELP = "say why a kernel's registers or spills grew between two builds"
ORDER = 32
EPILOG = "Example: spillscan why 'gemm<8>' old/libgemm.so new/libgemm.so"
_FIGURES = ("registers", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "instructions")
_SHOWN = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("kernel", metavar="KERNEL", help="a name as tables show it, a glob, or part of the symbol")
    parser.add_argument("old", metavar="OLD", help="the older build: library, object, cubin, dump, log, snapshot")
    parser.add_argument("new", metavar="NEW", help="the newer build")
    parser.add_argument("--arch", help="only this architecture, such as sm_90")
    _policy.add_file(parser)
    _common.add_formats(parser, ("text", "json"))


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where neither build has such a kernel in both."""
    from spillscan.identity.pairs import pair
    from spillscan.naming import Names

    forms = _common.forms_of(arguments)
    unpacking = _policy.unpacking(_policy.policy_of(arguments))
    builds = [_common.scan(path, unpacking=unpacking) for path in (arguments.old, arguments.new)]
    names = Names(*([kernel.named_by for kernel in build.kernels] for build in builds))
    chosen = {id(kernel) for build in builds for kernel in wanted(build.kernels, arguments.kernel, names)}
    pairs = [
        (each.before, each.after)
        for each in pair(builds[0].kernels, builds[1].kernels)
        if each.before is not None
        and each.after is not None
        and chosen & {id(each.before), id(each.after)}
        and arguments.arch in (None, each.after.key.arch)
    ]
    if not pairs:
        raise InputError(f"no kernel of both builds matches {arguments.kernel!r}", "part of a symbol, a glob, its name")
    old, new = (machine.code_of([each[side] for each in pairs], unpacking) for side in (0, 1))
    reports = [_Report(names.of(after.named_by), before, after, old, new) for before, after in pairs]
    _common.answer(
        forms,
        text=lambda style: (line for report in reports for line in report.lines(style)),
        json=lambda: [report.document() for report in reports],
    )
    _common.report_issues([issue for build in builds for issue in build.issues])
    return 0


class _Report:
    """What is said of one kernel."""

    def __init__(
        self, called: str, before: Kernel, after: Kernel, old: dict[int, MachineCode], new: dict[int, MachineCode]
    ) -> None:
        from spillscan.compare import causes
        from spillscan.compare.figures import figures

        self.called, self.before, self.after = printable(called), before, after
        codes = (old.get(id(before)), new.get(id(after)))
        self.pressures = [None if code is None else code.pressure for code in codes]
        one, other = self.pressures
        self.causes = causes.causes(before, after, one, other)
        self.unknown = list(causes.open_questions(before, after, one, other))
        self.risen = causes.risen(one, other) if one and other else []
        self.held = causes.held(one, other) if one and other else []
        sides = figures(before), figures(after)
        self.figures = {name: tuple(side.get(name) for side in sides) for name in _FIGURES}
        peaks = [each.peak if each else None for each in self.pressures]
        self.figures["live_registers"] = tuple(peak.registers if peak else None for peak in peaks)
        self.at_least = [bool(peak and peak.at_least) for peak in peaks]

    def lines(self, style: Style) -> Iterator[str]:
        """Text."""
        from spillscan.machine.spillmap import where
        from spillscan.model.figures import figure

        yield f"{self.called}  {self.after.key.arch or 'unknown arch'}"
        for name, (before, after) in self.figures.items():
            if before is None and after is None:
                continue
            least = ["at least " if name == "live_registers" and each else "" for each in self.at_least]
            both = zip((before, after), least, strict=True)
            words = ["not known" if value is None else f"{mark}{value:,}" for value, mark in both]
            yield f"  {figure(name).label:15}{words[0]} → {words[1]}" + ("" if before != after else " (equal)")
        yield "  what differs, what weighs most first:" if self.causes else "  no difference that is known explains it"
        for number, cause in enumerate(self.causes, 1):
            yield f"    {number}. {cause.kind}: {printable(cause.evidence)}"
        peaks = [each.peak for each in self.pressures if each]
        if len(peaks) == 2:
            places = [f"{peak.registers} at {where(peak.source) or hex(peak.address)}" for peak in peaks]
            yield f"  peak of live registers: {places[0]} → {places[1]}"
        for title, rows in (("more live at", self.risen), ("more held through the peak, written at", self.held)):
            if rows:
                words = [f"{line} {before} → {after}" for line, before, after in rows[:_SHOWN]]
                yield printable(f"  {title}: {', '.join(words)}", 600)
        yield from (f"  not known: {text}" for text in self.unknown)

    def document(self) -> dict[str, Any]:
        """JSON."""
        return {
            "symbol": self.after.key.symbol,
            "name": self.after.name,
            "arch": self.after.key.arch,
            "figures": self.figures,
            "live_registers_at_least": self.at_least,
            "causes": [{"kind": c.kind, "evidence": c.evidence, "lines": c.lines} for c in self.causes],
            "risen": self.risen,
            "held": self.held,
            "not_known": self.unknown,
        }
