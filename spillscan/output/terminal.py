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
from itertools import pairwise, zip_longest
from textwrap import TextWrapper, wrap
from typing import Any, NamedTuple, TextIO

from spillscan.output.safe import printable

RED, YELLOW, GREEN, DIM, BOLD, END = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m"
PLAIN_WIDTH = 120
"""Width in columns if there is no terminal."""
_NARROWEST = 60
_LONGEST_COMPLAINT = 1000
"""Maximum characters of a line on standard error; names in it may be very long."""
_SMALLEST_CELL = 20
"""Width to which columns of words are wrapped before names get lines of their own."""
_READABLE_NAME = 40
"""Characters of a name before other columns are hidden."""
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


def style_of(rows: int | None = None, to_terminal: bool = True) -> Style:
    """Style of standard output; plain for a file.

    ``NO_COLOR`` wins over ``FORCE_COLOR`` (``0``: not forced), which wins over the terminal's type.
    """
    terminal = to_terminal and sys.stdout.isatty()
    forced = os.environ.get("FORCE_COLOR", "") not in ("", "0") and to_terminal
    color = not os.environ.get("NO_COLOR") and (forced or (terminal and os.environ.get("TERM") != "dumb"))
    width = columns(PLAIN_WIDTH) if terminal or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Style(width=max(_NARROWEST, width), color=color, rows=rows)


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
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN = {"≤": "<=", "→": "->", "…": "...", "↑": "^", "↓": "v", "·": ".", "×": "x", "−": "-", "–": "-"}
_PLAIN |= zip(_BARS, "01234567", strict=True)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_PLAIN.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error(_PLAINLY, _plainly)


def say(lines: Iterable[str]) -> None:
    """Print lines, escaped."""
    for line in lines:
        print(printable(line))


def wrapped(lines: Iterable[str], style: Style, indent: int | None = None, color: str = "") -> Iterator[str]:
    """Lines, escaped and wrapped to the terminal's width, in ``color``.

    Continuation lines are indented by ``indent``, by default four more than the line itself. Words are not broken, so
    that paths can be copied.
    """
    for line in lines:
        lead = " " * (len(line) - len(line.lstrip()) + 4 if indent is None else indent)
        parts = wrap(
            printable(line), style.width, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False
        )
        yield from (paint(part, color, style) for part in parts or [""])


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
    below: str = "",
) -> Iterator[str]:
    """Lines of a table, with columns as wide as needed.

    If the table is too wide, ``spare`` columns are hidden first and named in a last line, but the cells of column
    ``below`` move to lines below their rows; then the other ``left`` columns are wrapped, the widest first, and names
    in the first column get lines of their own. No word is cut. ``left`` columns are left-aligned. A row of one cell is
    a line across all columns. With ``caption``, columns with equal cells in many rows move to a line above.
    """
    shown = [header, *(cells for cells, _ in rows if len(cells) == len(header))]
    grid = [[printable(cell) for cell in cells] for cells in shown]
    if caption and len(grid) > _MANY:
        alike = [at for at, column in enumerate(zip(*grid[1:], strict=True)) if at and len(set(column)) == 1]
        if alike:
            shared = ", ".join(f"{grid[0][at]} {grid[1][at]}" for at in alike)
            grid = [[cell for at, cell in enumerate(row) if at not in alike] for row in grid]
            yield from wrapped([f"in all rows: {shared}"], style, indent=2, color=DIM)
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    gone: dict[str, list[str]] = {}
    for column in spare:
        if column in grid[0] and _excess([min(widths[0], _READABLE_NAME), *widths[1:]], style) > 0:
            at = grid[0].index(column)
            gone[column] = [row.pop(at) for row in grid]
            del widths[at]
    moved = iter(["", *gone.pop(below, [""] * len(grid))[1:]])
    sides = ["<" if name in left else ">" for name in grid[0]]
    wide = sorted((at for at, side in enumerate(sides) if at and side == "<"), key=lambda at: -widths[at])
    for at, smallest in (*((at, _SMALLEST_CELL) for at in wide), (0, 0), *((at, 0) for at in wide)):
        if (excess := _excess(widths, style)) > 0:
            words = _BREAK.split(" ".join(row[at] for row in grid)) if at else grid[0][:1]
            least = max(smallest, *map(len, words))
            widths[at] = min(widths[at], max(least, widths[at] - excess))
    lines = iter(grid)
    for cells, color in [(header, BOLD), *rows]:
        if len(cells) < len(header):
            yield from wrapped(cells, style, indent=4, color=color)
        else:
            for line in _lines(next(lines), widths, sides):
                yield paint(line, color, style) if color or not style.color else _ZERO.sub(rf"\1{DIM}0{END}", line)
            if text := next(moved):
                yield from wrapped([f"  {below}  {text}"], style)
    if gone:
        yield from wrapped([f"hidden columns: {', '.join(name.partition(',')[0] for name in gone)}"], style, color=DIM)


_ZERO = re.compile(r"(  )0(?=  |$)")
"""A cell of 0, which is dimmed."""


def _excess(widths: Sequence[int], style: Style) -> int:
    """Number of columns by which a table is too wide."""
    return sum(widths) + 2 * (len(widths) - 1) - style.width


def _lines(cells: Sequence[str], widths: Sequence[int], sides: Sequence[str]) -> Iterator[str]:
    """One row: a name that is too long on a line of its own, then the other cells, wrapped to their columns."""
    own = [cells[0]] if len(cells[0]) > widths[0] else []
    yield from own
    parts = [[""] if own else [cells[0]], *map(_parts, cells[1:], widths[1:])]
    for texts in zip_longest(*parts, fillvalue=""):
        yield "  ".join(map("{:{}{}}".format, texts, sides, widths)).rstrip()


_BREAK = re.compile(r"(\s+|(?<=/))")
"""Where a cell may be wrapped: at a blank, and after a folder of a path."""


class _Cell(TextWrapper):
    wordsep_simple_re = _BREAK


def _parts(cell: str, width: int) -> list[str]:
    """``cell`` in lines; blanks in the bars of a trend are no places to wrap."""
    return [cell] if len(cell) <= width else _Cell(width, break_long_words=False, break_on_hyphens=False).wrap(cell)


def fold(more: int, style: Style, about: str = "") -> Iterator[str]:
    """A line for rows left out of a table, with ``about`` them; none if nothing is left out."""
    if more:
        yield paint(f"… {more:,} more{about} (--all shows them)", DIM, style)


def paint(text: str, color: str, style: Style) -> str:
    """``text`` escaped, in ``color`` if the style has colors."""
    shown = printable(text)
    return f"{color}{shown}{END}" if style.color and color and shown else shown


def spark(values: Sequence[int | None], width: int, *, least: int = 0) -> str:
    """A sparkline; each bar is the maximum of its values, above ``least``; blank if none is known."""
    columns = min(width, len(values))
    cuts = [len(values) * at // columns for at in range(columns + 1)] if columns else [0]
    tops = [max((each for each in values[at:end] if each is not None), default=None) for at, end in pairwise(cuts)]
    span = max([each - least for each in tops if each is not None], default=0) or 1
    return "".join(" " if top is None else _BARS[round((len(_BARS) - 1) * (top - least) / span)] for top in tops)


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
