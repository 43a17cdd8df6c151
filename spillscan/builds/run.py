"""Run a build with a launcher in its way: as ``nvcc`` first on ``PATH``, in a folder that looks like the toolkit's, and
as CMake's compiler launcher. What it does not see is known by the files that the build leaves."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import msgspec
from msgspec.structs import replace

from spillscan.builds import account, launcher, tree
from spillscan.builds.account import Account, Known, Readers
from spillscan.builds.record import BuildRecord, Run, locked
from spillscan.output import folders
from spillscan.output.errors import InputError, UsageError

_LAUNCHER = (sys.executable, "-I", "-S", os.path.abspath(launcher.__file__))
LAUNCH = "launch"
_SCRIPT = f"""[ -n "${launcher.RUN}" ] || exec COMPILER"$@"
printf '%s\\0' "$PWD" COMPILER"$@" >"${launcher.RUN}/$$.began" 2>/dev/null
exec {shlex.join(_LAUNCHER)} COMPILER"$@"
"""
"""Leaves a trace before the launcher has started."""


def watch(
    command: Sequence[str],
    also: Sequence[str],
    path: str,
    readers: Readers,
    load: Callable[[], BuildRecord | None],
    save: Callable[[BuildRecord], None],
) -> Account:
    """Run ``command``, and account for it in the run file ``path``, which ``load`` reads and ``save`` writes."""
    if shutil.which(command[0]) is None:
        raise UsageError(f"cannot run {command[0]}: no such command", "check its spelling and PATH")
    with ExitStack() as stack:
        with locked(path):
            before = load() or BuildRecord()
            run = Run(command=tuple(command), folder=os.getcwd(), kept=_begin(stack, before, also))
            save(replace(before, runs=(*before.runs, run)))
        status, process = _wait(command, {**os.environ, **_variables(os.environ, run.kept)})
        with locked(path):
            try:
                now = load() or BuildRecord()
            except InputError:  # the build damaged it
                now = before
            found = account.after(now, before, replace(run, status=status), process, readers)
            save(found.build)
    return found


def _begin(stack: ExitStack, before: BuildRecord, also: Sequence[str]) -> str:
    """A folder in the cache for the calls of a run and its list of files: it stays if the run is killed."""
    place = folders.kept("runs")
    os.makedirs(place, exist_ok=True)
    kept = tempfile.mkdtemp(dir=place)
    held = stack.enter_context(open(os.path.join(kept, account.HELD), "wb"))  # noqa: SIM115 - as long as it lives
    stack.callback(shutil.rmtree, kept, ignore_errors=True)
    folders.hold(held.fileno())
    watched = tree.Watched([place, folders.kept("launchers"), *filter(None, [toolkit(os.environ.get("PATH"))])])
    tops = watched.outermost([tree.top_of(os.curdir), *also, *filter(os.path.isdir, before.watched)])
    since_ns = os.stat(held.name).st_ctime_ns
    known = Known(process=os.getpid(), since_ns=since_ns, tops=tuple(tops), files=watched.files(tops))
    with open(os.path.join(kept, account.LIST), "wb") as file:
        file.write(msgspec.msgpack.encode(known))
    return kept


def _wait(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, int]:
    """Run a build with its standard streams as they are; its exit status, below 0 a signal, and its process. The
    terminal sends its signals to the build, too; others are passed on."""
    try:
        build = subprocess.Popen(command, env=environment, close_fds=False)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from None
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, lambda number, _: build.send_signal(number))
    try:
        return build.wait(), build.pid
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _variables(environment: Mapping[str, str], kept: str) -> dict[str, str]:
    """The environment variables that put the launcher in the build's way; what the user has set stays."""
    path = environment.get("PATH", os.defpath)
    found = {"CMAKE_EXPORT_COMPILE_COMMANDS": "ON"}
    real = shutil.which("nvcc", path=path)
    if real is not None:
        front = _front(real)
        nvcc = os.path.join(front, "bin", "nvcc")
        # CMake would keep the launcher for the compiler; torch.utils.cpp_extension; FindCUDA
        found |= {"CUDACXX": real, "PYTORCH_NVCC": nvcc, "CUDA_NVCC_EXECUTABLE": nvcc}
        found["CMAKE_CUDA_COMPILER_LAUNCHER"] = os.path.join(front, LAUNCH)
        if " " not in front:  # it is split at blanks
            found["CCACHE_PREFIX"] = os.path.join(front, LAUNCH)
    found = {name: value for name, value in found.items() if not environment.get(name)}
    if real is not None:
        found["PATH"] = os.pathsep.join((os.path.join(front, "bin"), path))
    return {**found, launcher.RUN: kept}


def toolkit(path: str | None = None) -> str:
    """The folder of the toolkit whose nvcc is on the ``path``; empty if there is none."""
    real = shutil.which("nvcc", path=path)
    return "" if real is None else os.path.dirname(os.path.dirname(launcher.behind_scripts(os.path.realpath(real))))


def release(path: str | None = None) -> str:
    """The release of the nvcc on the ``path``: ``13.0.88``; empty if there is none."""
    found = shutil.which("nvcc", path=path)
    return "" if found is None else account.release_of(found, os.curdir)


def _front(real: str) -> str:
    """A folder that looks like the toolkit of the compiler ``real``, with the launcher in its place. Its path, content
    and times are the same from run to run, because caches take them for the compiler's."""
    target = launcher.behind_scripts(os.path.realpath(real))
    top = os.path.dirname(os.path.dirname(target))
    number = hashlib.sha256(f"{_LAUNCHER}\0{real}".encode()).hexdigest()[:16]
    front = os.path.join(folders.kept("launchers"), number, os.path.basename(top) or "cuda")
    tools = os.path.join(front, "bin")
    os.makedirs(tools, exist_ok=True)
    for place, files in ((front, top), (tools, os.path.join(top, "bin"))):
        for name in os.listdir(files) if os.path.basename(os.path.dirname(target)) == "bin" else ():
            link = os.path.join(place, name)
            if name not in ("nvcc", "bin") and not os.path.lexists(link):
                os.symlink(os.path.join(files, name), link)
    _write_script(
        os.path.join(tools, "nvcc"), _SCRIPT.replace("COMPILER", f"{shlex.quote(target)} "), os.stat(target).st_mtime
    )
    _write_script(os.path.join(front, LAUNCH), _SCRIPT.replace("COMPILER", ""), 0)
    return front


def _write_script(path: str, text: str, seconds: float) -> None:
    text = f"#!/bin/sh\n{text}"
    if _text_of(path) != text:
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(draft, 0o755)
        os.utime(draft, (seconds, seconds))
        os.replace(draft, path)


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""
