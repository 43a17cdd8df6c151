"""A line on standard error while compilers run: only where a person watches, and only where it takes its time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TextIO

from spillscan.output.progress import PATIENCE_SECONDS
from spillscan.output.safe import clip, printable

_ERASE = "\r\x1b[K"
_BAR = 24


class Watch:
    """Keeps one line of a terminal up to date; without a terminal does nothing."""

    def __init__(self, terminal: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._clock = clock
        self._start = clock()
        self._shown = False

    def tell(self, done: int, total: int, what: str, doing: str = "compiling") -> None:
        """So many of ``total`` are done; ``what`` is at work."""
        if self._terminal is None or self._clock() - self._start < PATIENCE_SECONDS:
            return
        filled = _BAR * done // total
        line = f"{doing} [{'#' * filled}{'.' * (_BAR - filled)}] {done:,}/{total:,} {printable(what)}"
        self._terminal.write(_ERASE + clip(line, shutil.get_terminal_size().columns - 1))
        self._terminal.flush()
        self._shown = True

    def erase(self) -> None:
        """Leave the terminal as it was."""
        if self._terminal is not None and self._shown:
            self._terminal.write(_ERASE)
            self._terminal.flush()
            self._shown = False
