"""Run a build and record it through a launcher.

The launcher is installed as the first ``nvcc`` on ``PATH``, in a folder that mimics the toolkit's, and as CMake's
compiler launcher. Compilations that bypass it are found by the files that the build leaves.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from spillscan.builds import account, launcher, record, tree
from spillscan.builds.account import Account
from spillscan.builds.record import BuildRecord, Run
from spillscan.output.errors import InputError, UsageError
from spillscan.output.files import Target, cache_folder, hold

_TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_START = (
    f"import sys; sys.path.append({_TOP!r}); from spillscan.builds.launcher import main;"
    " sys.exit(main(sys.argv[1], sys.argv[2:]))"
)
_SCRIPT = f"""#!/bin/sh
case "$0" in */launch) ;; *) set -- TARGET "$@" ;; esac
case "${{{launcher.RUN}:+x}}${{1##*/}}" in xnvcc*|xclang*) ;; *) exec "$@" ;; esac
printf '%s\\0' "$PWD" "$@" 2>/dev/null >"${launcher.RUN}/$PPID-$$.began"
exec {shlex.join((sys.executable, "-I", "-S", "-c", _START))} "${launcher.RUN}/$PPID-$$" "$@"
"""
"""Launcher script; it leaves a trace before Python starts. As ``nvcc`` it adds the compiler, ``TARGET``; the words of
``launch`` begin with one."""


def watch(command: Sequence[str], also: Sequence[str], path: str, contains_code: Callable[[str], bool]) -> Account:
    """Run ``command``, and record it in the run file ``path``."""
    if shutil.which(command[0]) is None:
        raise UsageError(f"cannot run {command[0]}: command not found", "check its spelling and PATH")
    target = Target(path)
    target.check()
    os.makedirs(place := cache_folder("runs"), exist_ok=True)  # a killed run's folder remains there
    with (
        tempfile.TemporaryDirectory(prefix=f"{os.getpid()}-", dir=place, ignore_cleanup_errors=True) as kept,
        open(os.path.join(kept, account.HELD), "wb") as held,
    ):
        hold(held.fileno())
        with _locked(place):
            before = record.read(path)
            _list(before, also, kept)
            run = Run(command=tuple(command), folder=os.getcwd(), kept=kept)
            target.write(record.encoded(replace(before, runs=(*before.runs, run))))
        status = _wait(command, {**os.environ, **_variables(os.environ, kept)})
        with _locked(place):
            try:
                now = record.read(path)
            except InputError:  # the build damaged the file
                now = before
            found = account.after(now, before, replace(run, status=status), contains_code)
            target.write(record.encoded(found.build))
    return found


def _list(before: BuildRecord, also: Sequence[str], kept: str) -> None:
    """Store the list of watched files before the build."""
    watched = account.watched_by(["nvcc"])
    tops = tuple(map(os.path.realpath, (tree.top_of(os.curdir), *also, *filter(os.path.isdir, before.watched))))
    known = account.Known(since_ns=os.stat(kept).st_ctime_ns, tops=tops, files=watched.files(tops))
    with open(os.path.join(kept, account.LIST), "w", encoding="ascii") as file:
        json.dump(msgspec.to_builtins(known), file)


@contextlib.contextmanager
def _locked(place: str) -> Iterator[None]:
    """Lock all run files against other runs."""
    with open(os.path.join(place, "lock"), "ab") as file:
        with contextlib.suppress(ImportError, OSError):  # a file system without locks
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        yield


def _wait(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a build with our standard streams; returns its exit status; negative: a signal.

    The terminal also sends its signals to the build; SIGTERM is passed on.
    """
    try:
        build = subprocess.Popen(command, env=environment, close_fds=False)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from None
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, lambda number, _: build.send_signal(number))
    try:
        return build.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _nvcc(places: Sequence[str]) -> tuple[int, str]:
    """Index and path of the first nvcc in ``places`` that is not a link to a cache; an empty path if there is none."""
    for at, place in enumerate(places):
        found = shutil.which("nvcc", path=place or os.curdir)
        if found and os.path.basename(os.path.realpath(found)).startswith("nvcc"):
            return at, found
    return 0, ""


def _variables(environment: Mapping[str, str], kept: str) -> dict[str, str]:
    """Environment variables that install the launcher; the user's own settings are kept, except PATH."""
    places = environment.get("PATH", os.defpath).split(os.pathsep)
    at, real = _nvcc(places)
    if not real:
        return {launcher.RUN: kept}
    front = _front(real)
    nvcc, launch = os.path.join(front, "bin", "nvcc"), os.path.join(front, "launch")
    # CMake would store the launcher as the compiler; torch.utils.cpp_extension; FindCUDA
    found = {"CUDACXX": real, "PYTORCH_NVCC": nvcc, "CUDA_NVCC_EXECUTABLE": nvcc}
    found["CMAKE_CUDA_COMPILER_LAUNCHER"] = launch
    if " " not in front:  # CCACHE_PREFIX is split at blanks
        found["CCACHE_PREFIX"] = launch
    found = {name: value for name, value in found.items() if not environment.get(name)}
    path = os.pathsep.join((*places[:at], os.path.dirname(nvcc), *places[at:]))  # a cache looks for nvcc behind itself
    return {**found, "PATH": path, launcher.RUN: kept}


def _front(real: str) -> str:
    """A folder that mimics the toolkit of the compiler ``real``, with the launcher as its nvcc.

    Its path, content and times are the same in every run, because caches hash them as the compiler's.
    """
    target = launcher.behind_scripts(os.path.realpath(real))
    tools = os.path.dirname(target)
    number = hashlib.sha256(f"{_SCRIPT}\0{target}".encode()).hexdigest()[:16]
    front = os.path.join(cache_folder("launchers"), number, os.path.basename(os.path.dirname(tools)) or "cuda")
    os.makedirs(os.path.join(front, "bin"), exist_ok=True)
    if os.path.basename(tools) == "bin":
        for place, files in ((front, os.path.dirname(tools)), (os.path.join(front, "bin"), tools)):
            for name in {*os.listdir(files)} - {"nvcc", "bin", *os.listdir(place)}:
                os.symlink(os.path.join(files, name), os.path.join(place, name))
    script, seconds = _SCRIPT.replace("TARGET", shlex.quote(target)), os.stat(target).st_mtime
    for path in (os.path.join(front, "bin", "nvcc"), os.path.join(front, "launch")):
        if not os.path.exists(path):
            draft = f"{path}.{os.getpid()}"
            with open(draft, "w", encoding="utf-8") as file:
                file.write(script)
            os.chmod(draft, 0o755)
            os.utime(draft, (seconds, seconds))
            os.replace(draft, path)
    return front
