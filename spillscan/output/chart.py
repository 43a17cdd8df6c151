"""Charts drawn with characters, no wider than the style: a curve, figures over builds, bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from spillscan.output.terminal import END, MARKED, Style

_UP, _RIGHT = " ▁▂▃▄▅▆▇█", " ▏▎▍▌▋▊▉█"
_CURVE_ROWS, _CURVE_AXIS = 8, 7
_BUILD_ROWS, _BUILD_AXIS = 4, 9
_NICE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)


def curve(points: Sequence[tuple[int, float]], now: int, note: str, style: Style) -> list[str]:
    """Shares (0 to 1) over figures, the figure ``now`` marked below with a ``note`` (and in color where wanted).

    Where there are more figures than columns, a column stands for a range and shows its largest figure.
    """
    columns, owner = _ranges(points, now, _most_columns(style, _CURVE_AXIS))
    wide = _wide(len(columns), style, _CURVE_AXIS)
    labels = {row: f"{100 * row // _CURVE_ROWS:>4} %" for row in range(2, _CURVE_ROWS + 1, 2)}
    lines = _columns([share for _, share in columns], _CURVE_ROWS, labels, _CURVE_AXIS, style, marked=owner)
    lines.append(" " * (_CURVE_AXIS + 1) + _scale([figure for figure, _ in columns], wide))
    arrow = "^" if style.ascii_only else "▲"
    text, start = f"{arrow} {now:,}: {note}", _CURVE_AXIS + 1 + wide * owner
    if start + len(text) > style.width:
        text = f"{text[2:]} {arrow}"
        start = max(start - len(text) + 1, 0)
    return [*lines, " " * start + _mark(text, style)]


def builds(
    values: Sequence[int | None], first: str, last: str, style: Style, *, fewer_is_worse: bool = False
) -> list[str]:
    """A figure over builds from 0 up, ``?`` where one does not report it, the names of the first and the last below.

    Where there are more builds than columns, a column stands for a range of them and shows its worst.
    """
    columns = _worst(values, _most_columns(style, _BUILD_AXIS), min if fewer_is_worse else max)
    top = max((value for value in columns if value is not None), default=0) or 1
    shares = [None if value is None else value / top for value in columns]
    lines = _columns(shares, _BUILD_ROWS, {_BUILD_ROWS: f"{top:,}", 0: "0"}, _BUILD_AXIS, style)
    space = _wide(len(columns), style, _BUILD_AXIS) * len(columns) - len(first) - len(last)
    ends = f"{first} … {last}" if space < 1 else first + " " * space + last
    return [*lines, " " * (_BUILD_AXIS + 1) + (first if len(values) == 1 else ends)]


def spark(values: Sequence[int], width: int, style: Style) -> str:
    """One line of columns; one that stands for several values shows the largest."""
    columns = min(width, len(values))
    top = max(values, default=0) or 1
    cuts = [len(values) * at // columns for at in range(columns + 1)] if columns else [0]
    most = [max(values[begin:end]) for begin, end in pairwise(cuts)]
    if style.ascii_only:
        return "".join(str(9 * value // top) for value in most)
    return "".join(_UP[max(-(-8 * value // top), 1)] for value in most)


def bar(share: float, width: int, style: Style) -> str:
    """A bar from left to right; what is not 0 is seen."""
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    if style.ascii_only:
        return ("#" * -(-eighths // 8)).ljust(width)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_RIGHT[rest] if rest else "")).ljust(width)


def _most_columns(style: Style, axis: int) -> int:
    return max(style.width - axis - 2, 8)


def _wide(columns: int, style: Style, axis: int) -> int:
    """Characters of a column."""
    return 2 if 2 * columns <= style.width - axis - 2 else 1


def _columns(
    shares: Sequence[float | None],
    rows: int,
    labels: Mapping[int, str],
    axis: int,
    style: Style,
    marked: int | None = None,
) -> list[str]:
    """Columns over an axis, one of them ``marked``; ``labels`` stand before rows, 0 being the axis."""
    wide = _wide(len(shares), style, axis)
    side, dash, corner = ("|", "-", "+") if style.ascii_only else ("┤", "─", "└")
    lines = []
    for row in range(rows, 0, -1):
        cells = [_cell(share, rows, row, style) * wide for share in shares]
        if marked is not None and cells[marked].strip():
            cells[marked] = _mark(cells[marked], style)
        lines.append(f"{labels.get(row, ''):>{axis - 1}} {side}{''.join(cells).rstrip()}")
    return [*lines, f"{labels.get(0, ''):>{axis - 1}} {corner}{dash * (wide * len(shares))}"]


def _cell(share: float | None, rows: int, row: int, style: Style) -> str:
    if share is None:
        return "?" if row == 1 else " "
    filled = min(max(share * rows - (row - 1), 0), 1)
    if style.ascii_only:
        return "#" if filled >= 0.5 else " "
    return _UP[max(round(8 * filled), 1 if share and row == 1 else 0)]


def _mark(text: str, style: Style) -> str:
    return f"{MARKED}{text}{END}" if style.color else text


def _worst(values: Sequence[int | None], most: int, worst: Callable[[list[int]], int]) -> list[int | None]:
    """One value a column."""
    if len(values) <= most:
        return list(values)
    edges = [column * len(values) // most for column in range(most + 1)]
    ranges = [[value for value in values[a:b] if value is not None] for a, b in pairwise(edges)]
    return [worst(known) if known else None for known in ranges]


def _ranges(points: Sequence[tuple[int, float]], now: int, most: int) -> tuple[list[tuple[int, float]], int]:
    """One point a column, and the column that holds ``now``."""
    if len(points) <= most:
        return list(points), [figure for figure, _ in points].index(now)
    last = points[-1][0]
    size = next((nice for nice in _NICE if -(-last // nice) <= most), last // most + 1)
    by_column: dict[int, tuple[int, float]] = {}
    for figure, share in points:
        column = max(-(-figure // size), 1)
        # The column of the current figure shows that figure, every other its largest.
        if column not in by_column or by_column[column][0] != now:
            by_column[column] = (figure, share)
    columns = [by_column[column] for column in sorted(by_column)]
    return columns, [figure for figure, _ in columns].index(now)


def _scale(figures: Sequence[int], wide: int) -> str:
    """Figures under the axis, as many as fit."""
    text = [" "] * (wide * len(figures) + 8)
    free_from = 0
    for at, figure in enumerate(figures):
        label, start = f"{figure:,}", wide * at
        far_enough = at in (0, len(figures) - 1) or start >= free_from + 4
        if far_enough and start >= free_from and start + len(label) <= wide * len(figures) + 1:
            text[start : start + len(label)] = label
            free_from = start + len(label) + 1
    return "".join(text).rstrip()
