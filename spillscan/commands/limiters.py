"""What limits each kernel's occupancy, how far the next step is, how to get there, and what that trades away; of a
kernel that spills first the other way: which launch bounds end its spills, and what they cost in blocks. --try compiles
these bounds, and says what came of it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spillscan.advice.families import fix_data
from spillscan.advice.fixes import Fix, Goal, fixes, registers_needed
from spillscan.commands import _answers, _inputs, _issues, _offers, _options, _policy, _selection, _trying
from spillscan.commands._selection import Selection
from spillscan.judging.policy import Policy
from spillscan.model import Kernel
from spillscan.model.build import damage, labels_of
from spillscan.naming import Names
from spillscan.occupancy.binding import LABELS
from spillscan.occupancy.data import next_block_data, summary_data
from spillscan.occupancy.devices import judged_on, resolve
from spillscan.occupancy.headroom import headroom
from spillscan.occupancy.summary import Summary, summarise
from spillscan.occupancy.text import footprint_line, headroom_lines, next_block_line
from spillscan.output.nouns import count
from spillscan.output.terminal import Style, fold, hung
from spillscan.reading.binary import fetch
from spillscan.reading.binary.pressure import Pressure
from spillscan.reports.table import Column, Table

if TYPE_CHECKING:
    from spillscan.advice.sweep.trials import Trial

EPILOG = "Example: spillscan occupancy build.log --kernel 'gemm*' --launch 'gemm*=256,49152'"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser)
    _trying.add_try(parser, "kernels")
    _options.add_launches(parser)
    _options.add_devices(parser, "show what limits")
    _policy.add_file(parser)
    _options.add_selection(parser)
    _options.add_formats(parser, "text", "json", "markdown")
    _options.add_rows(parser, 10, "kernels to show", "kernels")


def run(arguments: argparse.Namespace) -> int:
    """0; the kernels in the order of ``scan``: worst first."""
    forms = _answers.forms_of(arguments)
    arguments.devices = ",".join(arguments.device) or None
    policy = _policy.policy_of(arguments)
    unpacking = _policy.unpacking(policy)
    inputs = _inputs.inputs_or_stdin(arguments.inputs)
    build = _inputs.scan(inputs, unpacking=unpacking)
    kept = Selection(arguments.arch, arguments.kernel, arguments.launch).of(build, policy.labels)
    _selection.refuse_devices(kept.kernels, arguments.device)
    entries = sorted((kernel for kernel in kept.kernels if kernel.role == "entry"), key=damage)
    names = Names((kernel.named_by for kernel in build.kernels), labels=labels_of([build], policy.labels))
    shown = entries[: _options.rows_of(arguments)]
    code = fetch.pressures_of((kernel for kernel in shown if sum(kernel.spills or ())), unpacking)

    databases = _offers.databases_near(inputs) if vars(arguments)["try"] else {}
    wanted = [(kernel, _offers.source_of(kernel, databases)) for kernel in shown] if vars(arguments)["try"] else []
    trials = dict(zip(map(id, shown), _trying.trials_of(arguments, wanted, policy), strict=False))

    def text(style: Style) -> Iterator[str]:
        for kernel in shown:
            for device, summary in _summaries(kernel, policy):
                yield from hung(_lines(kernel, device, summary, names, code, trials.get(id(kernel))), style)
                yield ""
        yield from fold(len(entries) - len(shown), style)

    def markdown() -> Iterator[str]:
        rows = [(kernel, *each) for kernel in shown for each in _summaries(kernel, policy)]
        yield from _table(rows, names, code, trials).markdown(None)
        yield from fold(len(entries) - len(shown), Style())

    _answers.answer(forms, text=text, json=lambda: _data(entries, policy, code, trials), markdown=markdown)
    _issues.report_issues(build.issues)
    return 0


def _summaries(kernel: Kernel, policy: Policy) -> Iterator[tuple[str | None, Summary]]:
    """(device, summary) on each device of the policy that runs the kernel; without any, on the kernel's own arch."""
    arch = kernel.key.arch
    for device in judged_on(arch, policy.devices) or (arch,):
        yield device, summarise(kernel.usage, device, policy.launch_of(kernel))


def _lines(
    kernel: Kernel,
    device: str | None,
    summary: Summary,
    names: Names,
    code: Mapping[int, Pressure],
    trial: Trial | None,
) -> Iterator[str]:
    usage = kernel.usage
    figures = [f"{usage.registers} registers" if usage.registers is not None else "registers unknown"]
    if usage.shared_bytes:
        figures.append(f"{usage.shared_bytes:,} B shared")
    if usage.spill_bytes:
        figures.append(f"spills {usage.spill_bytes:,} B")
    if summary.launch is not None:
        figures.append(count(summary.launch.threads_per_block, "thread"))
    where = kernel.key.arch or "arch unknown"
    where += f" on {device}" if device != kernel.key.arch else ""
    title = f"{names.of(kernel.named_by)} ({where}): {', '.join(figures)}"
    yield title
    yield f"  {summary.line}"
    if kernel.final is False:
        yield "  relocatable code: registers are final only after the link"
    for kind, text in _fixes(kernel, device, summary, code, trial):
        yield f"  {kind}: {text}"
    if trial is not None and trial.missing:
        yield f"  not tried: {trial.missing}"
    if summary.occupancy is not None and not summary.at_most:
        yield from (f"  {line}" for line in headroom_lines(headroom(summary.occupancy)))
        yield from (f"  {line}" for line in [next_block_line(summary.occupancy)] if line)
        yield from (f"  {LABELS[name]}: {text}" for name, text in summary.findings)
    elif summary.occupancy is not None and summary.assumed:
        yield f"  limited by {summary.cells['limiter']} at the best block size"
    if summary.local_memory is not None and summary.local_memory.matters:
        yield f"  {footprint_line(summary.local_memory)}"


def _fixes(
    kernel: Kernel, device: str | None, summary: Summary, code: Mapping[int, Pressure], trial: Trial | None
) -> list[Fix]:
    """Fixes of its spills if it spills, else of its occupancy."""
    trial = trial if _its_own(kernel, device) else None
    goal = Goal("spills" if sum(kernel.spills or ()) else "blocks")
    return fixes(kernel, summary.launch, code.get(id(kernel)), trial, goal, on=device)


_Row = tuple[Kernel, str | None, Summary]


def _table(
    rows: Sequence[_Row], names: Names, code: Mapping[int, Pressure], trials: Mapping[int, Trial]
) -> Table[_Row]:
    """A row a kernel and device, with the way to fewer spills, else to a further block."""

    def fix(row: _Row) -> str:
        kernel, device, summary = row
        return "; ".join(each.text for each in _fixes(kernel, device, summary, code, trials.get(id(kernel)))) or "-"

    def cell(name: str) -> Callable[[_Row], str]:
        return lambda row: row[2].cells[name] or "-"

    columns = [
        Column[_Row]("kernel", None, lambda row: names.of(row[0].named_by), left=True),
        Column[_Row]("on", None, lambda row: row[1] or "arch unknown", left=True),
        Column[_Row]("registers", None, lambda row: row[0].usage.registers),
        Column[_Row]("spill bytes", None, lambda row: None if row[0].spills is None else sum(row[0].spills)),
        Column[_Row]("threads", None, lambda row: row[2].launch and row[2].launch.threads_per_block),
        Column[_Row]("blocks/SM", None, cell("blocks")),
        Column[_Row]("occupancy", None, cell("occupancy")),
        Column[_Row]("limited by", None, cell("limiter"), left=True),
        Column[_Row]("fix", None, fix, left=True),
    ]
    return Table(columns=columns, rows=rows, title="What limits occupancy", empty="no kernels")


def _its_own(kernel: Kernel, device: str | None) -> bool:
    """Whether what was compiled, for the kernel's arch, holds on a device."""
    arch = kernel.key.arch
    return device == arch or (None not in (device, arch) and resolve(str(device))[0] == resolve(str(arch))[0])


def _data(
    kernels: list[Kernel], policy: Policy, code: Mapping[int, Pressure], trials: Mapping[int, Trial]
) -> list[dict[str, Any]]:
    found = []
    for kernel in kernels:
        for device, summary in _summaries(kernel, policy):
            trial = trials.get(id(kernel)) if _its_own(kernel, device) else None
            need = registers_needed(kernel, code.get(id(kernel)), trial)
            occupancy = None if summary.at_most else summary.occupancy
            found.append(
                {"symbol": kernel.key.symbol, "arch": kernel.key.arch, "unit": kernel.key.unit, "device": device}
                | summary_data(summary)
                | {
                    "registers_needed": None if need is None else need.registers,
                    "registers_needed_by": None if need is None else need.basis,
                    "fixes": fix_data(_fixes(kernel, device, summary, code, trial)),
                }
                | {"next_block": next_block_data(occupancy) if occupancy else None}
                | {"tried": _trying.trial_data(trial, trial.missing if trial else "")}
            )
    return found
