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
from pathlib import Path

import msgspec
from msgspec.structs import replace

from spillscan.builds import account, launcher, record
from spillscan.builds.account import Account
from spillscan.builds.record import Run
from spillscan.output.errors import UsageError
from spillscan.output.files import Target, cache_folder, lock

_TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_START = f"import sys; sys.path.append({_TOP!r}); from spillscan.builds import launcher; launcher.main(*sys.argv[1:])"
_SCRIPT = f"""#!/bin/sh
case "$0" in */launch) ;; *) set -- TARGET "$@" ;; esac
case "${{{launcher.RUN}:+x}}${{1##*/}}" in xnvcc*|xclang*) ;; *) exec "$@" ;; esac
printf '%s\\0' "$PWD" "$@" 2>/dev/null >"${launcher.RUN}/$$.began"
exec {shlex.join((sys.executable, "-I", "-S", "-c", _START))} "${launcher.RUN}/$$.began" "$@"
"""
"""Launcher script; it leaves a trace before Python starts. As ``nvcc`` it adds the compiler, ``TARGET``; the words of
``launch`` begin with one."""


def watch(command: Sequence[str], also: Sequence[str], path: str, contains_code: Callable[[str], bool]) -> Account:
    """Run ``command``, and record it in the run file ``path``."""
    target = Target(path)
    os.makedirs(place := cache_folder("runs"), exist_ok=True)  # a killed run's folder remains there
    with (
        tempfile.TemporaryDirectory(prefix=f"{os.getpid()}-", dir=place, ignore_cleanup_errors=True) as kept,
        open(os.path.join(kept, account.LIST), "w", encoding="ascii") as known,
    ):
        lock(known.fileno())
        with _locked(place):
            before = record.read(path)
            json.dump(
                msgspec.to_builtins(account.initial_state(before, also, os.fstat(known.fileno()).st_ctime_ns)), known
            )
            known.flush()
            run = Run(command=tuple(command), folder=os.getcwd(), kept=kept)
            target.write(record.encoded(replace(before, runs=(*before.runs, run))))
        status = _wait(command, {**os.environ, **_variables(os.environ, kept)})
        with _locked(place):
            result = account.after(record.read(path), before, replace(run, status=status), contains_code)
            target.write(record.encoded(result.build))
    return result


@contextlib.contextmanager
def _locked(place: str) -> Iterator[None]:
    """Lock all run files against other runs."""
    with open(os.path.join(place, "lock"), "ab") as file:
        lock(file.fileno(), wait=True)
        yield


def _wait(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a build with our standard streams; returns its exit status; negative: a signal.

    The terminal also sends its signals to the build; SIGTERM is passed on. None of them interrupts the account.
    """
    try:
        build = subprocess.Popen(command, env=environment, close_fds=False)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from None
    for number in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: build.send_signal(number))
    return build.wait()


def _variables(environment: Mapping[str, str], kept: str) -> dict[str, str]:
    """Environment variables that install the launcher; the user's own settings are kept, except PATH."""
    places = environment.get("PATH", os.defpath).split(os.pathsep)
    compilers = [shutil.which("nvcc", path=place or os.curdir) or "" for place in places]
    named = (each for each in compilers if os.path.basename(each and os.path.realpath(each)).startswith("nvcc"))
    if not (real := next(named, "")):  # links to a cache have other names
        return {launcher.RUN: kept}
    front, at = _front(real), compilers.index(real)
    nvcc, launch = os.path.join(front, "bin", "nvcc"), os.path.join(front, "launch")
    path = os.pathsep.join((*places[:at], os.path.dirname(nvcc), *places[at:]))  # a cache looks for nvcc behind itself
    ours = {
        "CUDACXX": real,  # CMake would store the launcher as the compiler
        "CMAKE_CUDA_COMPILER_LAUNCHER": launch,
        "PYTORCH_NVCC": nvcc,  # torch.utils.cpp_extension
        "CUDA_NVCC_EXECUTABLE": nvcc,  # FindCUDA
        "CCACHE_PREFIX": "" if " " in launch else launch,  # split at blanks
    }
    ours = {name: value for name, value in ours.items() if value and not environment.get(name)}
    return {**ours, "PATH": path, launcher.RUN: kept}


def _front(real: str) -> str:
    """A folder that mimics the toolkit of the compiler ``real``, with the launcher as its nvcc.

    Its path, content and times are the same in every run, because caches hash them as the compiler's.
    """
    target = Path(launcher.behind_scripts(os.path.realpath(real)))
    toolkit = target.parent.parent
    number = hashlib.sha256(f"{_SCRIPT}\0{target}".encode()).hexdigest()[:16]
    front = Path(cache_folder("launchers"), number, toolkit.name or "cuda")
    nvcc = front / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True, exist_ok=True)
    links = {front / "launch": nvcc}
    links |= {front / each.name: each for each in toolkit.iterdir()}
    links |= {nvcc.parent / each.name: each for each in target.parent.iterdir()}
    for link in links.keys() - {nvcc, nvcc.parent}:
        with contextlib.suppress(FileExistsError):
            link.symlink_to(links[link])
    if not nvcc.exists():
        draft, seconds = Path(f"{nvcc}.{os.getpid()}"), target.stat().st_mtime
        draft.write_text(_SCRIPT.replace("TARGET", shlex.quote(str(target))), "utf-8")
        draft.chmod(0o755)
        os.utime(draft, (seconds, seconds))
        draft.replace(nvcc)
    return str(front)
