"""A line on standard error while inputs are read: only where a person watches, and only where it takes its time."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    from spillscan.inputs.source import Source
    from spillscan.model import Build

PATIENCE_SECONDS = 1.0
"""Shorter work shows nothing."""
_PAUSE_SECONDS = 0.1
_ERASE = "\r\x1b[K"


def scan(paths: Sequence[str] | str, *, operands: bool = False, unpacking: Mapping[str, int] | None = None) -> Build:
    """:func:`spillscan.pipeline.scan`, with its progress where standard error is a terminal."""
    from spillscan import pipeline

    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return pipeline.scan(paths, operands=operands, unpacking=unpacking)
    progress = Progress(sys.stderr)
    try:
        return pipeline.scan(paths, progress, operands=operands, unpacking=unpacking)
    finally:
        progress.erase()


class Progress:
    """A :class:`~spillscan.pipeline.Watch` that keeps one line of a terminal up to date."""

    def __init__(self, terminal: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._clock = clock
        self._next = clock() + PATIENCE_SECONDS
        self._total_bytes = 0
        self._finished_bytes = 0
        self._current: Source | None = None
        self._read_bytes = 0
        self._shown = False

    def expect(self, sources: Sequence[Source]) -> None:
        """These will be read."""
        self._total_bytes = sum(each.bytes for each in sources)

    def read(self, each: Source, read_bytes: int) -> None:
        """So many bytes of ``each`` were read."""
        if each is not self._current:
            self._finished_bytes += self._read_bytes
            self._current = each
        self._read_bytes = read_bytes
        now = self._clock()
        if now >= self._next:
            self._next = now + _PAUSE_SECONDS
            self._show(each.uri)

    def erase(self) -> None:
        """Leave the terminal as it was."""
        if self._shown:
            self._terminal.write(_ERASE)
            self._terminal.flush()
            self._shown = False

    def _show(self, uri: str) -> None:
        done = self._finished_bytes + self._read_bytes
        share = f"{100 * done // self._total_bytes} %, " if 0 < done <= self._total_bytes else ""
        head = f"reading: {share}{done / 1e6:,.0f} MB"
        width = shutil.get_terminal_size().columns - 1
        name = "standard input" if uri == "-" else printable(uri)
        self._terminal.write(_ERASE + clip(f"{head}, {name}", width))
        self._terminal.flush()
        self._shown = True
