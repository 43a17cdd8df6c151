"""Charts drawn with characters, no wider than the style: figures over builds, and a line of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from spillscan.output.terminal import Style

_UP = " ▁▂▃▄▅▆▇█"
_ROWS, _AXIS = 4, 9


def builds(
    values: Sequence[int | None], first: str, last: str, style: Style, *, fewer_is_worse: bool = False
) -> list[str]:
    """A figure over builds from 0 up, ``?`` where one does not report it, the names of the first and the last below.

    Where there are more builds than columns, a column stands for a range of them and shows its worst.
    """
    columns = _worst(values, max(style.width - _AXIS - 2, 8), min if fewer_is_worse else max)
    top = max((value for value in columns if value is not None), default=0) or 1
    shares = [None if value is None else value / top for value in columns]
    wide = 2 if 2 * len(columns) <= style.width - _AXIS - 2 else 1
    side, dash, corner = ("|", "-", "+") if style.ascii_only else ("┤", "─", "└")
    labels = {_ROWS: f"{top:,}"}
    lines = []
    for row in range(_ROWS, 0, -1):
        cells = "".join(_cell(share, row, style) * wide for share in shares)
        lines.append(f"{labels.get(row, ''):>{_AXIS - 1}} {side}{cells.rstrip()}")
    lines.append(f"{'0':>{_AXIS - 1}} {corner}{dash * (wide * len(shares))}")
    space = wide * len(columns) - len(first) - len(last)
    ends = f"{first} … {last}" if space < 1 else first + " " * space + last
    return [*lines, " " * (_AXIS + 1) + (first if len(values) == 1 else ends)]


def spark(values: Sequence[int], width: int, style: Style) -> str:
    """One line of columns; one that stands for several values shows the largest."""
    columns = min(width, len(values))
    top = max(values, default=0) or 1
    cuts = [len(values) * at // columns for at in range(columns + 1)] if columns else [0]
    most = [max(values[begin:end]) for begin, end in pairwise(cuts)]
    if style.ascii_only:
        return "".join(str(9 * value // top) for value in most)
    return "".join(_UP[max(-(-8 * value // top), 1)] for value in most)


def _cell(share: float | None, row: int, style: Style) -> str:
    if share is None:
        return "?" if row == 1 else " "
    filled = min(max(share * _ROWS - (row - 1), 0), 1)
    if style.ascii_only:
        return "#" if filled >= 0.5 else " "
    return _UP[max(round(8 * filled), 1 if share and row == 1 else 0)]


def _worst(values: Sequence[int | None], most: int, worst: Callable[[list[int]], int]) -> list[int | None]:
    """One value a column."""
    if len(values) <= most:
        return list(values)
    edges = [column * len(values) // most for column in range(most + 1)]
    ranges = [[value for value in values[a:b] if value is not None] for a, b in pairwise(edges)]
    return [worst(known) if known else None for known in ranges]
