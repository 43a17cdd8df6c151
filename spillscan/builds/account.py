"""The account of a run that ended: its calls, the files with GPU code that it left, and what earlier runs knew."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from spillscan.builds import launcher, tree
from spillscan.builds.record import BuildRecord, Call, Output, Run
from spillscan.output import folders

HELD, LIST = "held", "list"
"""In the folder of a run: a file that the process holds as long as it lives, and what was known before the build."""
_RELEASE = re.compile(rb"\bV(\d+(?:\.\d+)+)")
_COMPILER = re.compile(r"(?:\A|/)(?:nvcc|clang)[^/]*\Z")
_CMAKE = re.compile(r"cmake\d*(?:\.exe)?\Z")
_SCRATCH = re.compile(r"(.*?)/(?:CMakeFiles|meson-private)(?:/|\Z)")
_OF_CONFIGURE = re.compile(r"(?:\A|/)conftest\.\w+\Z|/share/cmake[^/]*/Modules/")
_WRITTEN_LAST = ("CMakeFiles/TargetDirectories.txt", "meson-private/install.dat", "config.status")
"""Files that a configure step writes at its end, if it ends well."""

Kernel = tuple[str, str | None]
"""Symbol and arch."""


class Kernels(NamedTuple):
    """The kernels of one file."""

    final: Mapping[Kernel, int | None]
    """Registers of those that are final."""
    relocatable: Collection[Kernel]
    """Those that wait for the device linker."""


class Readers(NamedTuple):
    """How GPU code and reports are read."""

    output: Callable[[str], Kernels | None]
    """The kernels of a file; ``None`` if no GPU code is in it."""
    report: Callable[[str], Mapping[Kernel, int | None]]
    """Registers of the kernels that a compiler reported."""


class Known(Struct, frozen=True, kw_only=True):
    """What is known before a build begins."""

    process: int
    """Of ``spillscan run``."""
    since_ns: int
    tops: tuple[str, ...]
    """Watched folders."""
    files: dict[str, tuple[int, int, int]]


class Account(NamedTuple):
    """A run that ended, and what its run file knows now."""

    build: BuildRecord
    status: int
    """Exit status of the build, below 0 a signal."""
    calls: tuple[Call, ...]
    """Calls of this run, without compiler checks."""
    kept: int
    """Calls of earlier runs."""
    checks: int
    failed_checks: int


def after(before: BuildRecord, at_start: BuildRecord, run: Run, process: int, readers: Readers) -> Account:
    """The account of ``run``, whose command was a ``process``: what ``before`` knows, runs that were killed, and what
    changed. ``at_start``: the run file when it began."""
    killed = [each for each in before.runs if each.kept and each.kept != run.kept and _was_killed(each.kept)]
    ended = [run.kept, *(each.kept for each in killed)]
    lists = [_known(each) for each in ended]
    known = min(lists, key=lambda each: each.since_ns)
    calls = sorted((call for kept in ended for call in _calls(kept)), key=lambda call: call.id)
    own = {str(each.process) for each in lists}
    checks = [call for call in calls if _is_check(call, own, {str(process): run.status == 0})]
    releases: dict[str, str] = {}
    new = [_finished(call, releases) for call in calls if call not in checks]

    watched = tree.Watched([folders.kept("runs"), folders.kept("launchers"), *map(_toolkit, calls)])
    later = [each for each in watched.found(_folders(calls)) if not watched.covers(known.tops, each)]
    changed = watched.changed(known.files, known.tops) | watched.changed_since(known.since_ns, later)
    changed |= {each.path for each in before.outputs if not each.is_as_it_was and os.path.isfile(each.path)}
    carried = [each for each in before.outputs if each.path not in changed and os.path.isfile(each.path)]
    if any(not os.path.isfile(each.path) for each in before.outputs if not each.repeats):
        carried = [replace(each, repeats=False) for each in carried]
    outputs, kernels, repeated = _outputs(changed, readers)

    old = [each for each in before.calls if not any(_replaces(call, each) for call in new)]
    reports = {call.id: readers.report(call.report) for call in (*new, *(old if kernels else ())) if call.status == 0}
    stay = {each.path for each in carried}
    calls_now = []
    for call in (*old, *new):
        reported = reports.get(call.id, {})
        made = {path for path in call.made if path in stay}
        for path, held in kernels.items():
            if any(each in held.final or each in held.relocatable for each in reported):
                made |= {path, *repeated[path]}
        placed = replace(call, made=tuple(sorted(made)))
        if call.id in {each.id for each in new} or made or (not _made_of(call, before) and _has_sources(call)):
            calls_now.append(placed)
    outputs = [*carried, *_with_unseen(outputs, kernels, repeated, reports.values())]
    outputs = list(_with_older(outputs, kernels, readers))
    finished = replace(run, kept="", did=bool(new or kernels))
    lost = {each.kept for each in (*killed, run)}
    runs = [each for each in before.runs if each.kept not in lost and not _settles(finished, each, at_start)]
    build = BuildRecord(
        runs=(*runs, finished),
        watched=tuple(watched.outermost([*known.tops, *later, *filter(os.path.isdir, before.watched)])),
        calls=tuple(calls_now),
        outputs=tuple(outputs),
    )
    for each in killed:
        shutil.rmtree(each.kept, ignore_errors=True)
    failed = sum(call.status != 0 for call in checks)
    return Account(build, run.status or 0, tuple(new), len(calls_now) - len(new), len(checks), failed)


def _made_of(call: Call, before: BuildRecord) -> bool:
    return any(call.id == each.id and each.made for each in before.calls)


def _settles(run: Run, earlier: Run, at_start: BuildRecord) -> bool:
    """Whether ``run`` takes the place of an ``earlier`` one: the same again, or a good one after a failed one."""
    if earlier not in at_start.runs or earlier.folder != run.folder:
        return False
    return earlier.command == run.command or bool(earlier.status and run.status == 0 and run.did)


def _was_killed(kept: str) -> bool:
    return os.path.exists(os.path.join(kept, LIST)) and folders.is_held(os.path.join(kept, HELD)) is False


def _known(kept: str) -> Known:
    with open(os.path.join(kept, LIST), "rb") as file:
        return msgspec.msgpack.decode(file.read(), type=Known)


# ---- calls ---------------------------------------------------------------------------------------------------------


def _calls(kept: str) -> Iterator[Call]:
    for path in glob.glob(os.path.join(glob.escape(kept), "*.json")):
        with suppress(OSError, msgspec.MsgspecError), open(path, "rb") as file:
            began = msgspec.json.decode(file.read(), type=dict)
            began_ns = began.pop("began_ns", os.stat(path).st_mtime_ns)
            began["id"] = f"{began_ns}-{os.path.basename(path).removesuffix('.json')}"
            yield msgspec.convert(began, Call)
    for path in glob.glob(os.path.join(glob.escape(kept), "*.began")):  # killed before the launcher had started
        with suppress(OSError), open(path, encoding="utf-8", errors="backslashreplace") as file:
            folder, *words = file.read().split("\0")[:-1] or [""]
            if words and _COMPILER.search(words[0]):
                yield Call(
                    id=f"{os.stat(path).st_mtime_ns}-{os.path.basename(path)}", command=tuple(words), folder=folder
                )


def _finished(call: Call, releases: dict[str, str]) -> Call:
    compiler = call.command[0]
    if compiler not in releases:
        releases[compiler] = release_of(compiler, call.folder)
    files = {call.path(name): digest for name, digest in call.files.items()}
    return replace(call, ancestors=(), files=files, version=releases[compiler])


def release_of(compiler: str, folder: str) -> str:
    """The release of a compiler that is called in ``folder``: ``13.0.88``; empty if it does not say."""
    try:
        said = subprocess.run([compiler, "--version"], cwd=folder, capture_output=True, check=False, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _RELEASE.search(said)
    return found[1].decode() if found else ""


def _replaces(call: Call, old: Call) -> bool:
    return call.repeats(old) and (call.status == 0 or old.status != 0)


def _has_sources(call: Call) -> bool:
    return not call.sources or any(os.path.exists(call.path(each)) for each in call.sources)


def _is_check(call: Call, own: Collection[str], ended_well: Mapping[str, bool]) -> bool:
    """Whether a configure step that ended well called a compiler only to try it. ``own``: processes of ``spillscan
    run``; ``ended_well``: by process, what is known."""
    step: tuple[str, ...] = ()
    for ancestor in call.ancestors:
        if ancestor[0] in own:
            return False
        if (configures := _configures(ancestor[2:])) is not None:
            step = ancestor if configures else ()
            break
    if not step:
        return False
    began_ns = int(call.id.partition("-")[0])
    places = {step[1], *(found[1] for word in (call.folder, *call.words) if (found := _SCRATCH.match(word)))}
    places |= {os.path.join(step[1], value) for before, value in pairwise(step) if before == "-B"}
    places |= {os.path.join(step[1], word.removeprefix("-B")) for word in step if word.startswith("-B")}
    last = (tree.entry_of(os.path.join(place, name)) for place in places for name in _WRITTEN_LAST)
    if not ended_well.get(step[0], any(entry is not None and entry[1] >= began_ns for entry in last)):
        return False
    sources = (call.path(each) for each in call.sources)
    return not any(
        os.path.exists(each) and not _SCRATCH.match(each) and not _OF_CONFIGURE.search(each) for each in sources
    )


def _configures(words: Iterable[str]) -> bool | None:
    """Whether a command is a configure step; ``None`` if it is another program."""
    words = list(words)
    names = [os.path.basename(word) for word in words[:3]]
    if names and _CMAKE.match(names[0]):
        return not {"--build", "-P", "-E", "--install"} & set(words)
    if any(name in ("meson", "meson.py") for name in names):
        return bool({"setup", "regenerate"} & set(words))
    return True if "configure" in names[:2] else None


def _folders(calls: Iterable[Call]) -> set[str]:
    """The folders in which calls worked, and those of the files that they name."""
    found: set[str] = set()
    for call in calls:
        found.add(call.folder)
        words = call.words[1:]
        for before, word in pairwise(["", *words]):
            for name in (word, word.partition("=")[2], word.removeprefix("-o")):
                path = call.path(name) if name else ""
                if path and os.path.isfile(path):
                    found.add(os.path.dirname(os.path.realpath(path)))
                elif path and before in ("-odir", "--output-directory") and os.path.isdir(path):
                    found.add(path)
    return found


def _toolkit(call: Call) -> str:
    """The folder of the compiler's toolkit, or as much of it as does not contain the build: ``~/bin/nvcc``."""
    found = os.path.realpath(shutil.which(call.command[0]) or call.command[0])
    compiler = launcher.behind_scripts(found)
    programs, build = os.path.dirname(compiler), os.path.join(os.path.realpath(call.folder), "")
    tops = (os.path.dirname(programs), programs)
    return next((top for top in tops if not build.startswith(os.path.join(top, ""))), compiler)


# ---- outputs -------------------------------------------------------------------------------------------------------


def _outputs(changed: Iterable[str], readers: Readers) -> tuple[list[Output], dict[str, Kernels], dict[str, list[str]]]:
    """The files with GPU code, smallest first; the kernels of those that others do not repeat; and, by these, the files
    that repeat them."""
    found: list[Output] = []
    kernels: dict[str, Kernels] = {}
    owner: dict[bytes, str] = {}
    repeated: dict[str, list[str]] = {}
    sizes = {path: entry for path in changed if (entry := tree.entry_of(path)) is not None}
    for path in sorted(sizes, key=lambda path: (sizes[path][2], path)):
        if not (own := tree.pieces(path)):
            continue
        repeats = own <= owner.keys()
        if not repeats:
            held = readers.output(path)
            if held is None:
                continue
            kernels[path] = held
            repeated[path] = []
            owner |= {piece: path for piece in own if piece not in owner}
        for other in {owner[piece] for piece in own} - {path}:
            repeated[other].append(path)
        found.append(Output(path=path, digest=tree.digest_of(path), entry=sizes[path], repeats=repeats))
    return found, kernels, repeated


def _with_unseen(
    outputs: Iterable[Output],
    kernels: Mapping[str, Kernels],
    repeated: Mapping[str, list[str]],
    reports: Iterable[Mapping[Kernel, int | None]],
) -> list[Output]:
    """The outputs with their kernels that no report explains: of another number of registers, if they are final."""
    seen: dict[Kernel, set[int | None]] = {}
    for report in reports:
        for kernel, registers in report.items():
            seen.setdefault(kernel, set()).add(registers)
    relocatable = {each for held in kernels.values() for each in held.relocatable}
    unseen: dict[str, set[str]] = {}
    for path, held in kernels.items():
        lacking = {kernel[0] for kernel in held.relocatable if kernel not in seen}
        for kernel, registers in held.final.items():
            known = seen.get(kernel, set())
            if not known or (
                kernel not in relocatable and {registers, None}.isdisjoint(known) and registers is not None
            ):
                lacking.add(kernel[0])
        for each in (path, *repeated[path]):
            unseen.setdefault(each, set()).update(lacking)
    return [replace(each, unseen=tuple(sorted(unseen.get(each.path, ())))) for each in outputs]


def _with_older(outputs: Iterable[Output], kernels: Mapping[str, Kernels], readers: Readers) -> Iterator[Output]:
    """The outputs, with the object that was compiled after they linked it."""
    outputs = list(outputs)
    objects = [each for each in outputs if each.path in kernels and kernels[each.path].relocatable]
    for output in outputs:
        later = [each for each in objects if each.entry[1] > output.entry[1]]
        if later and not output.repeats and tree.is_linked(output.path):
            linked = kernels.get(output.path) or readers.output(output.path) or Kernels({}, ())
            later = [each for each in later if any(kernel in linked.final for kernel in kernels[each.path].relocatable)]
        yield replace(output, older_than=later[0].path if later and tree.is_linked(output.path) else "")
