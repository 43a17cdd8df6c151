"""Next steps printed after a result: commands that run as pasted, on the same inputs with the same options."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from spillscan.advice.families import advice
from spillscan.advice.fixes import Fix, Goal, wanted_by
from spillscan.advice.ranking import Ranked, spill_cost
from spillscan.builds import RUN_FILE, record
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules.code import OTHER as OTHER_CODE
from spillscan.model import Build, Finding, Kernel, Origin
from spillscan.model.build import damage
from spillscan.naming import Names
from spillscan.occupancy.launches import Launches
from spillscan.output.errors import InputError
from spillscan.reports.render import tree_here
from spillscan.reports.report import NextStep, Report
from spillscan.reports.words import counted, label_of

if TYPE_CHECKING:
    from spillscan.advice.sweep.trials import Trial
    from spillscan.reading.binary.pressure import Pressure

_HEIGHT = 4
"""Number of folders above an input to search for a run file."""
_MOST_NEXT_STEPS = 3
"""Maximum number of families with next steps in a failing output."""
_MOST_SIBLINGS = 8
"""Maximum number of kernels of one unit whose source lines are followed."""


class Invocation(NamedTuple):
    """Inputs and options of the running command, as typed."""

    inputs: Sequence[str]
    config: Sequence[str] = ()
    """--config and --set."""
    launches: Sequence[str] = ()
    """--launch."""
    builds: Sequence[str] = ()
    """The two builds whose instructions were not yet compared."""

    @classmethod
    def by(cls, arguments: argparse.Namespace, inputs: Sequence[str], builds: Sequence[str] = ()) -> Invocation:
        """Inputs and options from parsed arguments."""
        given = vars(arguments)
        config = ["--config", given["config"]] if given.get("config") else []
        settings = [word for text in given.get("settings") or () for word in ("--set", text)]
        launches = [word for text in given.get("launch") or () for word in ("--launch", text)]
        return cls(inputs, [*config, *settings], launches, builds)


def with_next_steps(report: Report, call: Invocation, policy: Policy) -> Report:
    """The report with next steps for the first families of its findings."""
    names, families = report.names, dict[str, list[Kernel]]()
    first: dict[str, Finding] = {}
    there = {each.key for each in report.build.kernels}
    for finding in (each for each in counted(report) if each.kernel.key in there):
        family = names.base(finding.kernel.named_by)
        first.setdefault(family, finding)
        families.setdefault(family, []).append(finding.kernel)
    shown = []
    for family, several in list(families.items())[:_MOST_NEXT_STEPS]:
        ordered = [first[family].kernel, *sorted(several, key=spill_cost, reverse=True)]  # the step of what is shown
        kernels = tuple({id(each): each for each in ordered}.values())
        spills = wanted_by(first[family].rule) == "spills"
        cost = sum(map(spill_cost, kernels)) if spills else 0
        shown.append(Ranked("spills" if cost else "occupancy", family, kernels, cost, 0.0))
    if not shown:
        return report
    spilling = [each.worst for each in shown if each.cost and each.worst.sass is not None]
    pressures = _pressures(spilling) if spilling else {}
    run_files, tree = run_files_near(call.inputs), tree_here()
    steps = []
    for about in shown:
        finding = first[about.family]
        kernel, goal = about.worst, goal_of(policy, about.worst, finding.rule)
        made = advice(about, report.launches, tree, pressures.get(id(kernel)), goal=goal)
        source = source_of(kernel, run_files) if goal.wanted in ("spills", "blocks", "launch") else ""
        causes, fixes = made.causes if about.cost else (), made.fixes
        if _by_callees(kernel, finding):
            causes, fixes = (_callees(kernel, report.build.kernels, names),), ()
        elif goal.wanted == "none":
            from spillscan.judging.rule_docs import explanations

            fixes = (Fix("fix", explanations("rules")[finding.rule].fix),)
        made = replace(made, causes=causes, fixes=fixes)
        command = _next(about, finding, source, call, names, report.launches)
        steps.append(NextStep(finding=finding, made=made, command=command))
    return report.extended(steps=tuple(steps))


def _pressures(kernels: Sequence[Kernel]) -> dict[int, Pressure]:
    from spillscan.reading.binary import fetch

    return fetch.pressures_of(kernels)


def goal_of(policy: Policy, kernel: Kernel, rule: str) -> Goal:
    """Goal of a fix for a rule's findings, within the policy's limits."""
    limits = policy.terms_of(kernel).limits
    wanted, most = wanted_by(rule), limits["max_registers"]
    return Goal("blocks" if wanted == "registers" and most is None else wanted, limits["min_blocks_per_sm"], most)


def _by_callees(kernel: Kernel, finding: Finding) -> bool:
    """Whether the kernel itself has no spills, so that a spill finding is due to called functions."""
    return finding.rule.startswith("spill") and kernel.spills == (0, 0)


def _callees(kernel: Kernel, kernels: Sequence[Kernel], names: Names) -> str:
    """Cause text that names the called functions that spill."""
    functions = [each for each in kernels if each.role == "function" and each.key.arch == kernel.key.arch]
    spilling = sorted((each for each in functions if sum(each.spills or ())), key=damage)
    called = [each for each in spilling if each.caller == kernel.key.symbol]
    named = ", ".join(dict.fromkeys(label_of(each, names) for each in (called or spilling)[:_MOST_NEXT_STEPS]))
    if called:
        return f"the spills are in called functions: {named}"
    return "the spills are in called functions" + (f"; spilling functions of this arch: {named}" if named else "")


_OF_FRAMES = ("local-array", "stack")
"""Rules about the stack frame; `show` lists its contents."""


def _next(about: Ranked, finding: Finding, source: str, call: Invocation, names: Names, launches: Launches) -> str:
    if finding.rule == OTHER_CODE.id:
        words = ["spillscan", "diff", "--with", "code-text", *call.builds, "--kernel", _called(about.worst, names)]
        return shlex.join(words) if call.builds and "-" not in call.builds else ""
    of_frame = not about.cost and finding.rule.startswith(_OF_FRAMES)
    if (of_frame or _by_callees(about.worst, finding)) and about.worst.sass is not None and "-" not in call.inputs:
        return _show(about.worst, _inputs_of(about.worst, call.inputs), names)
    return next(commands_for(about, source, call, names, launches), "")


def run_files_near(inputs: Sequence[str]) -> dict[str, set[str]]:
    """Real paths of sources and outputs by run file: those among the inputs, else those near the inputs."""
    own = [path for path in inputs if record.is_one(path)]
    folders = dict.fromkeys([os.curdir, "build"])
    for each in inputs:
        folder = each if os.path.isdir(each) else os.path.dirname(each)
        for _ in range(_HEIGHT):
            folders[folder or os.curdir] = None
            folder = os.path.dirname(folder)
    near = (os.path.normpath(os.path.join(folder, RUN_FILE)) for folder in folders)
    files: dict[str, set[str]] = {}
    for path in own or dict.fromkeys(near):
        with suppress(InputError):
            if calls := record.read(path).compilations:
                files[path] = {os.path.realpath(name) for each in calls for name in (each.source, each.object) if name}
    return files


def commands_for(
    about: Ranked, source: str, call: Invocation, names: Names, launches: Launches, trial: Trial | None = None
) -> Iterator[str]:
    """Commands to paste, the most useful first.

    ``source``: what compiles the kernel, from :func:`source_of`; ``trial``: what `advise --try` compiled, if it ran.
    """
    from spillscan.advice.sweep.proposals import no_step, refusal

    kernel = about.worst
    if not kernel.key.symbol:
        return
    inputs = _inputs_of(kernel, call.inputs)
    called = _called(kernel, names)
    arch = ["--arch", kernel.key.arch] if kernel.key.arch else []
    unsure = trial.is_other_build if trial else source.endswith(".cu") and os.path.isfile(source)  # options unknown
    able = bool(source) and not refusal(kernel, source) and not unsure
    launch = launches.launch_of(kernel)
    helps = able and not no_step(kernel, launch)
    if helps and trial is None and "-" not in inputs:
        leading = inputs if source_of(kernel, run_files_near(inputs)) else call.inputs
        words = ["advise", *leading, "--kernel", called, *arch, *call.launches, *call.config, "--try"]
        yield shlex.join(["spillscan", *words])
    if helps or (able and launch is None):
        yield shlex.join(["spillscan", "sweep", source, "--kernel", kernel.key.symbol, *arch, *call.launches])
    if "-" in inputs:
        return
    if kernel.sass is not None and (kernel.role == "function" or about.about == "spills"):
        yield _show(kernel, inputs, names)
    elif kernel.role != "function":
        words = ["occupancy", *inputs, "--kernel", called, *arch, *call.launches, *call.config]
        yield shlex.join(["spillscan", *words])


def _inputs_of(kernel: Kernel, inputs: Sequence[str]) -> Sequence[str]:
    """Inputs that the kernel was read from; all inputs if unknown."""
    code = [kernel.sass.origin] if kernel.sass and kernel.sass.origin else []
    own = [each.input.replace("\\", "/") + "/" for each in (*kernel.origins, *code)]
    kept = [each for each in inputs if any(path.startswith(each.replace("\\", "/").rstrip("/") + "/") for path in own)]
    return kept or inputs


def _show(kernel: Kernel, inputs: Sequence[str], names: Names) -> str:
    arch = ["--arch", kernel.key.arch] if kernel.key.arch else []
    return shlex.join(["spillscan", "show", _called(kernel, names), *inputs, *arch])


def _called(kernel: Kernel, names: Names) -> str:
    """Display name of the kernel if complete and unambiguous, else its symbol."""
    return names.argument(kernel.named_by)


def source_of(kernel: Kernel, run_files: Mapping[str, set[str]]) -> str:
    """Argument of ``sweep`` that compiles the kernel: a command, a run file or a source; empty if unknown.

    The command from the kernel's log that made it, else the run file with its source or object, else its source if that
    is readable and needs no options.
    """
    named = [kernel.source, kernel.key.unit]
    for line in kernel.sass.local.lines if kernel.sass else ():
        place = line.source
        while place.inlined_at is not None:
            place = place.inlined_at
        named.append(place.file)
    own = {os.path.realpath(file) for file in named if file}
    for origin in kernel.origins if own else ():
        if command := _logged(origin, own):
            return command
    files = [*named[:2], *(origin.input for origin in kernel.origins), *named[2:]]
    own = {os.path.realpath(file) for file in files if file}
    for path, compiled in run_files.items():
        if own & compiled:
            return path
    return next((_from_here(file) for file in files if file.endswith((".cu", ".ptx")) and _is_self_contained(file)), "")


def _from_here(path: str) -> str:
    """Path of an existing file, relative if it is below the current folder, else absolute."""
    full = os.path.abspath(path)
    full = full if os.path.exists(full) and os.path.samefile(full, path) else os.path.realpath(path)
    below = os.path.relpath(full)
    return full if below.startswith(os.pardir) else below


def source_in(build: Build, kernel: Kernel, run_files: Mapping[str, set[str]]) -> str:
    """What to compile the kernel from; if it names no readable source, what a kernel of its unit in the build names."""
    same = (each for each in build.kernels if each.key.unit and _unit_of(each) == _unit_of(kernel))
    with_lines = (each for each in same if each.sass and each.sass.local.lines)
    tried = chain([kernel], islice(with_lines, _MOST_SIBLINGS))
    return next(filter(None, (source_of(each, run_files) for each in tried)), "")


def _unit_of(kernel: Kernel) -> tuple[str, str]:
    return kernel.origins[0].input if kernel.origins else "", kernel.key.unit


def _logged(origin: Origin, own: Collection[str]) -> str:
    """Last command of a log, before the kernel's ``origin``, that compiles one of its ``own`` files; empty if none."""
    last = ""
    if origin.line is not None and os.path.isfile(origin.input):
        for number, source, command in _compilations_in(origin.input):
            if number <= origin.line and source in own:
                last = command
    return last


@lru_cache(maxsize=4)
def _compilations_in(path: str) -> tuple[tuple[int, str, str], ...]:
    """Commands of a log that compile one existing source: line, real path of the source, command.

    Cached, since it is called for each kernel of the log.
    """
    from spillscan.builds.compilation import parse, split

    calls = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            at = line.find("nvcc ")
            if at < 0 or len(line) >= _LONGEST:
                continue
            made = parse(split(line[line.rfind(" ", 0, at) + 1 :].strip()))
            if made is not None and len(made.sources) == 1 and os.path.isfile(made.source):
                calls.append((number, os.path.realpath(made.source), shlex.join(made.words)))
    return tuple(calls)


_LONGEST = 1 << 16
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<own>[^"]+)"|<(?P<other>[^>]+)>)', re.M)
_OF_TOOLKITS = ("cuda", "cub/", "thrust/", "cooperative_groups", "nv/", "mma", "curand", "math_constants")
_LARGEST_SOURCE = 4 << 20


def _is_self_contained(path: str) -> bool:
    """Whether an existing source compiles without include options.

    True if everything that it includes, directly or not, is found next to the including file or comes with the
    compiler.
    """
    left, seen = [path], {path}
    while left:
        path = left.pop()
        try:
            if os.path.getsize(path) > _LARGEST_SOURCE:
                return False
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            return False
        for match in _INCLUDE.finditer(text):
            if match["own"]:
                included = os.path.normpath(os.path.join(os.path.dirname(path), match["own"]))
                if included not in seen:
                    seen.add(included)
                    left.append(included)
            elif "." in match["other"] and "/" in match["other"] and not match["other"].startswith(_OF_TOOLKITS):
                return False
    return True
