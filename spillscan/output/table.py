"""Tables for terminals: columns that give way, colors where they are wanted, nothing that acts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from spillscan.output.safe import printable
from spillscan.reports import Style

RED, YELLOW, GREEN, DIM, BOLD, END = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m"

_READABLE_NAME, _SMALLEST_NAME, _LEAST_NAME = 28, 16, 8

Row = tuple[Sequence[str], str]
"""Cells and the color of the row."""


def table(
    header: Sequence[str], rows: Sequence[Row], style: Style, left: Collection[str], spare: Sequence[str] = ()
) -> Iterator[str]:
    """Columns as wide as they must be. Where that is too wide for the style, first the ``spare`` columns go, then names
    and units are cut. ``left`` columns are aligned to the left."""
    grid = [[clean(cell) for cell in cells] for cells in (header, *(cells for cells, _ in rows))]
    for column in spare:
        if _excess(grid, style, keeping=_READABLE_NAME) > 0 and column in grid[0]:
            at = grid[0].index(column)
            for row in grid:
                del row[at]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    cut = [len(widths) - 1, 0] if grid[0][-1] == "unit" else [0]
    for smallest in (_SMALLEST_NAME, _LEAST_NAME):
        for at in cut:
            excess = sum(widths) + 2 * (len(widths) - 1) - style.width
            if excess > 0:
                widths[at] = min(widths[at], max(smallest, widths[at] - excess))
    aligned = [name in left for name in grid[0]]
    yield paint(_line(grid[0], widths, aligned), BOLD, style)
    for row, (_, color) in zip(grid[1:], rows, strict=True):
        yield paint(_line(row, widths, aligned), color, style)


def _excess(grid: Sequence[Sequence[str]], style: Style, keeping: int) -> int:
    """How much too wide the table is when names and units are cut to ``keeping`` characters."""
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    for column in {0, len(widths) - 1 if grid[0][-1] == "unit" else 0}:
        widths[column] = min(widths[column], keeping)
    return sum(widths) + 2 * (len(widths) - 1) - style.width


def _line(cells: Sequence[str], widths: Sequence[int], aligned_left: Sequence[bool]) -> str:
    padded = []
    for cell, width, to_left in zip(cells, widths, aligned_left, strict=True):
        text = cell if len(cell) <= width else cell[: width - 1 - width // 3] + "…" + cell[len(cell) - width // 3 :]
        padded.append(text.ljust(width) if to_left else text.rjust(width))
    return "  ".join(padded).rstrip()


def fold(more: int, style: Style) -> Iterator[str]:
    """A line for the tail of a table; none where there is no tail."""
    if more:
        yield paint(f"… {more:,} more (--all shows them)", DIM, style)


def paint(text: str, color: str, style: Style) -> str:
    """``text`` in ``color``, where the style wants colors."""
    return f"{color}{text}{END}" if style.color and color and text else text


def clean(text: str) -> str:
    """Names come from logs: nothing in them may act on a terminal or a CI service."""
    return printable(text)
