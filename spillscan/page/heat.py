"""Builds or archs side by side, as a page colours them."""

from __future__ import annotations

from typing import Any

from spillscan.compare.figures import figure
from spillscan.compare.matrix import Matrix, spread
from spillscan.output.safe import printable
from spillscan.page.columns import LONGEST_ARCH, shown_name

_LONGEST_LABEL = 80


def heat(matrix: Matrix) -> dict[str, Any]:
    """Rows in the order of the widest spread of the first metric; values by metric, row and column; ``cells`` tells
    which rows have a kernel in which column: 1 and 0."""
    first = matrix.metrics[0]
    rows = sorted(
        matrix.rows,
        key=lambda row: (-spread(matrix.values(row, first)), row.kernel.key.symbol, row.kernel.key.arch or ""),
    )
    return {
        "by": matrix.by,
        "builds": [printable(build, _LONGEST_LABEL) for build in matrix.builds],
        "columns": [
            {"build": column.build, "arch": None if column.arch is None else printable(column.arch, LONGEST_ARCH)}
            for column in matrix.columns
        ],
        "metrics": [{"name": name, "label": figure(name).label, "unit": figure(name).unit} for name in matrix.metrics],
        "rows": [
            {
                "name": shown_name(row.kernel.key.symbol),
                "arch": printable(row.kernel.key.arch, LONGEST_ARCH)
                if row.kernel.key.arch is not None and matrix.by == "build"
                else None,
                "there": [int(cell is not None) for cell in row.cells],
                "values": [matrix.values(row, name) for name in matrix.metrics],
            }
            for row in rows
        ],
    }
