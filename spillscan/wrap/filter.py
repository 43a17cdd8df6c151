"""Takes the figures of ``-v`` out of a stream of compiler output; warnings, errors and everything else pass.

``figures.regex`` is derived from the grammars, because a launcher starts once an object and has no time to read them:
``python -m spillscan.wrap.filter`` writes it, and a test holds it true.
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Callable
from functools import cache

EXPRESSION = os.path.join(os.path.dirname(__file__), "figures.regex")

LONGEST_HELD_BYTES = 1 << 20
"""An unfinished line that is longer is passed on as it comes: no figures line is that long."""

IDLE_SECONDS = 0.1
"""How long the beginning of a line is held before it is passed on: a prompt may be waited for."""
READ_BYTES = 1 << 16

_LANDMARK = re.compile(rb"ptxas|nvlink|info    : | bytes stack frame, ")


class Filter:
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
        """What is held: it is waited for, as a prompt is, or the stream has ended."""
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


def copy(source: int, target: int, keep: Callable[[bytes], object]) -> Filter:
    """Read descriptor ``source`` to its end: all of it goes to ``keep``, all but figures to descriptor ``target``.

    Returns the filter, which knows whether there were figures. A ``target`` that has no reader any more is left alone.
    """
    lines = Filter()
    out = _Writer(target)
    while data := _read(source, lines, out):
        keep(data)
        out.write(lines.feed(data))
    out.write(lines.flush())
    return lines


def _read(source: int, lines: Filter, out: _Writer) -> bytes:
    if lines.holds and os.name == "posix" and not select.select([source], [], [], IDLE_SECONDS)[0]:
        out.write(lines.flush())
    return os.read(source, READ_BYTES)


class _Writer:
    def __init__(self, target: int) -> None:
        self._target = target
        self._open = True

    def write(self, data: bytes) -> None:
        """All of ``data``."""
        rest = memoryview(data)
        try:
            while rest and self._open:
                rest = rest[os.write(self._target, rest) :]
        except BrokenPipeError:
            self._open = False


@cache
def figures_lines() -> re.Pattern[bytes]:
    """Matches each line of figures, with whatever CI services put before it."""
    with open(EXPRESSION, "rb") as file:
        return re.compile(file.read(), re.MULTILINE)


def expression() -> bytes:
    """A regular expression for one whole line of figures of ptxas or nvlink, after any prefix that CI services add."""
    from spillscan import grammar

    prefix, ptxas, nvlink = (
        re.sub(rb"\(\?P<\w+>", b"(?:", grammar.pattern(name, rule).pattern)
        for name, rule in (("prefix", "prefix"), ("ptxas", "figures_line"), ("nvlink", "figures_line"))
    )
    return rb"^%s(?:%s|%s)\r?\n" % (prefix, ptxas, nvlink)


if __name__ == "__main__":
    with open(EXPRESSION, "wb") as target:
        target.write(expression())
