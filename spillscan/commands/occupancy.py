"""Print resident blocks per SM, the blocks per SM that each resource allows, and changes that add or cost a block.

Pass a device such as H100 with --threads and --registers, or a build to list its kernels.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import to_builtins
from msgspec.structs import asdict

from spillscan.advice.families import fix_data
from spillscan.advice.fixes import Fix, Goal, fixes, of_occupancy, registers_needed
from spillscan.commands import _answers, _inputs, _issues, _offers, _options, _policy, _selection, _trying
from spillscan.commands._selection import Selection
from spillscan.judging.policy.effective import Policy
from spillscan.model import Kernel
from spillscan.model.build import damage
from spillscan.naming import Names
from spillscan.occupancy import data, text
from spillscan.occupancy.bounds import register_limit
from spillscan.occupancy.data import summary_data
from spillscan.occupancy.devices import Device, Gpu, applicable_devices, is_device, resolve
from spillscan.occupancy.formula import check, resident
from spillscan.occupancy.headroom import headroom, next_block
from spillscan.occupancy.model import CACHING, LABELS, PREFERENCES, Configuration
from spillscan.occupancy.summary import Summary, clusters, footprint, summarise
from spillscan.occupancy.text import footprint_line, headroom_lines, next_block_line
from spillscan.output.errors import UsageError
from spillscan.output.files import Form
from spillscan.output.nouns import count
from spillscan.output.terminal import Style, fold, wrapped
from spillscan.reading.binary import fetch
from spillscan.reading.binary.pressure import Pressure
from spillscan.reports.table import Column, Table

if TYPE_CHECKING:
    from spillscan.advice.sweep.trials import Trial

EPILOG = "Example: spillscan occupancy sm_80 --threads 128 --registers 40; spillscan occupancy build.log"

_MOST_DIGITS = 16
_KEYS = {
    "max_dynamic_shared_bytes": "the kernel's MaxDynamicSharedMemorySize attribute; max: the device's maximum",
    "carveout_percent": "preferred shared memory, percent of the SM's maximum (compute capability 7.0 and later)",
    "barriers": "named barriers per block (default: 1)",
    "cluster_blocks": "blocks per cluster (compute capability 9.0 and later)",
    "min_blocks_per_sm": "target blocks per SM (prints the dynamic shared memory available to each block)",
    "stack_bytes": "stack bytes per thread (prints the GPU memory reserved for it)",
    "cache_preference": f"{', '.join(PREFERENCES)} (compute capability 3.x, 7.0 and later)",
    "global_caching": f"global loads in L1: {', '.join(CACHING)} (compute capability 5.2, 5.3, 6.1, 6.2)",
}
"""Keys of --set for one configuration."""
_NEEDED = "a device, --threads and --registers are required"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments. Values are checked in ``run``, so that each error is one line."""
    parser.add_argument(
        "inputs", nargs="*", metavar="ARCH|INPUT", help="a device such as sm_89, 9.0 or H100, or a build"
    )
    _trying.add_try(parser, "kernels")
    _options.add_launches(parser)
    _options.add_devices(parser, "occupancy")
    _policy.add_file(parser)
    _options.add_selection(parser)
    _options.add_formats(parser, "text", "json", "csv", "markdown")
    _options.add_rows(parser, 10, "kernels to show", "kernels")
    one = parser.add_argument_group("one configuration (--threads and --registers, or --launch-bounds)")
    one.description = "; ".join(f"--set {key}: {about}" for key, about in _KEYS.items())
    one.add_argument("--threads", metavar="N", help="threads per block")
    one.add_argument("--registers", metavar="N", help="registers per thread")
    one.add_argument("--shared", metavar="BYTES", help="static shared memory per block (default: 0)")
    one.add_argument("--dynamic-shared", metavar="BYTES", help="dynamic shared memory per block (default: 0)")
    one.add_argument(
        "--launch-bounds",
        metavar="T[,B]",
        help="print the register limit of __launch_bounds__(T, B), and the occupancy at that limit without shared"
        " memory",
    )


_OF_ONE = ("threads", "registers", "shared", "dynamic_shared", "launch_bounds")


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 if a value is impossible or an input cannot be read."""
    forms = _answers.forms_of(arguments)
    first, *others = arguments.inputs or [""]
    asked = any(getattr(arguments, name) is not None for name in _OF_ONE)
    if not asked and (not first or os.path.exists(first) or not is_device(first)):
        _of_build(arguments, forms)
        return 0
    if not first:
        raise UsageError("no device given", "name one: spillscan occupancy sm_90 --threads 256 --registers 64")
    if others:
        raise UsageError(
            f"unexpected argument {others[0][:60]}", "pass one device, or a build (and its device with --device)"
        )
    vars(arguments).update(_set(arguments.settings))
    answer = _answer(arguments, *resolve(first))
    _answers.answer(
        forms,
        text=answer.text,
        json=lambda: answer.data,
        csv=lambda: _records(answer.rows),
        markdown=lambda: ["```text", *answer.text(Style()), "```"],
    )
    return 0


# ---- one configuration --------------------------------------------------------------------------------------------


def _set(texts: Sequence[str]) -> dict[str, str | None]:
    """Values of --set by key; ``None`` if not given."""
    given = _options.keyed(texts, _KEYS)
    for key, words in (("cache_preference", PREFERENCES), ("global_caching", CACHING)):
        if key in given and given[key] not in words:
            raise UsageError(f"--set {key}: expected one of {', '.join(words)}, got {given[key][:60]!r}")
    return dict.fromkeys(_KEYS) | {"barriers": "1"} | given


class _Answer(NamedTuple):
    """Result for one configuration, in each form."""

    text: Callable[[Style], Iterable[str]]
    """Lines of text."""
    data: Mapping[str, Any]
    """JSON data."""
    rows: Sequence[Mapping[str, Any]]
    """CSV rows, by column."""


def _answer(arguments: argparse.Namespace, device: Device, gpu: Gpu | None) -> _Answer:
    if arguments.launch_bounds is not None:
        return _bounds(arguments.launch_bounds, device)
    configuration = _configuration(arguments, device)
    return _one(arguments, configuration, gpu)


def _whole(arguments: argparse.Namespace, name: str, default: str | None = None) -> int:
    written = getattr(arguments, name)
    written = default if written is None else written
    option = f"--set {name}" if name in _KEYS else f"--{name.replace('_', '-')}"
    if written is None:
        raise UsageError(f"{option} is missing", _NEEDED)
    digits = written.replace(",", "").replace("_", "").strip()
    if len(digits) > _MOST_DIGITS or not digits.removeprefix("-").isdecimal():
        raise UsageError(f"{option} must be a whole number, not {written[:60]!r}")
    return int(digits)


def _configuration(arguments: argparse.Namespace, device: Device) -> Configuration:
    static = _whole(arguments, "shared", "0")
    attribute = None
    if arguments.max_dynamic_shared_bytes == "max":
        attribute = device.shared_bytes_per_block_optin - static
    elif arguments.max_dynamic_shared_bytes is not None:
        attribute = _whole(arguments, "max_dynamic_shared_bytes")
    configuration = Configuration(
        device=device,
        registers=_whole(arguments, "registers"),
        threads_per_block=_whole(arguments, "threads"),
        static_shared_bytes=static,
        dynamic_shared_bytes=_whole(arguments, "dynamic_shared", "0"),
        max_dynamic_shared_bytes=attribute,
        carveout_percent=None if arguments.carveout_percent is None else _whole(arguments, "carveout_percent"),
        barriers=_whole(arguments, "barriers"),
        cache_preference=arguments.cache_preference or "none",
        global_caching=arguments.global_caching or "off",
    )
    return check(configuration)


def _bounds(written: str, device: Device) -> _Answer:
    threads, _, blocks = written.partition(",")
    try:
        limit = register_limit(device, int(threads), int(blocks or "1"))
    except ValueError:
        raise UsageError(f"--launch-bounds must be THREADS or THREADS,BLOCKS, not {written[:60]!r}") from None
    occupancy = resident(Configuration(device=device, registers=limit.registers, threads_per_block=limit.threads))
    row = {"arch": device.target, **asdict(limit), **data.as_row(occupancy)}
    return _Answer(lambda style: text.limit_lines(device, limit, occupancy), row, [row])


def _one(arguments: argparse.Namespace, configuration: Configuration, gpu: Gpu | None) -> _Answer:
    occupancy = resident(configuration)
    wanted = None if arguments.min_blocks_per_sm is None else _whole(arguments, "min_blocks_per_sm")
    if wanted is not None and wanted < 1:
        raise UsageError(f"--set min_blocks_per_sm must be at least 1, not {wanted}")
    group = None
    if arguments.cluster_blocks is not None:
        group = clusters(occupancy, _whole(arguments, "cluster_blocks"), gpu.multiprocessors if gpu else None)
    stack = (
        None
        if arguments.stack_bytes is None
        else footprint(configuration.device, _whole(arguments, "stack_bytes"), gpu)
    )
    fixes = of_occupancy(occupancy)
    more = {
        "clusters": None if group is None else asdict(group),
        "local_memory": None if stack is None else asdict(stack),
    }
    return _Answer(
        lambda style: text.report(occupancy, group, stack, wanted, [f"{each.kind}: {each.text}" for each in fixes]),
        data.as_data(occupancy, wanted) | more | {"fixes": fix_data(fixes)},
        [{"arch": configuration.device.target, **data.as_row(occupancy)}],
    )


def _records(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Any]]:
    """CSV records, the header first; items of lists are joined by ``+``, and objects are left out."""
    names = [name for name in rows[0] if name not in ("at_threads", "fixes", "next_block", "tried")] if rows else []
    yield names
    for row in rows:
        yield ["+".join(row[name]) if isinstance(row[name], list) else row[name] for name in names]


# ---- a build ------------------------------------------------------------------------------------------------------


def _of_build(arguments: argparse.Namespace, forms: Sequence[Form]) -> None:
    """Print the kernels of a build, worst first."""
    arguments.devices = ",".join(arguments.device) or None
    policy = _policy.policy_of(arguments)
    inputs = _inputs.inputs_or_stdin(arguments.inputs)
    build = _inputs.scan(inputs)
    kept = Selection(arguments.arch, arguments.kernel, arguments.launch).of(build)
    _selection.refuse_devices(kept.kernels, arguments.device)
    entries = sorted((kernel for kernel in kept.kernels if kernel.role == "entry"), key=damage)
    names = Names(kernel.named_by for kernel in build.kernels)
    shown = entries[: _options.rows_of(arguments)]
    code = fetch.pressures_of(kernel for kernel in shown if sum(kernel.spills or ()))

    run_files = _offers.run_files_near(inputs) if vars(arguments)["try"] else {}
    tried = shown if vars(arguments)["try"] else []
    wanted = [(kernel, _offers.source_in(build, kernel, run_files)) for kernel in tried]
    trials = _trying.trials_of(arguments, wanted, policy, policy, build)

    def text(style: Style) -> Iterator[str]:
        for kernel in shown:
            for device, summary in _summaries(kernel, policy):
                yield from wrapped(_lines(kernel, device, summary, names, code, trials.get(id(kernel))), style)
                yield ""
        yield from fold(len(entries) - len(shown), style)

    def markdown() -> Iterator[str]:
        rows = [(kernel, *each) for kernel in shown for each in _summaries(kernel, policy)]
        yield from _table(rows, names, code, trials).markdown(None)
        yield from fold(len(entries) - len(shown), Style())

    def rows() -> list[dict[str, Any]]:
        return _data(entries, policy, code, trials)

    _answers.answer(forms, text=text, json=rows, csv=lambda: _records(rows()), markdown=markdown)
    _issues.report_issues(build.issues)


def _summaries(kernel: Kernel, policy: Policy) -> Iterator[tuple[str | None, Summary]]:
    """(device, summary) for each device of the policy that runs the kernel; without devices, for the kernel's own
    arch."""
    arch = kernel.key.arch
    for device in applicable_devices(arch, policy.devices) or (arch,):
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
    facts = [f"{usage.registers} registers" if usage.registers is not None else "registers unknown"]
    if usage.shared_bytes:
        facts.append(f"{usage.shared_bytes:,} B shared")
    if usage.spill_bytes:
        facts.append(f"spills {usage.spill_bytes:,} B")
    if summary.launch is not None:
        facts.append(count(summary.launch.threads_per_block, "thread"))
    where = kernel.key.arch or "arch unknown"
    where += f" on {device}" if device != kernel.key.arch else ""
    title = f"{names.of(kernel.named_by)} ({where}): {', '.join(facts)}"
    yield title
    yield f"  {summary.line}"
    if kernel.final is False:
        yield "  relocatable code: registers are final only after the link"
    for fix in _fixes(kernel, device, summary, code, trial):
        yield f"  {fix.kind}: {fix.text}"
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
    """Fixes for the kernel's spills if it has any, else for its occupancy."""
    trial = trial if _its_own(kernel, device) else None
    goal = Goal("spills" if sum(kernel.spills or ()) else "blocks")
    return fixes(kernel, summary.launch, code.get(id(kernel)), trial, goal, on=device)


_Row = tuple[Kernel, str | None, Summary]


def _table(
    rows: Sequence[_Row], names: Names, code: Mapping[int, Pressure], trials: Mapping[int, Trial]
) -> Table[_Row]:
    """Table with one row per kernel and device, with the fix for spills, else for occupancy."""

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
    return Table(columns=columns, rows=rows, title="Occupancy and limiters", empty="no kernels")


def _its_own(kernel: Kernel, device: str | None) -> bool:
    """Whether results compiled for the kernel's arch are valid on ``device``."""
    arch = kernel.key.arch
    return device == arch or (None not in (device, arch) and resolve(str(device))[0] == resolve(str(arch))[0])


def _data(
    kernels: list[Kernel], policy: Policy, code: Mapping[int, Pressure], trials: Mapping[int, Trial]
) -> list[dict[str, Any]]:
    rows = []
    for kernel in kernels:
        for device, summary in _summaries(kernel, policy):
            trial = trials.get(id(kernel)) if _its_own(kernel, device) else None
            need = registers_needed(kernel, code.get(id(kernel)), trial)
            occupancy = None if summary.at_most else summary.occupancy
            rows.append(
                {"symbol": kernel.key.symbol, "arch": kernel.key.arch, "unit": kernel.key.unit, "device": device}
                | summary_data(summary)
                | {
                    "registers_needed": None if need is None else need.registers,
                    "registers_needed_by": None if need is None else need.basis,
                    "fixes": fix_data(_fixes(kernel, device, summary, code, trial)),
                }
                | {"next_block": to_builtins(next_block(occupancy)) if occupancy else None}
                | {"tried": _trying.trial_data(trial, trial.missing if trial else "")}
            )
    return rows
