"""How far an audit is: one line of a terminal with files, bytes, rate and remaining time."""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from spillscan.audit.messages import FileOutcome, Item
from spillscan.output.progress import PATIENCE_SECONDS
from spillscan.output.safe import clip

_PAUSE_SECONDS = 0.1
_MEMORY_SECONDS = 30.0
"""The rate is that of so long: a resumed audit runs first through what is finished."""
_BEAT_SECONDS = 0.5
_ERASE = "\r\x1b[K"
_BAR = 10


class Gauge:
    """Keeps the line up to date; shows nothing of what takes no longer than a moment."""

    def __init__(self, terminal: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._clock = clock
        self._next = clock() + PATIENCE_SECONDS
        self._files = self._all_files = 0
        self._bytes = self._all_bytes = 0
        self._past: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._shown = False
        self._lock = threading.Lock()

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Draw also while nothing comes: a cluster tells of a whole batch at once. Leaves the terminal as it was."""
        over = threading.Event()

        def draw() -> None:
            while not over.wait(_BEAT_SECONDS):
                self.draw()

        thread = threading.Thread(target=draw, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.erase()

    def expect(self, items: Sequence[Item]) -> None:
        """These will come to an outcome."""
        self._all_files = len(items)
        self._all_bytes = sum(item.size_bytes for item in items)

    def count(self, outcome: FileOutcome) -> None:
        """One of them has."""
        self._files += 1
        self._bytes += outcome.size_bytes
        self.draw()

    def draw(self) -> None:
        """Show how far it is, unless that was done just now."""
        with self._lock:
            now = self._clock()
            if now < self._next or not self._all_files:
                return
            self._next = now + _PAUSE_SECONDS
            self._past.append((now, self._bytes))
            # Where nothing came for longer, the rate is that since the last time that something did.
            while now - self._past[0][0] > _MEMORY_SECONDS and self._past[1][1] < self._bytes:
                self._past.popleft()
            self._terminal.write(_ERASE + clip(self._line(), shutil.get_terminal_size().columns - 1))
            self._terminal.flush()
            self._shown = True

    def erase(self) -> None:
        """Leave the terminal as it was."""
        if self._shown:
            self._terminal.write(_ERASE)
            self._terminal.flush()
            self._shown = False

    def _line(self) -> str:
        share = self._bytes / self._all_bytes if self._all_bytes else 1.0
        full = int(share * _BAR)
        line = f"{'█' * full}{'·' * (_BAR - full)} {share:4.0%}  {self._files:,} of {self._all_files:,} files"
        line += f", {_size(self._bytes)} of {_size(self._all_bytes)}"
        (then, before), (now, read) = self._past[0], self._past[-1]
        if now <= then or read <= before:
            return line
        rate = (read - before) / (now - then)
        return f"{line}, {_size(rate)}/s, {_duration((self._all_bytes - self._bytes) / rate)} left"


def _size(count_bytes: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count_bytes < 1000:
            return f"{count_bytes:.{0 if unit == 'B' else 1}f} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:,.1f} GB"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
