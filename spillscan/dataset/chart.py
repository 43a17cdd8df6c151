"""A figure over builds drawn with characters: pure, the width is given."""

from __future__ import annotations

from collections.abc import Sequence

ROWS = 4
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_AXIS = 9


def draw(
    values: Sequence[int | None], width: int, *, fewer_is_worse: bool = False, ascii_only: bool = False
) -> list[str]:
    """Lines of a chart at most ``width`` wide, from 0 up; ``?`` stands where a build does not tell.

    Where there are more builds than columns, a column stands for a range of them and shows its worst.
    """
    columns = _columns(values, max(width - _AXIS - 2, 8), fewer_is_worse)
    wide = 2 if 2 * len(columns) <= width - _AXIS - 2 else 1
    top = max((value for value in columns if value is not None), default=0) or 1
    lines = []
    for row in range(ROWS, 0, -1):
        cells = [_cell(value, top, row, ascii_only) * wide for value in columns]
        label = f"{top:,}" if row == ROWS else ""
        lines.append(f"{label:>{_AXIS - 1}} " + ("|" if ascii_only else "┤") + "".join(cells).rstrip())
    dash, corner = ("-", "+") if ascii_only else ("─", "└")
    lines.append(f"{'0':>{_AXIS - 1}} " + corner + dash * (wide * len(columns)))
    return lines


def ends(first: str, last: str, values: int, width: int) -> str:
    """What stands below the axis: the names of the first build and of the last."""
    columns = min(values, max(width - _AXIS - 2, 8))
    wide = columns * (2 if 2 * columns <= width - _AXIS - 2 else 1)
    space = wide - len(first) - len(last)
    text = f"{first} … {last}" if space < 1 else first + " " * space + last
    return " " * (_AXIS + 1) + (first if values == 1 else text)


def _cell(value: int | None, top: int, row: int, ascii_only: bool) -> str:
    if value is None:
        return "?" if row == 1 else " "
    filled = min(max(value / top * ROWS - (row - 1), 0), 1)
    if ascii_only:
        return "#" if filled >= 0.5 else " "
    return _EIGHTHS[max(round(8 * filled), 1 if value and row == 1 else 0)]


def _columns(values: Sequence[int | None], most: int, fewer_is_worse: bool) -> list[int | None]:
    if len(values) <= most:
        return list(values)
    worst = min if fewer_is_worse else max
    columns: list[int | None] = []
    for column in range(most):
        told = [
            value
            for value in values[column * len(values) // most : (column + 1) * len(values) // most]
            if value is not None
        ]
        columns.append(worst(told) if told else None)
    return columns
