"""Programs as child processes: no shell, a time limit, an end to all that they started, and Ctrl-C while one starts."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


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

    def run(self, command: Sequence[str], folder: str | None = None) -> Ended:
        """Run ``command`` in ``folder``, and wait for it."""
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
                    env=os.environ,
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
