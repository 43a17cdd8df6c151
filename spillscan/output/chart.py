"""A curve of occupancy drawn with characters: pure, the width is given."""

from __future__ import annotations

from collections.abc import Sequence

from spillscan.occupancy.model import Occupancy
from spillscan.occupancy.summary import count

ROWS = 8
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_AXIS = 7
_NICE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)

Points = Sequence[tuple[int, Occupancy]]


def draw(points: Points, now: int, width: int, colour: bool, ascii_only: bool = False) -> list[str]:
    """Lines of a chart at most ``width`` wide, the figure ``now`` marked below (and in colour where wanted).

    Where there are more figures than columns, a column stands for a range and shows its largest figure, which
    is its lowest occupancy.
    """
    columns, owner = _columns(points, now, max(width - _AXIS - 2, 8))
    wide = 2 if 2 * len(columns) <= width - _AXIS - 2 else 1
    lines = []
    for row in range(ROWS, 0, -1):
        label = f"{100 * row // ROWS:>4} %" if row % 2 == 0 else ""
        cells = []
        for place, (_, occupancy) in enumerate(columns):
            filled = min(max(occupancy.fraction * ROWS - (row - 1), 0), 1)
            mark = ("#" if filled >= 0.5 else " ") if ascii_only else _EIGHTHS[round(8 * filled)]
            cell = mark * wide
            cells.append(f"\x1b[1;33m{cell}\x1b[0m" if colour and place == owner and mark != " " else cell)
        lines.append(f"{label:>{_AXIS - 1}} " + ("|" if ascii_only else "┤") + "".join(cells).rstrip())
    dash, corner = ("-", "+") if ascii_only else ("─", "└")
    lines.append(" " * _AXIS + corner + dash * (wide * len(columns)))
    lines.append(" " * (_AXIS + 1) + _scale(columns, owner, wide))
    arrow = "^" if ascii_only else "▲"
    text = f"{arrow} {now:,}: {count(columns[owner][1].resident_blocks)}, {100 * columns[owner][1].fraction:.4g} %"
    start = _AXIS + 1 + wide * owner
    if start + len(text) > width:
        text = f"{text[2:]} {arrow}"
        start = max(start - len(text) + 1, 0)
    lines.append(" " * start + (f"\x1b[1;33m{text}\x1b[0m" if colour else text))
    return lines


def steps(points: Points) -> list[tuple[int, int, Occupancy]]:
    """(first, last, occupancy) of each run of figures with the same resident blocks and warps."""
    runs: list[tuple[int, int, Occupancy]] = []
    for figure, occupancy in points:
        if runs and _same(runs[-1][2], occupancy):
            runs[-1] = (runs[-1][0], figure, runs[-1][2])
        else:
            runs.append((figure, figure, occupancy))
    return runs


def _same(one: Occupancy, other: Occupancy) -> bool:
    return one.resident_blocks == other.resident_blocks and one.active_warps == other.active_warps


def _columns(points: Points, now: int, most: int) -> tuple[list[tuple[int, Occupancy]], int]:
    """One point a column, and the column that holds ``now``."""
    if len(points) <= most:
        figures = [figure for figure, _ in points]
        return list(points), figures.index(now)
    last = points[-1][0]
    size = next((nice for nice in _NICE if -(-last // nice) <= most), last // most + 1)
    by_column: dict[int, tuple[int, Occupancy]] = {}
    owner = 0
    for figure, occupancy in points:
        column = max(-(-figure // size), 1)
        kept = by_column.get(column)
        if figure == now:
            owner = column
        # The column of the current figure shows that figure, every other its largest.
        if kept is None or kept[0] != now:
            by_column[column] = (figure, occupancy)
    keys = sorted(by_column)
    return [by_column[key] for key in keys], keys.index(owner)


def _scale(columns: Sequence[tuple[int, Occupancy]], owner: int, wide: int) -> str:
    """Figures under the axis, as many as fit."""
    text = [" "] * (wide * len(columns) + 8)
    free_from = 0
    for place, (figure, _) in enumerate(columns):
        label = f"{figure:,}"
        start = wide * place
        far_enough = place == 0 or place == len(columns) - 1 or start >= free_from + 4
        if far_enough and start >= free_from and start + len(label) <= wide * len(columns) + 1:
            text[start : start + len(label)] = label
            free_from = start + len(label) + 1
    return "".join(text).rstrip()
