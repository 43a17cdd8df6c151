"""Commands that an output offers of a kernel, and the way on from a red one: word for word as they run from here."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from spillscan.advice.fixes import fix
from spillscan.advice.ranking import Ranked, spill_weight, summary_of
from spillscan.advice.sweep.proposals import no_step, refusal
from spillscan.builds import buildfile, records
from spillscan.builds.compilation import parse, split
from spillscan.builds.databases import commands, recorded
from spillscan.judging.rule_docs import explanations
from spillscan.model import Finding, Kernel, Launch, Origin
from spillscan.model.build import damage
from spillscan.naming import Names
from spillscan.occupancy.launches import Launches
from spillscan.output.errors import InputError
from spillscan.output.safe import printable
from spillscan.reading.binary import fetch
from spillscan.reports.render import tree_here
from spillscan.reports.report import Report, Way
from spillscan.reports.words import counted, label_of

_DATABASE = "compile_commands.json"
_HEIGHT = 4
"""Folders above an input in which the list of its compilations is looked for."""
_MOST_WAYS = 3
"""Families of which a red output shows the way on."""


def with_ways(report: Report, inputs: Sequence[str], config: str | None, unpacking: Mapping[str, int]) -> Report:
    """The report with the way on from its findings, a family each, the first families first."""
    names, families = report.names, dict[str, list[Kernel]]()
    first: dict[str, Finding] = {}
    there = {each.key for each in report.build.kernels}
    for finding in (each for each in counted(report) if each.kernel.key in there):
        family = names.base(finding.kernel.named_by)
        first.setdefault(family, finding)
        families.setdefault(family, []).append(finding.kernel)
    shown = []
    for family, several in list(families.items())[:_MOST_WAYS]:
        kernels = tuple({id(each): each for each in sorted(several, key=spill_weight, reverse=True)}.values())
        weight = sum(map(spill_weight, kernels))
        shown.append(Ranked("spills" if weight else "occupancy", family, kernels, weight, 0.0))
    if not shown:
        return report
    code = fetch.pressures_of((each.worst for each in shown if each.weight), unpacking)
    databases, tree = databases_near(inputs), tree_here()
    ways = []
    for about in shown:
        made = fix(about, report.launches, tree, code.get(id(about.worst)))
        finding = first[about.family]
        source = source_of(about.worst, databases) if _by_registers(about, finding, report.launches) else ""
        causes = made.causes if about.weight or made.fixes else (finding.message,)
        fixes = made.fixes or (explanations("rules")[finding.rule].fix,)
        if _by_callees(about.worst, finding):
            causes = ("its own code spills nothing, its callees do",)
            fixes = (_callees(about.worst, report.build.kernels, names) or "fix the functions that it calls",)
        ways.append(
            Way(
                finding=finding,
                made=replace(made, causes=causes, fixes=fixes),
                command=_next(about, finding, source, inputs, names, report.launches, config),
            )
        )
    return report.extended(ways=tuple(ways))


def _by_callees(kernel: Kernel, finding: Finding) -> bool:
    """Whether what is found are spills of others that the kernel calls."""
    return finding.rule.startswith("spill") and kernel.spills == (0, 0)


def _callees(kernel: Kernel, kernels: Sequence[Kernel], names: Names) -> str:
    """The functions that it is to be fixed at; empty where none is seen that spills."""
    functions = [each for each in kernels if each.role == "function" and each.key.arch == kernel.key.arch]
    spilling = sorted((each for each in functions if sum(each.spills or ())), key=damage)
    called = [each for each in spilling if each.caller == kernel.key.symbol]
    named = ", ".join(dict.fromkeys(label_of(each, names) for each in (called or spilling)[:_MOST_WAYS]))
    said = "fix" if called else "which it calls is not known; device functions of its arch that spill:"
    return f"{said} {named}" if named else ""


def _by_registers(about: Ranked, finding: Finding, launches: Launches) -> bool:
    """Whether other registers fix it."""
    if about.weight or finding.rule.startswith("registers"):
        return True
    found = summary_of(about.worst, launches.launch_of(about.worst)) if finding.rule.startswith("blocks") else None
    return found is not None and "registers" in found.limiters


_OF_FRAMES = ("local-array", "stack")
"""Rules of what stands in a kernel's frame: what shows that is the way on, not what limits its blocks."""


def _next(
    about: Ranked,
    finding: Finding,
    source: str,
    inputs: Sequence[str],
    names: Names,
    launches: Launches,
    config: str | None,
) -> str:
    of_frame = not about.weight and finding.rule.startswith(_OF_FRAMES)
    if (of_frame or _by_callees(about.worst, finding)) and about.worst.sass is not None and "-" not in inputs:
        return _show(about.worst, _held_by(about.worst, inputs), names)
    return next(commands_for(about, source, inputs, names, launches, config), "")


def databases_near(inputs: Sequence[str]) -> dict[str, set[str]]:
    """Lists of compilations near the inputs: what each compiles and writes, as real paths."""
    folders = dict.fromkeys([os.curdir, "build"])
    for each in inputs:
        folder = each if os.path.isdir(each) else os.path.dirname(each)
        for _ in range(_HEIGHT):
            folders[folder or os.curdir] = None
            folder = os.path.dirname(folder)
    found: dict[str, set[str]] = {}
    for folder in folders:
        for path in (os.path.normpath(os.path.join(folder, name)) for name in (_DATABASE, buildfile.NAME)):
            if not os.path.isfile(path) or path in found:
                continue
            try:
                listed = commands(path)
            except InputError:
                continue
            found[path] = {os.path.realpath(name) for each in listed for name in (each.source, each.object) if name}
    return found


def commands_for(
    about: Ranked,
    source: str,
    inputs: Sequence[str],
    names: Names,
    launches: Launches,
    config: str | None,
    tried: bool = False,
) -> Iterator[str]:
    """Lines to paste: where it is known how the kernel is compiled, what tries its fixes, and a sweep; then what
    shows most of it. ``source``: what a sweep is given."""
    kernel = about.worst
    if not kernel.key.symbol:
        return
    inputs = _held_by(kernel, inputs)
    called, arch = _called(kernel, names), kernel.key.arch
    chosen = [*(["--arch", arch] if arch else [])]
    launch = launches.launch_of(kernel)
    threads = []
    if launch is not None and launch.source in ("policy", "override"):
        threads = ["--launch", f"{kernel.key.symbol}={_of(launch)}"]
    able = bool(source) and not refusal(kernel, source)
    if able and not tried and "-" not in inputs and not no_step(kernel, launch):
        policy = ["--config", config] if config else []
        yield shlex.join(["spillscan", "advise", *inputs, "--kernel", called, *chosen, *threads, *policy, "--try"])
    if able:
        aims = ["--vary", "steps"] if about.about == "spills" or launch is not None else []  # without, it shows caps
        yield shlex.join(["spillscan", "sweep", source, "--kernel", kernel.key.symbol, *chosen, *threads, *aims])
    if "-" in inputs:
        return
    if kernel.sass is not None and about.about == "spills":
        yield _show(kernel, inputs, names)
    else:
        yield shlex.join(["spillscan", "occupancy", *inputs, "--kernel", called, *chosen, *threads])


def _held_by(kernel: Kernel, inputs: Sequence[str]) -> Sequence[str]:
    """The inputs that the kernel was read from; all, where that is not known."""
    code = [kernel.sass.origin] if kernel.sass and kernel.sass.origin else []
    own = [each.input.replace("\\", "/") + "/" for each in (*kernel.origins, *code)]
    kept = [each for each in inputs if any(path.startswith(each.replace("\\", "/").rstrip("/") + "/") for path in own)]
    return kept or inputs


def _show(kernel: Kernel, inputs: Sequence[str], names: Names) -> str:
    chosen = ["--arch", kernel.key.arch] if kernel.key.arch else []
    return shlex.join(["spillscan", "show", _called(kernel, names), *inputs, *chosen])


def _of(launch: Launch) -> str:
    dynamic = launch.dynamic_shared_bytes
    return (
        f"{launch.threads_per_block}" + (f",{dynamic}" if dynamic else "") + ",override" * (launch.source == "override")
    )


def _called(kernel: Kernel, names: Names) -> str:
    """What a table calls it, where that is its alone; else its symbol."""
    name = names.of(kernel.named_by)
    return name if set(names.called(name)) == {kernel.named_by} and printable(name) == name else kernel.key.symbol


def source_of(kernel: Kernel, databases: Mapping[str, set[str]]) -> str:
    """The record of the kernel's compilation, else the command that its log has, which made what the log says; else the
    list of compilations that holds its source or object, else its source where that can be read and needs no options.
    """
    lines = kernel.sass.local.lines if kernel.sass else ()
    files = [kernel.source, kernel.key.unit, *(origin.input for origin in kernel.origins)]
    for line in lines:
        place = line.source
        while place.inlined_at is not None:
            place = place.inlined_at
        files.append(place.file)
    own = {os.path.realpath(file) for file in files if file}
    for origin in kernel.origins:
        for path in (origin.input, origin.input + records.SUFFIX):
            if (made := recorded(path)) is not None and made.by_nvcc and os.path.isfile(made.source):
                return path
        if command := _logged(origin, own):
            return command
    for path, compiled in databases.items():
        if own & compiled:
            return path
    return next((file for file in files if file.endswith((".cu", ".ptx")) and _stands_alone(file)), "")


def _logged(origin: Origin, own: Collection[str]) -> str:
    """The last command of a log, before a kernel's ``origin``, that compiles one of its ``own`` files; empty: none."""
    found = ""
    if origin.line is not None and os.path.isfile(origin.input):
        for number, source, command in _compilations_in(origin.input):
            if number <= origin.line and source in own:
                found = command
    return found


@lru_cache(maxsize=4)
def _compilations_in(path: str) -> tuple[tuple[int, str, str], ...]:
    """The commands of a log that compile a source which is there: line, real path of the source, command. Kernels of
    one log ask for it one after the other."""
    found = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            at = line.find("nvcc ")
            if at < 0 or len(line) >= _LONGEST:
                continue
            words = split(line[line.rfind(" ", 0, at) + 1 :].strip())
            words = words[: words.index("&&")] if "&&" in words else words
            made = parse(words)
            if made is not None and made.sources == 1 and os.path.isfile(made.source):
                found.append((number, os.path.realpath(made.source), shlex.join(words)))
    return tuple(found)


_LONGEST = 1 << 16
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<own>[^"]+)"|<(?P<other>[^>]+)>)', re.M)
_OF_TOOLKITS = ("cuda", "cub/", "thrust/", "cooperative_groups", "nv/", "mma", "curand", "math_constants")
_LARGEST_SOURCE = 4 << 20


def _stands_alone(path: str) -> bool:
    """Whether a source that is there compiles without unknown options: all that it includes, and what that includes,
    stands beside what includes it, or comes with the compiler."""
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
                beside = os.path.normpath(os.path.join(os.path.dirname(path), match["own"]))
                if beside not in seen:
                    seen.add(beside)
                    left.append(beside)
            elif "." in match["other"] and "/" in match["other"] and not match["other"].startswith(_OF_TOOLKITS):
                return False
    return True
