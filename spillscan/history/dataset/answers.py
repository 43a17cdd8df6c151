"""What the kernels of builds come to: the worst of one build, of several copies the worst; and over all builds, with
those in which that jumped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spillscan.history.dataset.history import LAUNCHED, light_kernel, names_in
from spillscan.judging.compare.effects import resident
from spillscan.model import Kernel
from spillscan.model.figures import RANKED
from spillscan.model.usage import NUMBERS
from spillscan.naming.identity import canonical
from spillscan.occupancy.summary import summarise
from spillscan.output.errors import UndecidedError, UsageError

if TYPE_CHECKING:
    from spillscan.history.dataset.builds import KeptBuild
    from spillscan.history.dataset.reading import Dataset
    from spillscan.occupancy.launches import Launches
    from spillscan.occupancy.model import Occupancy

_RANKED = (
    *("symbol", "arch", "object", "role", "final", "confidence", *LAUNCHED),
    *(each.name for each in RANKED),
)
_ORDER = {"spills": "spill_bytes"}


class Ranked(NamedTuple):
    """One kernel of the ranking."""

    kernel: Kernel
    object: str
    figures: dict[str, int | float | None]
    """As the dataset holds them."""
    lost_blocks: int | None
    """Blocks per SM that warp and block slots would hold and registers, shared memory and barriers do not."""
    occupancy: Occupancy | None
    copies: int = 1
    """Kernels of this canonical name and arch (in a log, an object, a library) that are ranked; this is the worst."""


class Ranking(NamedTuple):
    """The worst, worst first, and how many the measure does not reach."""

    entries: list[Ranked]
    unknown: int
    """Kernels of which the figure is not known."""


def rank(dataset: Dataset, label: str, measure: str, most: int, launches: Launches) -> Ranking:
    """The ``most`` worst kernels of a build by ``measure`` (``spills``, ``lost-blocks``, or a figure of the dataset);
    those that are at 0 are left out.

    Raises :class:`~spillscan.UsageError` where there is no such build, and
    :class:`~spillscan.output.errors.UndecidedError` where the figure is known of no kernel.
    """
    if label not in dataset.labels:
        raise UsageError(f"there is no build {label!r}", f"the last one is {dataset.labels[-1]}")
    if measure == "lost-blocks":
        return _by_blocks(dataset, label, most, launches)
    column = _ORDER.get(measure, measure)
    known = f"count(*) FILTER ({column} IS NOT NULL)"
    counted = dataset.ask(f"SELECT count(*), {known} FROM kernels WHERE label = ?{_entries(measure)}", [label])
    total, known_of = counted.rows[0]
    if total and not known_of:
        raise UndecidedError(f"no kernel of {label} has known {measure}", "audit logs of ptxas -v, or binaries")
    rows = dataset.ask(
        f"SELECT {', '.join(_RANKED)}, count(*) OVER same FROM kernels "
        f"WHERE label = ? AND {column} > 0{_entries(measure)} "
        "WINDOW same AS (PARTITION BY canonical, arch) "
        f"QUALIFY row_number() OVER (same ORDER BY {column} DESC, spills_in_loops DESC NULLS LAST, symbol, object) = 1 "
        f"ORDER BY {column} DESC, canonical, arch LIMIT ?",
        [label, most],
    ).rows
    entries = [_entry(dict(zip(_RANKED, row[:-1], strict=True)))._replace(copies=row[-1]) for row in rows]
    return Ranking(entries, total - known_of)


def _entries(measure: str) -> str:
    """Device functions spill; their registers are of no launch."""
    return "" if measure.startswith("spill") else " AND role <> 'function'"


def _by_blocks(dataset: Dataset, label: str, most: int, launches: Launches) -> Ranking:
    question = (
        f"SELECT {', '.join(_RANKED)} FROM kernels WHERE label = ?{_entries('lost-blocks')} "
        "ORDER BY canonical, symbol, arch, object"
    )
    entries, unknown = [], 0
    for row in dataset.ask(question, [label]).rows:
        entry = _entry(dict(zip(_RANKED, row, strict=True)))
        kernel = entry.kernel
        launch = None if kernel.final is False else launches.launch_of(kernel)
        arch = kernel.key.arch
        occupancy = None if launch is None or arch is None else resident(kernel.usage, arch, launch)
        if occupancy is None:
            unknown += 1
        elif lost := _lost(occupancy):
            entries.append(entry._replace(lost_blocks=lost, occupancy=occupancy))
    if unknown and not entries:
        raise UndecidedError(
            f"no kernel of {label} is known to lose blocks; of {unknown:,} it is not known how they are launched",
            "say it: --launch 'GLOB=THREADS'",
        )
    entries.sort(key=lambda entry: -(entry.lost_blocks or 0))
    worst: dict[tuple[str, str | None], Ranked] = {}
    for entry in entries:
        key = canonical(entry.kernel.key.symbol), entry.kernel.key.arch
        worst[key] = worst[key]._replace(copies=worst[key].copies + 1) if key in worst else entry
    return Ranking(list(worst.values())[:most], unknown)


def _entry(row: dict[str, Any]) -> Ranked:
    return Ranked(
        kernel=light_kernel(row),
        object=str(row["object"] or ""),
        figures={each.name: row[each.name] for each in RANKED},
        lost_blocks=None,
        occupancy=None,
    )


def _lost(occupancy: Occupancy) -> int:
    slots = [limit for name, limit in occupancy.limits.items() if name in ("warps", "blocks") and limit is not None]
    return max(0, min(slots) - occupancy.resident_blocks)


TOTALS = ("kernels", "spilling_kernels", "spill_bytes", "low_occupancy_kernels", "code_bytes", "compile_ms")
"""What is added up over the kernels of a build."""
_USUAL = 3
"""A jump is so many times as large as the usual change."""
_FEW = 10
"""Of so few changes none is usual."""
_COLUMNS = (
    *("symbol", "arch", "role", "final", "confidence", *LAUNCHED),
    *(name for name in NUMBERS),
    *("spill_bytes", "code_bytes"),
)

By = Literal["label", "family", "arch"]


@dataclass(frozen=True, slots=True)
class Sum:
    """A figure added up over some kernels."""

    known: float | None
    """Of those of which it is known; ``None``: of none."""
    unknown: int = 0
    """Kernels of which it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A total that changed by more than usual from one build to the next that knows it."""

    total: str
    """One of :data:`TOTALS`."""
    before: float
    """It was this."""
    after: float
    """And is this."""
    last: int
    """Index of the build before."""
    first: int
    """Index of the build after."""
    threshold: float
    """A change must be larger than this to be a jump."""


def totals(
    dataset: Dataset, builds: Sequence[KeptBuild], launches: Launches, below: float
) -> dict[By, dict[str, dict[str, Sum]]]:
    """Totals of each build by its label, and of the newest build's families and archs.

    Device functions are left out. ``below``: a share of the SM's warps; what may hold
    fewer is a kernel of low occupancy.
    """
    newest = builds[-1].label
    names = names_in(dataset, [newest])
    wanted = {build.label for build in builds}
    found: dict[By, dict[str, dict[str, list[Any]]]] = {"label": {}, "family": {}, "arch": {}}
    for build in builds:
        found["label"][build.label] = defaultdict(lambda: [None, 0])
    question = (
        f"SELECT {', '.join(_COLUMNS)}, list(struct_pack(label, compile_ms)) FROM kernels"
        " WHERE role <> 'function' GROUP BY ALL ORDER BY ALL"
    )
    for row in dataset.ask(question).rows:
        named = dict(zip(_COLUMNS, row[:-1], strict=True))
        kernel = light_kernel(named)
        spill = named["spill_bytes"]
        figures = {
            "kernels": 1,
            "spilling_kernels": None if spill is None else int(spill > 0),
            "spill_bytes": spill,
            "low_occupancy_kernels": None,
            "code_bytes": named["code_bytes"],
        }
        if kernel.final is not False:
            summary = summarise(kernel.usage, kernel.key.arch, launches.launch_of(kernel))
            if summary.occupancy is not None and (summary.occupancy.fraction < below or not summary.at_most):
                figures["low_occupancy_kernels"] = int(summary.occupancy.fraction < below)
        groups: tuple[tuple[By, str], ...] = ()
        if any(place["label"] == newest for place in row[-1]):
            groups = ("family", names.base(kernel.named_by)), ("arch", kernel.key.arch or "arch unknown")
        for place in row[-1]:
            if place["label"] not in wanted:
                continue
            all_figures = figures | {"compile_ms": place["compile_ms"]}
            _add(found["label"][place["label"]], all_figures)
            if place["label"] == newest:
                for by, group in groups:
                    _add(found[by].setdefault(group, defaultdict(lambda: [None, 0])), all_figures)
    return {
        by: {name: {total: Sum(*sums[total]) for total in TOTALS} for name, sums in groups.items()}
        for by, groups in found.items()
    }


def _add(sums: dict[str, list[Any]], figures: dict[str, Any]) -> None:
    for name, value in figures.items():
        if value is None:
            sums[name][1] += 1
        else:
            sums[name][0] = (sums[name][0] or 0) + value


def jumps(sums: Sequence[Sum], total: str, percent: float) -> Iterator[Jump]:
    """Where a total jumped: by more than ``percent`` of what it was, and by more than thrice the usual change (the
    median of all that are not 0). A build that knows it of all kernels is compared with the last that does; any other
    with its neighbour, if that does not know it of as many kernels: else what changed is not known."""
    from statistics import median  # takes its time to import; few questions need it

    known = [(index, each.known, each.unknown) for index, each in enumerate(sums) if each.known is not None]
    whole = [each for each in known if not each[2]]
    pairs = [*pairwise(whole), *((one, other) for one, other in pairwise(known) if one[2] == other[2] > 0)]
    moved = [abs(other[1] - one[1]) for one, other in pairs if other[1] != one[1]]
    usual = _USUAL * median(moved) if len(moved) > _FEW else 0.0
    for (last, before, _), (first, after, _) in pairs:
        threshold = max(abs(before) * percent / 100, usual)
        if abs(after - before) > threshold:
            yield Jump(total=total, before=before, after=after, last=last, first=first, threshold=threshold)


def heaviest(groups: dict[str, dict[str, Sum]]) -> list[tuple[str, dict[str, Sum]]]:
    """Groups, those of most spilled bytes first, then of most code, then of most kernels."""

    def weight(item: tuple[str, dict[str, Sum]]) -> tuple[Any, ...]:
        return (*(-(item[1][total].known or 0) for total in ("spill_bytes", "code_bytes", "kernels")), item[0])

    return sorted(groups.items(), key=weight)


def texts(sums: dict[str, Sum], names: Iterable[str] = TOTALS) -> list[str]:
    """Totals for people: ``-`` where nothing is known, ``≥`` where not all is."""
    cells = []
    for name in names:
        each = sums[name]
        mark = "≥" if each.unknown else ""
        cells.append("-" if each.known is None else f"{mark}{each.known:,.0f}")
    return cells
