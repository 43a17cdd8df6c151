"""Runs a build and learns of each call of a compiler: which sources, which command, how it ended, what it reported.

A launcher stands in the build's way: as ``nvcc`` first on ``PATH``, within a folder that looks like the toolkit's, and
as CMake's compiler launcher. It stays where it is and runs the real compiler when nothing watches, for CMake keeps what
it finds. What it cannot see (a compiler that is called by an absolute path, or with another environment) is known by
what it leaves: a new object with device code that no call explains.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from spillscan.builds import account, compilation, databases
from spillscan.builds.buildfile import BuildFile, Kept
from spillscan.builds.compilation import is_check
from spillscan.builds.records import RUN, calls, digest_of
from spillscan.model.units import State, Unit
from spillscan.output.errors import UsageError
from spillscan.output.folders import kept

COMPILERS = ("nvcc",)
_BEAR = "bear"
_WRAP = ("-I", "-m", "spillscan", "wrap", "--watched", "--")
_DEVICE_LINK = b"__cudaPrelinkedFatbins"
"""What nvcc's ``link.stub`` names in an object that it makes of objects which are known already."""
_LARGEST_REPORT_BYTES = 64 << 20
_RELEASE = re.compile(rb"\bV(\d+(?:\.\d+)+)")
_CUBIN_MACHINE = b"\xbe\x00"


class Watched(NamedTuple):
    """A build that came to its end."""

    status: int
    """Its exit status, below 0 the signal that ended it."""
    calls: list[tuple[Mapping[str, Any], int | None, bytes]]
    """How each call of a compiler began, its status, and what it printed."""
    objects: list[str]
    """Files with device code that were written meanwhile, below the folder in which it ran."""
    statistics: str
    """What ccache wrote of its hits, if it did."""


def watch(command: Sequence[str], environment: Mapping[str, str], top: str, *, intercept: bool = False) -> Watched:
    """Run a build in ``top``, with its standard streams as they are. ``intercept``: bear sees each program start, too.

    Raises :class:`~spillscan.UsageError` where there is no such command.
    """
    if intercept and shutil.which(_BEAR, path=environment.get("PATH")) is None:
        raise UsageError(f"{_BEAR} is not installed", "install it (apt install bear), or leave --intercept out")
    with tempfile.TemporaryDirectory(prefix="spillscan-run-") as folder:
        log = os.path.join(folder, "ccache")
        marker = os.path.join(folder, "begin")
        with open(marker, "wb"):
            started = os.stat(marker).st_mtime
        events = os.path.join(folder, "events")
        try:
            build = subprocess.Popen(
                [_BEAR, "intercept", "--output", events, "--", *command] if intercept else command,
                cwd=top,
                env={**environment, **_variables(environment, folder), "CCACHE_STATSLOG": log},
                close_fds=False,
            )
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror}") from None
        status = _wait(build)
        found = [*_intercepted(events), *calls(folder)]
        return Watched(status, found, list(_new_objects(top, started)), _text_of(log))


def _intercepted(path: str) -> Iterator[tuple[Mapping[str, Any], int | None, bytes]]:
    """The calls of compilers that bear saw, as :func:`~spillscan.builds.records.calls` has them, without reports. What
    the launcher saw of the same object counts instead."""
    begun: dict[str, Mapping[str, Any]] = {}
    ended: dict[str, int] = {}
    try:
        with open(path, "rb") as file:
            events = [json.loads(line) for line in file]
    except (OSError, ValueError):  # an older bear, or nothing was started
        return
    for event in events:
        if "started" in event:
            begun[event["rid"]] = event["started"]["execution"]
        elif "terminated" in event:
            ended[event["rid"]] = int(event["terminated"]["status"])
        elif "signalled" in event:
            ended[event["rid"]] = -int(event["signalled"]["number"])
    for key, execution in begun.items():
        words = execution["arguments"]
        if os.path.basename(execution["executable"]) in COMPILERS and compilation.makes_machine_code(words):
            call = {"command": words, "compiler": execution["executable"], "folder": execution["working_dir"]}
            yield {**call, "digests": {}, "by": _BEAR}, ended.get(key), b""


def _wait(build: subprocess.Popen[bytes]) -> int:
    """The terminal sends its signals to the build, too: what is to end by them is the build; others are passed on."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, lambda number, _: build.send_signal(number))
    try:
        return build.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _variables(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment variables that put the launcher in the build's way; what the user has set stays."""
    path = environment.get("PATH", os.defpath)
    found = {RUN: folder}
    if not environment.get("CMAKE_CUDA_COMPILER_LAUNCHER"):
        found["CMAKE_CUDA_COMPILER_LAUNCHER"] = ";".join((sys.executable, *_WRAP))
    if not environment.get("CMAKE_EXPORT_COMPILE_COMMANDS"):
        found["CMAKE_EXPORT_COMPILE_COMMANDS"] = "ON"
    real = shutil.which("nvcc", path=path)
    if real is not None:
        by_ccache = _behind_ccache(front := _front(real))
        if " " not in by_ccache and not environment.get("CCACHE_PREFIX"):  # it is split at blanks
            found["CCACHE_PREFIX"] = by_ccache
        found["PATH"] = os.pathsep.join((os.path.join(front, "bin"), path))
        if not environment.get("CUDACXX"):  # or CMake keeps the launcher for the compiler
            found["CUDACXX"] = real
        for name in ("PYTORCH_NVCC", "CUDA_NVCC_EXECUTABLE"):  # of torch.utils.cpp_extension, of CMake's FindCUDA
            if not environment.get(name):
                found[name] = os.path.join(front, "bin", "nvcc")
    return found


def release(path: str | None = None) -> str:
    """The release of the nvcc on the ``path``: ``13.0.88``; empty where none is."""
    found = shutil.which("nvcc", path=path)
    return "" if found is None else _release(found)


def toolkit(path: str | None = None) -> str:
    """Where the toolkit of the nvcc on the ``path`` lies; empty where none is."""
    real = shutil.which("nvcc", path=path)
    return "" if real is None else os.path.dirname(os.path.dirname(_behind_scripts(os.path.realpath(real))))


def _front(real: str) -> str:
    """A folder that looks like the toolkit of the compiler ``real``, with the launcher in its place: called like it,
    too, for build scripts take the release from there. Its path, content and times are the same from run to run:
    caches take them for the compiler's."""
    target = _behind_scripts(os.path.realpath(real))
    top = os.path.dirname(os.path.dirname(target))
    number = hashlib.sha256(f"{sys.executable}\0{real}".encode()).hexdigest()[:16]
    front = os.path.join(kept("launchers"), number, os.path.basename(top) or "cuda")
    tools = os.path.join(front, "bin")
    os.makedirs(tools, exist_ok=True)
    for place, files in ((front, top), (tools, os.path.join(top, "bin"))):
        for name in os.listdir(files) if os.path.basename(os.path.dirname(target)) == "bin" else ():
            link = os.path.join(place, name)
            if name not in (*COMPILERS, "bin") and not os.path.lexists(link):
                os.symlink(os.path.join(files, name), link)
    launcher = f'exec {shlex.join((sys.executable, *_WRAP, target))} "$@"\n'
    _write_script(os.path.join(tools, "nvcc"), launcher, os.stat(target).st_mtime)
    return front


def _behind_ccache(front: str) -> str:
    """What ccache calls in the compiler's place where its cache has nothing, whichever launcher the build has."""
    script = os.path.join(front, "behind-ccache")
    launcher = shlex.join((sys.executable, *_WRAP))
    _write_script(script, f'case "${{1##*/}}" in nvcc) exec {launcher} "$@" ;; esac\nexec "$@"\n', 0)
    return script


def _write_script(path: str, text: str, seconds: float) -> None:
    text = f"#!/bin/sh\n{text}"
    if _text_of(path) != text:
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(draft, 0o755)
        os.utime(draft, (seconds, seconds))
        os.replace(draft, path)


_EXEC = re.compile(r"\A#!/bin/(?:ba|da)?sh\n(?:#[^\n]*\n)*exec ([^\s\"'$]+/nvcc) \"\$@\"\n\Z")


def _behind_scripts(path: str) -> str:
    """nvcc looks for its toolkit beside the name by which it is called: a script that only calls it stands for it."""
    found = _EXEC.match(_text_of(path))
    return os.path.realpath(found[1]) if found else path


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _new_objects(top: str, since: float) -> Iterator[str]:
    for place, folders, _ in os.walk(top):
        folders[:] = sorted(name for name in folders if name != ".git")
        yield from _objects(place, since)


def _objects(place: str, since: float = 0, leaving_out: Collection[str] = ()) -> Iterator[str]:
    """The objects in a folder that hold device code, written at or after a time, but for those of real paths that are
    left out."""
    for name in sorted(os.listdir(place)):
        path = os.path.join(place, name)
        if name.endswith(compilation.OBJECTS) and not os.path.islink(path) and not is_check(path):
            with contextlib.suppress(OSError):
                if (
                    os.stat(path).st_mtime >= since
                    and os.path.realpath(path) not in leaving_out
                    and holds_device_code(path)
                ):
                    yield path


def holds_device_code(path: str) -> bool:
    """Whether an object holds machine code of a GPU, or PTX, of its own: a cubin, or sections in which nvcc puts what
    it compiled, not linked."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < 64:
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] == b"\x7fELF" and data[18:20] == _CUBIN_MACHINE:
                return True
            held = any(data.find(name) >= 0 for name in (b".nv_fatbin", b"__nv_relfatbin", b".nvFatBin"))
            return held and data.find(_DEVICE_LINK) < 0


# ---- what was seen ------------------------------------------------------------------------------------------------


def account_of(
    seen: Watched, command: Sequence[str], top: str, before: BuildFile | None, expected: Sequence[Unit]
) -> BuildFile:
    """The build as it is now: what was compiled, beside what a run ``before`` knows and nothing has changed since.
    Paths are seen from ``top``; ``expected``: what build systems of its folders list."""
    units: dict[str, Kept] = {}
    for known in () if before is None else before.units:
        made = os.path.join(top, known.unit.object)
        if known.unit.state in ("failed", "killed", "unfinished") or (
            known.unit.state == "done" and os.path.exists(made)
        ):
            units[os.path.realpath(made)] = known
    explained: set[str] = set()
    linked: set[str] = set()
    releases: dict[str, str] = {}
    for began, status, report in seen.calls:
        for unit in _units(began, status, report, top, releases):
            made = os.path.realpath(os.path.join(top, unit.object))
            text = report[:_LARGEST_REPORT_BYTES].decode("utf-8", "replace")
            units[made] = Kept(unit=unit, report=text, made=digest_of(made) or "")
            explained.add(made)
        if (parsed := compilation.parse(began["command"])) is not None:  # what a call links, it does not explain
            explained.add(os.path.realpath(os.path.join(began["folder"], parsed.output)))
        linked |= {
            os.path.join(began["folder"], word) for word in began["command"] if word.endswith(compilation.OBJECTS)
        }
    listed = {os.path.realpath(each.object): each for each in expected}
    whole = databases.whole_lists(expected)
    for made, known in list(units.items()):
        if made in listed:
            units[made] = replace(known, unit=account.with_list(known.unit, listed[made]))
        elif known.unit.state != "done" and made not in explained and whole & databases.whole_lists([known.unit]):
            del units[made]  # it failed, and is to be compiled no longer
    lists = {listed[made].evidence for made in units if made in listed}  # another build folder is another build
    for made, unit in listed.items():
        if unit.evidence in lists:
            state: State = "unknown" if os.path.exists(made) else "not-begun"
            units.setdefault(made, Kept(unit=replace(unit, state=state)))
    explained |= units.keys()
    written = [path for path in seen.objects if os.path.realpath(path) not in explained]
    old = () if before is None else before.unexplained
    beside = [os.path.join(top, path) for path in (*written, *old, *units, *linked)]
    older = list(_neighbours(beside, {*explained, *map(os.path.realpath, written)}))
    unexplained = [os.path.relpath(path, top) for path in (*written, *older)]
    return BuildFile(
        command=tuple(command),
        folder=os.curdir,
        status=seen.status,
        units=tuple(units.values()),
        unexplained=tuple(unexplained),
        notes=tuple(_notes(seen, unexplained[: len(written)], unexplained[len(written) :])),
    )


def _neighbours(paths: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """The objects with device code in the folders of ``paths`` whose real paths are not ``known``: they are of the same
    build, and were compiled out of a run's sight."""
    for folder in sorted({os.path.realpath(os.path.dirname(path)) for path in paths}):
        if os.path.isdir(folder):
            yield from _objects(folder, leaving_out=known)


def _units(
    began: Mapping[str, Any], status: int | None, report: bytes, top: str, releases: dict[str, str]
) -> Iterator[Unit]:
    words: list[str] = began["command"]
    parsed = compilation.parse(words)
    if parsed is None or not compilation.makes_machine_code(words):
        return
    folder = began["folder"]
    state: State = "unfinished" if status is None else "done" if status == 0 else "killed" if status < 0 else "failed"
    compiler = began["compiler"]
    if compiler not in releases:
        releases[compiler] = _release(compiler)
    made_of = (
        {parsed.object: parsed.paths}
        if parsed.object
        else {compilation.default_object(path): (path,) for path in parsed.paths}
    )
    for made, sources in made_of.items():
        if any(is_check(os.path.join(folder, path)) for path in (made, *sources)):
            continue
        yield Unit(
            source=databases.seen_from_here(os.path.join(folder, sources[0]), top),
            object=databases.seen_from_here(os.path.join(folder, made), top),
            folder=databases.seen_from_here(folder, top),
            command=tuple(words),
            version=releases[compiler],
            state=state,
            status=status,
            digests=tuple((path, digest) for path, digest in began["digests"].items() if path in sources),
            reported=b"ptxas info" in report or None,
            evidence=(began.get("by", account.RUN),),
        )


def _release(compiler: str) -> str:
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _RELEASE.search(said)
    return found[1].decode() if found else ""


def _notes(seen: Watched, written: Sequence[str], older: Sequence[str]) -> Iterable[str]:
    hits = len(re.findall(r"^(?:direct|preprocessed)_cache_hit$", seen.statistics, re.MULTILINE))
    if written:
        why = f"{hits} came from ccache" if hits else "a compiler was called by its path, or without the environment"
        yield _read_instead(written, why)
    if older:
        yield _read_instead(older, "compiled before this run")


def _read_instead(objects: Sequence[str], why: str) -> str:
    count, named = len(objects), ", ".join(objects[:_NAMED])
    more = " …" if count > _NAMED else ""
    objects_hold = "object holds" if count == 1 else "objects hold"
    return f"{count} {objects_hold} device code, and no call was seen ({named}{more}): {why}; the machine code is read"


_NAMED = 3
