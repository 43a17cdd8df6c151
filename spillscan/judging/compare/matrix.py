"""Kernels × archs of one or more builds: one row per kernel, one column per arch and build. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from spillscan.judging.compare.effects import blocks
from spillscan.model import Build, Kernel, KernelKey
from spillscan.model.metrics import find_metric
from spillscan.model.symbols import natural
from spillscan.naming.pairs import pair
from spillscan.occupancy.launches import Launches, LaunchMap

ABSENT = "·"
"""Cell text if a build or arch does not have the kernel."""


class Column(NamedTuple):
    """Build and target of a column."""

    build: int
    """Index of the build."""
    arch: str | None
    """Target; ``None`` if unknown."""


class KernelRow(Struct, frozen=True, kw_only=True):
    """Records of one kernel."""

    cells: tuple[Kernel | None, ...]
    """Record in each column; ``None`` if that build or arch does not have the kernel."""

    @property
    def kernel(self) -> Kernel:
        """Latest record."""
        return next(cell for cell in reversed(self.cells) if cell is not None)


class Matrix(Struct, frozen=True, kw_only=True):
    """Kernels by archs and builds."""

    builds: tuple[str, ...]
    """Names of the builds, in the order given."""
    columns: tuple[Column, ...]
    """Archs in order, and for each arch the builds that have it."""
    rows: tuple[KernelRow, ...]
    """Rows in the order of the builds."""
    metrics: tuple[str, ...]
    """Metrics shown to people; machine formats contain all."""
    launches: Launches = LaunchMap()
    """Launches of kernels, as far as known."""

    def values(self, row: KernelRow, metric: str) -> tuple[int | None, ...]:
        """Value of a metric in each column; ``None`` if the kernel is absent, or its build does not report it."""
        return tuple(None if cell is None else self.value(cell, metric) for cell in row.cells)

    def ranked(self, metric: str) -> list[KernelRow]:
        """Rows with the widest spread of a metric first, then by its largest value."""

        def order(row: KernelRow) -> tuple[object, ...]:
            values, key = self.values(row, metric), row.kernel.key
            most = max((value for value in values if value is not None), default=-1)
            return -spread(values), -most, key.symbol, key.arch or "", key.unit

        return sorted(self.rows, key=order)

    def value(self, kernel: Kernel, metric: str) -> int | None:
        """Value of one metric of a kernel.
        A compared metric, ``spill_bytes`` (stores and loads), ``constant_bytes`` (all banks), or ``resident_blocks``,
        which needs the launch.
        """
        if metric == "resident_blocks":
            return blocks(kernel, self.launches)
        get = find_metric(metric).get
        value = None if get is None else get(kernel)
        return sum(size for _, size in value) if isinstance(value, tuple) else value


def matrix(
    builds: Sequence[Build], labels: Sequence[str], metrics: Sequence[str], launches: Launches | None = None
) -> Matrix:
    """Matrix of all kernels of ``builds``, paired from each build to the next by :func:`pair`, within their archs."""
    rows = _merged(_rows(builds))
    present = {column for cells in rows for column in cells}
    columns = sorted(present, key=lambda column: (natural(column.arch), column.build))
    return Matrix(
        builds=tuple(labels),
        columns=tuple(columns),
        rows=tuple(KernelRow(cells=tuple(map(cells.get, columns))) for cells in rows),
        metrics=tuple(metrics),
        launches=launches or LaunchMap(),
    )


def spread(values: Sequence[int | None]) -> int:
    """Difference between the largest and the smallest known value."""
    known = [value for value in values if value is not None]
    return max(known) - min(known) if known else 0


def _rows(builds: Sequence[Build]) -> list[dict[int, Kernel]]:
    """Records of each kernel and arch by build, in order; each is paired with the latest one before."""
    rows: list[dict[int, Kernel]] = []
    for at, build in enumerate(builds):
        latest = [[*row.values()][-1] for row in rows]
        row_of = {id(kernel): row for kernel, row in zip(latest, rows, strict=True)}
        older = {
            id(after): row_of[id(before)]
            for before, after, _ in pair(latest, build.kernels, families=False)
            if before is not None and after is not None
        }
        for kernel in build.kernels:
            row = older.get(id(kernel))
            if row is None:
                rows.append(row := {})
            row[at] = kernel
    return rows


def _merged(rows: Sequence[dict[int, Kernel]]) -> list[dict[Column, Kernel]]:
    """Rows merged over the archs of a kernel, by symbol; same-named kernels of one arch by unit, then in order."""
    groups: dict[tuple[bool, str], list[dict[int, Kernel]]] = defaultdict(list)
    for row in rows:
        first = next(iter(row.values()))
        groups[first.role == "function", first.key.symbol].append(row)
    merged: list[dict[Column, Kernel]] = []
    for group in groups.values():
        keys = [next(iter(row.values())).key for row in group]
        alone = len({key.arch for key in keys}) == len(keys)
        seen = Counter[KernelKey]()
        shared: dict[tuple[str, int], dict[Column, Kernel]] = defaultdict(dict)
        for row, key in zip(group, keys, strict=True):
            place = "" if alone else key.unit, seen[key]
            shared[place].update({Column(build, key.arch): kernel for build, kernel in row.items()})
            seen[key] += 1
        merged += shared.values()
    return merged
