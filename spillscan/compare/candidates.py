"""The candidates of a tuner beside each other: kernels of one name and arch that were compiled for several
configurations, in one build or in several, and which of them no other of their build beats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from spillscan.compare.matrix import ABSENT, by_build
from spillscan.model import Build, Kernel
from spillscan.model.build import damage
from spillscan.model.figures import static_shared
from spillscan.names import tuned_for
from spillscan.occupancy.launches import Launches
from spillscan.occupancy.summary import Summary, summarise

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
