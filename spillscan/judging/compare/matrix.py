"""Kernels × archs of one or more builds: one row per kernel, one column per arch and build. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from spillscan.judging.compare.effects import blocks
from spillscan.judging.compare.pairing import pair
from spillscan.model import Build, Kernel
from spillscan.model.metrics import find_metric
from spillscan.model.symbols import natural
from spillscan.occupancy.launches import Launches, LaunchMap

ABSENT = "·"
"""Cell text if a build or arch does not have the kernel."""


class Column(Struct, frozen=True, kw_only=True):
    """Build and target of a column."""

    build: int
    """Index of the build."""
    arch: str | None = None
    """Target; ``None`` if unknown."""


class KernelRow(Struct, frozen=True, kw_only=True):
    """Records of one kernel."""

    kernel: Kernel
    """Latest record."""
    cells: tuple[Kernel | None, ...]
    """Record in each column; ``None`` if that build or arch does not have the kernel."""


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
    columns = [
        Column(build=at, arch=arch)
        for arch in sorted({kernel.key.arch for build in builds for kernel in build.kernels}, key=natural)
        for at, build in enumerate(builds)
        if any(kernel.key.arch == arch for kernel in build.kernels)
    ]
    found = _by_arch(_by_build(builds), columns)
    return Matrix(
        builds=tuple(labels),
        columns=tuple(columns),
        rows=tuple(
            KernelRow(kernel=next(cell for cell in reversed(cells) if cell is not None), cells=tuple(cells))
            for cells in found
        ),
        metrics=tuple(metrics),
        launches=launches or LaunchMap(),
    )


def spread(values: Sequence[int | None]) -> int:
    """Difference between the largest and the smallest known value."""
    known = [value for value in values if value is not None]
    return max(known) - min(known) if known else 0


Cells = list[Kernel | None]


def _by_build(builds: Sequence[Build]) -> list[Cells]:
    """Cells of each kernel and arch: its record in each build."""
    rows: list[Cells] = []
    for at, build in enumerate(builds):
        latest = [next(cell for cell in reversed(cells) if cell is not None) for cells in rows]
        place = {id(kernel): cells for kernel, cells in zip(latest, rows, strict=True)}
        order = {id(kernel): index for index, kernel in enumerate(build.kernels)}
        fresh = []
        for before, after, _ in pair(latest, build.kernels, families=False):
            if after is None:
                continue
            if before is None:
                fresh.append(after)
            else:
                place[id(before)][at:] = [after]
        for cells in rows:
            cells.extend([None] * (at + 1 - len(cells)))
        rows += [[*[None] * at, after] for after in sorted(fresh, key=lambda kernel: order[id(kernel)])]
    return rows


def _by_arch(rows: list[Cells], columns: Sequence[Column]) -> list[Cells]:
    """Rows merged over the archs of a kernel, by symbol; same-named kernels of one arch by unit, then in order."""
    groups: dict[tuple[bool, str], dict[str | None, list[Cells]]] = {}
    for cells in rows:
        kernel = next(cell for cell in cells if cell is not None)
        group = groups.setdefault((kernel.role == "function", kernel.key.symbol), defaultdict(list))
        group[kernel.key.arch].append(cells)
    merged = []
    for group in groups.values():
        shared: dict[tuple[str, int], dict[str | None, Cells]] = defaultdict(dict)
        alone = all(len(same) == 1 for same in group.values())
        for arch, same in group.items():
            seen: dict[str, int] = defaultdict(int)
            for cells in same:
                unit = "" if alone else next(cell for cell in cells if cell is not None).key.unit
                shared[unit, seen[unit]][arch] = cells
                seen[unit] += 1
        merged += [
            [by_arch[column.arch][column.build] if column.arch in by_arch else None for column in columns]
            for by_arch in shared.values()
        ]
    return merged
