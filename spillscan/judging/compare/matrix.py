"""Several builds, or the archs of one, side by side: a row a kernel, a column a build or arch. And the candidates of a
tuner beside each other: kernels of one name and arch that were compiled for several configurations, in one build or in
several, and which of them no other of their build beats. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from spillscan.judging.compare.effects import blocks
from spillscan.judging.compare.pairing import pair
from spillscan.model import Build, Kernel
from spillscan.model.build import damage
from spillscan.model.figures import figure, static_shared
from spillscan.model.symbols import natural, tuned_for
from spillscan.occupancy.launches import Launches, LaunchMap
from spillscan.occupancy.summary import Summary, summarise

By = Literal["build", "arch"]
ABSENT = "·"
"""What people see where a build or arch has no such kernel."""


class Column(Struct, frozen=True, kw_only=True):
    """Where a cell's kernel was compiled."""

    build: int
    """Which build, from 0."""
    arch: str | None = None
    """Of a matrix by arch: which target."""


class KernelRow(Struct, frozen=True, kw_only=True):
    """One kernel."""

    kernel: Kernel
    """The latest record of it."""
    cells: tuple[Kernel | None, ...]
    """Its record in each column; ``None`` where that build or arch has no such kernel."""


class Matrix(Struct, frozen=True, kw_only=True):
    """Kernels against builds or archs."""

    by: By
    """What a row is: by build, a kernel has a row for each arch; by arch, it has one."""
    builds: tuple[str, ...]
    """What the builds are called, in the order given."""
    columns: tuple[Column, ...]
    """By build: one each, in the order given. By arch: the archs in order, and for each the builds that have it."""
    rows: tuple[KernelRow, ...]
    """In the order of the builds."""
    metrics: tuple[str, ...]
    """What a person wants to see of it; machine formats hold all figures."""
    launches: Launches = LaunchMap()
    """How kernels are launched, as far as it is known."""

    def values(self, row: KernelRow, metric: str) -> tuple[int | None, ...]:
        """A figure in each column; ``None`` where the kernel is not there, or its build does not report it."""
        return tuple(None if cell is None else self.value(cell, metric) for cell in row.cells)

    def ranked(self, metric: str) -> list[KernelRow]:
        """The rows, widest spread of a figure first, then its largest value."""

        def order(row: KernelRow) -> tuple[object, ...]:
            values, key = self.values(row, metric), row.kernel.key
            most = max((value for value in values if value is not None), default=-1)
            return -spread(values), -most, key.symbol, key.arch or "", key.unit

        return sorted(self.rows, key=order)

    def value(self, kernel: Kernel, metric: str) -> int | None:
        """One figure of a kernel: a compared one, ``spill_bytes`` (stores and loads), ``constant_bytes`` (all banks),
        or ``resident_blocks``, which is known only where the launch is."""
        if metric == "resident_blocks":
            return blocks(kernel, self.launches)
        get = figure(metric).get
        value = None if get is None else get(kernel)
        return sum(size for _, size in value) if isinstance(value, tuple) else value


def matrix(
    builds: Sequence[Build], labels: Sequence[str], by: By, metrics: Sequence[str], launches: Launches | None = None
) -> Matrix:
    """All kernels of ``builds``, paired from each build to the next as :func:`pair` does,
    within their archs."""
    found = by_build(builds)
    columns = [Column(build=at) for at in range(len(builds))]
    if by == "arch":
        columns = [
            Column(build=at, arch=arch)
            for arch in sorted({kernel.key.arch for build in builds for kernel in build.kernels}, key=natural)
            for at, build in enumerate(builds)
            if any(kernel.key.arch == arch for kernel in build.kernels)
        ]
        found = _by_arch(found, columns)
    return Matrix(
        by=by,
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
    """Largest less smallest of what is known."""
    known = [value for value in values if value is not None]
    return max(known) - min(known) if known else 0


Cells = list[Kernel | None]


def by_build(builds: Sequence[Build]) -> list[Cells]:
    """A list of cells a kernel and arch, one cell a build: its record there."""
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
    """Rows of one kernel on several archs become one: by symbol; namesakes of one arch by unit, then in order."""
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


COLUMNS = (
    *("kernel", "arch", "configuration", "threads_per_block", "registers", "spill_bytes"),
    *("shared_bytes", "resident_blocks", "active_warps", "occupancy", "at_most", "unbeaten"),
)


class Candidate(Struct, frozen=True, kw_only=True):
    """One of them."""

    kernel: Kernel
    """Its record."""
    summary: Summary
    """Its occupancy at its own launch."""
    unbeaten: bool
    """Whether no other candidate of the same tile has as few registers, spills and bytes of shared memory, as many
    resident warps, and one of them better. Blocks of another tile do other work; what is not known beats nothing."""

    @property
    def configuration(self) -> str:
        """``64×64×32, 4 warps, 3 stages``: what it was tuned for."""
        return ", ".join(tuned_for(self.kernel.configuration))

    @property
    def row(self) -> tuple[object, ...]:
        """Its figures, as :data:`COLUMNS`."""
        found, launch = self.summary.occupancy, self.summary.launch
        return (
            self.kernel.key.symbol,
            self.kernel.key.arch,
            self.configuration,
            None if launch is None else launch.threads_per_block,
            self.kernel.usage.registers,
            None if self.kernel.spills is None else sum(self.kernel.spills),
            _shared(self.kernel, self.summary),
            None if found is None or self.summary.at_most else found.resident_blocks,
            None if found is None else found.active_warps,
            None if found is None else found.fraction,
            self.summary.at_most,
            self.unbeaten,
        )

    def texts(self, not_said: str) -> list[str]:
        """Threads, registers, spill bytes, shared bytes, blocks, occupancy, and whether it is unbeaten, for people."""
        cells = self.summary.cells
        numbers = [not_said if value is None else f"{value:,}" for value in self.row[3:7]]
        return [*numbers, cells["blocks"] or not_said, cells["occupancy"] or not_said, "yes" if self.unbeaten else "no"]


def over_builds(cells: Sequence[Sequence[str] | None]) -> list[str]:
    """Each text over the builds: ``64 → 72``, or ``64`` where it is the same in all; ``None``: a build without it."""
    width = len(next(cell for cell in cells if cell is not None))
    columns = zip(*([ABSENT] * width if cell is None else cell for cell in cells), strict=True)
    return [texts[0] if len(set(texts)) == 1 else " → ".join(texts) for texts in columns]


def candidates(kernels: Iterable[Kernel], launches: Launches) -> list[Candidate]:
    """Every kernel whose configuration is known, the groups by name and arch, each with the unbeaten first."""
    groups: dict[tuple[str, str], list[tuple[Kernel, Summary]]] = {}
    for kernel in kernels:
        if kernel.configuration:
            summary = summarise(kernel.usage, kernel.key.arch, launches.launch_of(kernel))
            groups.setdefault((kernel.key.symbol, kernel.key.arch or ""), []).append((kernel, summary))
    found = []
    for _, group in sorted(groups.items()):
        costs = [(dict(kernel.configuration).get("tile"), _costs(kernel, summary)) for kernel, summary in group]
        ranked = [
            Candidate(
                kernel=kernel,
                summary=summary,
                unbeaten=not any(other == tile and _beats(less, cost) for other, less in costs),
            )
            for (kernel, summary), (tile, cost) in zip(group, costs, strict=True)
        ]
        found += sorted(ranked, key=lambda each: (not each.unbeaten, damage(each.kernel), each.configuration))
    return found


class CandidateRow(Struct, frozen=True, kw_only=True):
    """One candidate in several builds."""

    cells: tuple[Candidate | None, ...]
    """In each build; ``None`` where that has no such candidate."""

    @property
    def latest(self) -> Candidate:
        """In the last build that has it."""
        return next(cell for cell in reversed(self.cells) if cell is not None)


def side_by_side(builds: Sequence[Build], launches: Launches) -> list[CandidateRow]:
    """Every candidate of any build, in the order of :func:`candidates`. Only candidates of one configuration are one:
    equal code in another is another."""
    found = [candidates(build.kernels, launches) for build in builds]
    known = {id(each.kernel): (order, each) for of_build in found for order, each in enumerate(of_build)}
    tuned = [
        replace(build, kernels=tuple(each.kernel for each in of_build))
        for build, of_build in zip(builds, found, strict=True)
    ]
    rows = []
    for cells in by_build(tuned):
        for configuration in dict.fromkeys(cell.configuration for cell in cells if cell is not None):
            alike = [cell if cell is not None and cell.configuration == configuration else None for cell in cells]
            rows.append(CandidateRow(cells=tuple(None if cell is None else known[id(cell)][1] for cell in alike)))

    def place(row: CandidateRow) -> tuple[object, ...]:
        kernel = row.latest.kernel
        return kernel.key.symbol, kernel.key.arch or "", row.cells[-1] is None, known[id(kernel)][0]

    return sorted(rows, key=place)


def _costs(kernel: Kernel, summary: Summary) -> tuple[int | None, ...]:
    """Figures of which less is better; ``None``: not known."""
    spills = None if kernel.spills is None else sum(kernel.spills)
    warps = None if summary.occupancy is None or summary.at_most else -summary.occupancy.active_warps
    return kernel.usage.registers, spills, _shared(kernel, summary), warps


def _shared(kernel: Kernel, summary: Summary) -> int | None:
    static = static_shared(kernel)
    dynamic = None if summary.launch is None else summary.launch.dynamic_shared_bytes
    return None if static is None or dynamic is None else static + dynamic


def _beats(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    pairs = list(zip(one, other, strict=True))
    if any(a is None or b is None or a > b for a, b in pairs):
        return False
    return one != other
