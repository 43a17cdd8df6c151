"""Terminal output: the rules for colors and width, plain lines, tables that fit the width, and progress.

:func:`say`, :func:`complain`, :func:`paint` and :func:`table` escape their text, so that nothing from a log has an
effect.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import pairwise
from textwrap import wrap
from typing import Any, NamedTuple, TextIO

from spillscan.output.safe import clip, printable

RED, YELLOW, GREEN, DIM, BOLD, END = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
PLAIN_WIDTH = 120
"""Width in columns if there is no terminal."""
_NARROWEST = 60
_LONGEST_COMPLAINT = 1000
"""Maximum characters of a line on standard error; names in it may be very long."""
_SMALLEST_NAME, _LEAST_NAME = 16, 8
_READABLE_NAME = {True: 24, False: 40}
"""Characters of a name before other columns are hidden: at up to 80 columns, and above."""
_MANY = 4
"""Rows, including the header, above which equal columns move to a caption."""

Row = tuple[Sequence[str], str]
"""Cells and the color of the row."""


class Style(NamedTuple):
    """Style of output for people; machine formats ignore it."""

    width: int = 100
    """Columns of the terminal."""
    color: bool = False
    """Whether escape sequences may be used."""
    rows: int | None = 25
    """Maximum rows of a table; ``None`` shows all."""
    ascii_only: bool = False
    """Whether the terminal shows only ASCII."""


def style_of(rows: int | None = None, to_terminal: bool = True) -> Style:
    """Style of standard output; plain for a file.

    ``NO_COLOR`` wins over ``FORCE_COLOR`` (``0``: not forced), which wins over the terminal's type.
    """
    stream = sys.stdout
    terminal = to_terminal and stream.isatty()
    dumb = os.environ.get("TERM") == "dumb"
    forced = os.environ.get("FORCE_COLOR", "") not in ("", "0") and to_terminal
    color = not os.environ.get("NO_COLOR") and (forced or (terminal and not dumb))
    width = columns(PLAIN_WIDTH) if terminal or "COLUMNS" in os.environ else PLAIN_WIDTH
    ascii_only = to_terminal and (dumb or "utf" not in (stream.encoding or "utf-8").lower())
    return Style(width=max(_NARROWEST, width), color=color, rows=rows, ascii_only=ascii_only)


def columns(otherwise: int) -> int:
    """Width of the terminal, as :func:`shutil.get_terminal_size` finds it, without importing every archiver."""
    with suppress(ValueError):
        if (width := int(os.environ.get("COLUMNS", ""))) > 0:
            return width
    with suppress(ValueError, OSError, AttributeError):  # closed, no terminal, or no stream
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or otherwise  # type: ignore[union-attr]
    return otherwise


def watched() -> bool:
    """Whether standard error is a terminal that can overwrite a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def for_people(stream: TextIO) -> None:
    """Make a stream replace characters that its encoding lacks by similar ones."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=_PLAINLY)


_PLAINLY = "spillscan.plainly"
_PLAIN = {"≤": "<=", "→": "->", "…": "...", "↑": "^", "↓": "v", "·": ".", "×": "x", "−": "-", "–": "-"}


def _plainly(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_PLAIN.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error(_PLAINLY, _plainly)


def say(lines: Iterable[str]) -> None:
    """Print lines, escaped."""
    for line in lines:
        print(printable(line))


def wrapped(lines: Iterable[str], style: Style, indent: int | None = None) -> Iterator[str]:
    """Lines, escaped and wrapped to the terminal's width.

    Continuation lines are indented by ``indent``, by default four more than the line itself. Words are not broken, so
    that paths can be copied.
    """
    for line in lines:
        lead = " " * (len(line) - len(line.lstrip()) + 4 if indent is None else indent)
        yield from wrap(
            printable(line), style.width, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False
        ) or [""]


def complain(text: str) -> None:
    """Print a line to standard error, wrapped between words on a terminal."""
    line = printable(f"spillscan: {text}", _LONGEST_COMPLAINT)
    width = columns(PLAIN_WIDTH) if sys.stderr.isatty() else len(line)
    print(*wrapped([line], Style(width=width), indent=2), sep="\n", file=sys.stderr)


def table(
    header: Sequence[str],
    rows: Sequence[Row],
    style: Style,
    left: Collection[str],
    spare: Sequence[str] = (),
    caption: bool = False,
    words: Collection[str] = (),
    below: str = "",
) -> Iterator[str]:
    """Lines of a table, with columns as wide as needed.

    If the table is too wide, ``spare`` columns are hidden first and named in a last line, but the cells of column
    ``below`` move to lines below their rows; then the names in the first column are cut, and ``words`` columns, the
    widest first. ``left`` columns are left-aligned. A row of one cell is a
    line across all columns. With ``caption``, columns with equal cells in many rows move to a line above.
    """
    shown = [header, *(cells for cells, _ in rows if len(cells) == len(header))]
    grid = [[printable(cell) for cell in cells] for cells in shown]
    if caption and len(grid) > _MANY:
        alike = [at for at, column in enumerate(zip(*grid[1:], strict=True)) if at and len(set(column)) == 1]
        if alike:
            shared = ", ".join(f"{grid[0][at]} {grid[1][at]}" for at in alike)
            grid = [[cell for at, cell in enumerate(row) if at not in alike] for row in grid]
            yield from (paint(part, DIM, style) for part in wrapped([f"in all rows: {shared}"], style, indent=2))
    gone: dict[str, list[str]] = {}
    for column in spare:
        if _excess(grid, style, _READABLE_NAME[style.width <= 80]) > 0 and column in grid[0]:
            at = grid[0].index(column)
            gone[column] = [row.pop(at) for row in grid]
    moved = iter(gone.pop(below, [""] * len(grid))[1:])
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    longest = sorted((at for at, name in enumerate(grid[0]) if at and name in words), key=lambda at: -widths[at])
    for smallest in (_SMALLEST_NAME, _LEAST_NAME):
        for at in (0, *longest):
            excess = sum(widths) + 2 * (len(widths) - 1) - style.width
            if excess > 0:
                widths[at] = min(widths[at], max(smallest, widths[at] - excess))
    aligned = [name in left for name in grid[0]]
    yield paint(_line(grid[0], widths, aligned), BOLD, style)
    lines = iter(grid[1:])
    for cells, color in rows:
        if len(cells) < len(header):
            yield from (paint(part, color, style) for part in wrapped(cells, style, indent=4))
        else:
            line = paint(_line(next(lines), widths, aligned), color, style)
            yield _ZERO.sub(rf"\1{DIM}0{END}", line) if style.color and not color else line
            if text := next(moved):
                yield from wrapped([f"  {below}  {text}"], style)
    if gone:
        yield from (paint(part, DIM, style) for part in wrapped([f"hidden columns: {', '.join(gone)}"], style))


_ZERO = re.compile(r"(  )0(?=  |$)")
"""A cell of 0, which is dimmed."""


def _excess(grid: Sequence[Sequence[str]], style: Style, keeping: int) -> int:
    """Number of columns by which the table is too wide if names are cut to ``keeping`` characters."""
    first, *others = (max(map(len, column)) for column in zip(*grid, strict=True))
    return min(first, keeping) + sum(others) + 2 * len(others) - style.width


def _line(cells: Sequence[str], widths: Sequence[int], aligned_left: Sequence[bool]) -> str:
    texts = (clip(cell, width) for cell, width in zip(cells, widths, strict=True))
    sides = ("<" if to_left else ">" for to_left in aligned_left)
    return "  ".join(map("{:{}{}}".format, texts, sides, widths)).rstrip()


def fold(more: int, style: Style, about: str = "") -> Iterator[str]:
    """A line for rows left out of a table, with ``about`` them; none if nothing is left out."""
    if more:
        yield paint(f"… {more:,} more{about} (--all shows them)", DIM, style)


def paint(text: str, color: str, style: Style) -> str:
    """``text`` escaped, in ``color`` if the style has colors."""
    shown = printable(text)
    return f"{color}{shown}{END}" if style.color and color and shown else shown


def spark(values: Sequence[int | None], width: int, *, least: int = 0, ascii_only: bool = False) -> str:
    """A sparkline; each bar is the maximum of its values, above ``least``; blank if none is known."""
    columns = min(width, len(values))
    cuts = [len(values) * at // columns for at in range(columns + 1)] if columns else [0]
    tops = [
        max((each for each in values[begin:end] if each is not None), default=None) for begin, end in pairwise(cuts)
    ]
    span = max([each - least for each in tops if each is not None], default=0) or 1
    signs = _DIGITS if ascii_only else _BARS
    return "".join(" " if top is None else signs[round((len(signs) - 1) * (top - least) / span)] for top in tops)


_BARS, _DIGITS = "▁▂▃▄▅▆▇█", "0123456789"


DELAY_SECONDS = 1.0
"""Seconds before a line is shown; shorter work shows nothing."""
_PAUSE_SECONDS = 0.1
_LONGEST_NAME = 30


class Progress(AbstractContextManager["Progress"]):
    """A progress line in bytes; does nothing if standard error is not a terminal."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self.watched = watched()
        """Whether the line can be seen."""
        self._bar: Any = None

    def expect(self, total: int) -> None:
        """Start, with ``total`` bytes to do; 0: unknown."""
        self.close()
        if not self.watched:
            return
        from threading import RLock

        from tqdm import tqdm

        # Workers are forked, so tqdm must not start a thread or use a lock between processes.
        tqdm.monitor_interval = 0
        tqdm.set_lock(RLock())
        shown = {"desc": self._doing, "unit": "B", "unit_scale": True, "leave": False, "dynamic_ncols": True}
        pace = {"delay": DELAY_SECONDS, "mininterval": _PAUSE_SECONDS, "miniters": 1}
        self._bar = tqdm(total=total or None, file=sys.stderr, **shown, **pace)

    def reach(self, done: int, at: str = "") -> None:
        """Set the amount done; ``at``: the current item."""
        if self._bar is not None:
            self._bar.set_postfix_str(printable(at, _LONGEST_NAME), refresh=False)
            self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Erase the line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __exit__(self, *_: object) -> None:
        self.close()
