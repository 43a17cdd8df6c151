"""ptxas and nvcc as they are installed (on the path, in a CUDA toolkit, in PyPI's wheels, in a folder that is named),
and programs as child processes: no shell, a time limit, an end to all that they started, and Ctrl-C while one starts.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from spillscan.output.errors import UsageError

_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")
_WORD = re.compile(r"\d+(?:\.\d+){0,3}")
_TIMEOUT_SECONDS = 60
HINT = "put a toolkit's bin on the PATH, set CUDA_HOME, pip install 'spillscan[sweep]', or give --vary toolkit=FOLDER"
"""What to do where no compiler is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolkit:
    """One release of the compiler."""

    version: str
    """As ptxas says itself, ``13.0.88``."""
    ptxas: str
    """The program."""
    nvcc: str | None
    """The compiler driver beside it; ``None`` where there is none: then it compiles PTX only."""
    banner: str
    """All that ``ptxas --version`` prints: its build, too."""


def installed() -> list[Toolkit]:
    """Every release that is found, each once: the path's first, then CUDA_HOME's, /usr/local's, the wheels'."""
    found: dict[str, Toolkit] = {}
    for folder in folders():
        toolkit = _of(folder)
        if toolkit is not None and (
            toolkit.version not in found or (found[toolkit.version].nvcc is None and toolkit.nvcc)
        ):
            found[toolkit.version] = toolkit
    return list(found.values())


def choose(words: Sequence[str]) -> list[Toolkit]:
    """The toolkits that ``words`` name: releases (``12.9``), folders, programs, or ``all``; without words the first.

    Raises :class:`~spillscan.UsageError` where one is not there.
    """
    names = [word for text in words for word in text.split(",") if word]
    chosen: dict[str, Toolkit] = {}
    known = installed() if not names or any(name == "all" or _WORD.fullmatch(name) for name in names) else []
    if not names and not known:
        raise UsageError("no ptxas found", HINT)
    for name in names or [known[0].version]:
        for toolkit in _named(name, known):
            chosen.setdefault(toolkit.ptxas, toolkit)
    return list(chosen.values())


def of_compiler(word: str) -> Toolkit | None:
    """The toolkit of the nvcc that a command line names; ``None`` where there is none."""
    nvcc = shutil.which(word)
    return None if nvcc is None else _of(os.path.dirname(nvcc)) or _of(os.path.dirname(os.path.realpath(nvcc)))


def _named(name: str, known: Sequence[Toolkit]) -> list[Toolkit]:
    if name == "all":
        if not known:
            raise UsageError("no ptxas found", HINT)
        return list(known)
    if _WORD.fullmatch(name) and not os.path.exists(name):
        match = [toolkit for toolkit in known if f"{toolkit.version}.".startswith(f"{name}.")]
        if not match:
            have = ", ".join(toolkit.version for toolkit in known) or "none"
            raise UsageError(f"no toolkit {name} found (there are: {have})", HINT)
        return match[:1]
    path = os.path.expanduser(name)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    for place in (folder, os.path.join(folder, "bin")):
        toolkit = _of(place)
        if toolkit is not None:
            return [toolkit]
    raise UsageError(f"no ptxas in {name}", "name a release, a toolkit's folder, or a ptxas")


def folders() -> Iterator[str]:
    """Where a toolkit's programs may be."""
    path = shutil.which("ptxas")
    if path is not None:
        yield os.path.dirname(path)
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield os.path.join(os.environ[name], "bin")
    yield from sorted(glob.glob("/usr/local/cuda*/bin"), reverse=True)
    for package, patterns in (
        ("nvidia", ("*/bin",)),
        ("triton", ("backends/nvidia/bin", "common/../third_party/cuda/bin")),
    ):
        spec = importlib.util.find_spec(package)
        for place in spec.submodule_search_locations or () if spec else ():
            for pattern in patterns:
                yield from sorted(glob.glob(os.path.join(glob.escape(place), pattern)), reverse=True)


def _of(folder: str) -> Toolkit | None:
    ptxas = shutil.which("ptxas", path=folder) if folder else None
    if ptxas is None:
        return None
    try:
        done = subprocess.run([ptxas, "--version"], capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    banner = done.stdout.decode(errors="replace")
    version = _VERSION.search(banner)
    if version is None:
        return None
    ptxas, folder = os.path.abspath(ptxas), os.path.abspath(folder)  # it is run in other folders
    nvcc = shutil.which("nvcc", path=folder)
    has_front_end = nvcc is not None and bool(_whole(nvcc))
    return Toolkit(version=version[1], ptxas=ptxas, nvcc=nvcc if has_front_end else None, banner=banner)


def _whole(nvcc: str) -> bool:
    """Whether an nvcc has its front end: some wheels bring the driver alone."""
    home = Path(os.path.realpath(nvcc)).parent.parent
    if not (home / "bin" / "nvcc.profile").exists():  # a script that starts the real one: it will say itself
        return True
    return (home / "nvvm" / "bin" / "cicc").exists()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    status: int
    """Exit status; negative: the signal that ended it."""
    out: bytes
    """Standard output."""
    err: bytes
    """Standard error."""
    why: str = ""
    """Why it never ended by itself, or never began; empty where it did."""


class Processes:
    """Runs processes, each in a group of its own, and can stop all of them from another thread."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(
        self, command: Sequence[str], folder: str | None = None, variables: Mapping[str, str] | None = None
    ) -> Ended:
        """Run ``command`` in ``folder``, with more ``variables``, and wait for it."""
        with self._lock:
            if self._stopped:
                return Ended(-signal.SIGTERM, b"", b"", "interrupted")
            try:
                process = subprocess.Popen(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    env=os.environ | dict(variables or {}),
                )
            except OSError as error:
                return Ended(127, b"", b"", f"{command[0]}: {error.strerror}")
            self._running.add(process)
        try:
            out, err = process.communicate(timeout=self._timeout_seconds)
        except subprocess.TimeoutExpired:
            end(process)
            out, err = process.communicate()
            return Ended(process.returncode, out, err, f"took more than {self._timeout_seconds:g} s")
        finally:
            with self._lock:
                self._running.discard(process)
        return Ended(process.returncode, out, err, "interrupted" if self._stopped else "")

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started in a group of its own, and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Interrupts that come inside act when what is yielded is called: outside, where they are caught.

    Where Ctrl-C is ignored, or this is not the main thread, which alone gets it, nothing is changed.
    """
    usual = signal.getsignal(signal.SIGINT)
    came: list[tuple[int, FrameType | None]] = []
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield lambda: None
        return

    def act() -> None:
        if came:
            usual(*came[0])

    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield act
    finally:
        signal.signal(signal.SIGINT, usual)
