"""Compilers as child processes: no shell, a time limit, and an end to all of them when the user wants one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass


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


class Crew:
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
            _kill(process)
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
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
