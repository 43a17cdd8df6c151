"""Takes the figures of ``-v`` out of a stream of compiler output; warnings, errors and everything else pass."""

from __future__ import annotations

import os
import re
from functools import cache

LONGEST_HELD_BYTES = 1 << 20
"""An unfinished line that is longer is passed on as it comes: no figures line is that long."""

_LANDMARK = re.compile(rb"ptxas|nvlink|info    : | bytes stack frame, ")


class Sieve:
    """One stream. Whole lines are judged; an unfinished one is held until it is finished or :meth:`flush` is called."""

    def __init__(self) -> None:
        self._held = b""
        self._inside = False
        """The beginning of the line that comes now was passed on, so its end must be."""
        self.figures = False
        """Whether any line of figures came by."""

    def feed(self, data: bytes) -> bytes:
        """What of ``data``, and of what was held before it, is to be passed on."""
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._held += data
            return self.flush() if self._inside or len(self._held) > LONGEST_HELD_BYTES else b""
        whole, self._held = self._held + data[:cut], data[cut:]
        passed = 0
        if self._inside:
            passed = whole.index(b"\n") + 1
            self._inside = False
        return whole[:passed] + self._without_figures(whole[passed:])

    def flush(self) -> bytes:
        """What is held: somebody waits for it, such as a prompt's reader, or the stream has ended."""
        held, self._held = self._held, b""
        self._inside = self._inside or bool(held)
        return held

    @property
    def holds(self) -> bool:
        """Whether the beginning of a line is held."""
        return bool(self._held)

    def _without_figures(self, lines: bytes) -> bytes:
        if not _LANDMARK.search(lines):
            return lines
        rest, count = figures_lines().subn(b"", lines)
        self.figures = self.figures or count > 0
        return rest


@cache
def figures_lines() -> re.Pattern[bytes]:
    """Matches each line of figures, with whatever CI services put before it.

    ``figures.regex`` is derived from the grammars (:mod:`spillscan.wrap.derive`): a launcher starts once an object, and
    has no time to read them.
    """
    with open(os.path.join(os.path.dirname(__file__), "figures.regex"), "rb") as file:
        return re.compile(file.read(), re.MULTILINE)
