"""What the kernels of builds come to: the worst of one build, of several copies the worst; and over all builds, with
those in which that jumped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spillscan.history.dataset.lookup import LAUNCHED, light_kernel, named_by, names_in
from spillscan.history.dataset.sql import quoted
from spillscan.judging.compare.effects import resident
from spillscan.judging.policy import Policy
from spillscan.model import Kernel
from spillscan.model.figures import RANKED
from spillscan.naming.identity import canonical
from spillscan.occupancy.summary import summarise
from spillscan.output.errors import UndecidedError, UsageError

if TYPE_CHECKING:
    import pyarrow

    from spillscan.history.dataset.reading import Dataset
    from spillscan.history.dataset.records import KeptBuild
    from spillscan.occupancy.launches import Launches
    from spillscan.occupancy.model import Occupancy

_RANKED = (*("symbol", "arch", "object", "role", "final", "confidence", *LAUNCHED), *(each.name for each in RANKED))
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
    counted = dataset.ask(f"SELECT count(*), {known} FROM kernels WHERE label = ?{_entries(measure)}", [label], [label])
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
        [label],
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
    for row in dataset.ask(question, [label], [label]).rows:
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
By = Literal["label", "family", "arch"]


@dataclass(frozen=True, slots=True)
class Sum:
    """A figure added up over some kernels."""

    known: float | None
    """Of those of which it is known; ``None``: of none."""
    unknown: int = 0
    """Kernels of which it is not."""

    def __add__(self, other: Sum) -> Sum:
        known = [each for each in (self.known, other.known) if each is not None]
        return Sum(sum(known) if known else None, self.unknown + other.unknown)


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
    low = _of_low_occupancy(dataset, launches, below)
    found: dict[By, dict[str, dict[str, Sum]]] = {
        "label": {build.label: dict.fromkeys(TOTALS, _NONE) for build in builds},
        "family": {},
        "arch": {},
    }
    for label, sums in _sums(dataset, "label", "true", low):
        if label in found["label"]:
            found["label"][label] = sums
    of_newest = f"label = {quoted(newest)}"
    for arch, sums in _sums(dataset, "arch", of_newest, low):
        found["arch"][arch or "arch unknown"] = sums
    for named, sums in _sums(dataset, "{'symbol': symbol, 'configuration': configuration}", of_newest, low):
        family = names.base(named_by(named["symbol"], named["configuration"]))
        held = found["family"].get(family)
        found["family"][family] = sums if held is None else {total: held[total] + sums[total] for total in TOTALS}
    return found


_NONE = Sum(None)
_SUMMED = {
    "kernels": "1",
    "spilling_kernels": "(spill_bytes > 0)::INT",
    "spill_bytes": "spill_bytes",
    "low_occupancy_kernels": "nullif(low, 2)",
    "code_bytes": "code_bytes",
    "compile_ms": "try_cast(compile_ms AS DECIMAL(18, 6))",
}
"""What is added up for each of :data:`TOTALS`, in SQL; exact, whatever order threads add it up in."""
_LAUNCHED = "arch, final, role, registers, shared_bytes, barriers, launch_bounds, dynamic_shared, launch"
"""What residency follows from, besides what is said of kernels by their names."""
_NAMED = f"{_LAUNCHED}, symbol, configuration"


def _sums(
    dataset: Dataset, group: str, condition: str, low: tuple[str, pyarrow.Table]
) -> Iterator[tuple[Any, dict[str, Sum]]]:
    """Totals of each group of kernels that fulfil a condition."""
    columns, table = low
    sums = ", ".join(f"sum({each}), count(*) - count({each})" for each in _SUMMED.values())
    alike = " AND ".join(f"kernels.{name} IS NOT DISTINCT FROM low.{name}" for name in columns.split(", "))
    question = (
        f"SELECT {group}, {sums} FROM (SELECT kernels.*, low FROM kernels LEFT JOIN low ON {alike})"
        f" WHERE role <> 'function' AND {condition} GROUP BY ALL ORDER BY ALL"
    )
    for key, *row in dataset.ask(question, tables={"low": table}).rows:
        pairs = zip(TOTALS, row[::2], row[1::2], strict=True)
        yield (
            key,
            {
                total: Sum(float(known) if isinstance(known, Decimal) else known, unknown)
                for total, known, unknown in pairs
            },
        )


def _of_low_occupancy(dataset: Dataset, launches: Launches, below: float) -> tuple[str, pyarrow.Table]:
    """By what kernels are distinguished, and which of these are of low occupancy."""
    named = not isinstance(launches, Policy) or any(entry.launch for entry in launches.entries)
    columns = _NAMED if named else _LAUNCHED
    kinds = dataset.arrow(
        f"SELECT DISTINCT {columns} FROM kernels WHERE role <> 'function' AND final IS DISTINCT FROM false"
    )
    import pyarrow as pa

    low = bytearray()  # 2 where it is not known; of a list Arrow makes an array by pandas, where there is one
    for batch in kinds.to_batches(max_chunksize=_AT_ONCE):
        for row in batch.to_pylist():
            kernel = light_kernel({"symbol": "", "confidence": "certain", "configuration": None} | row)
            summary = summarise(kernel.usage, kernel.key.arch, launches.launch_of(kernel))
            fraction = None if summary.occupancy is None else summary.occupancy.fraction
            known = fraction is not None and (fraction < below or not summary.at_most)
            low.append(fraction < below if fraction is not None and known else 2)
    return columns, kinds.append_column("low", pa.Array.from_buffers(pa.int8(), len(low), [None, pa.py_buffer(low)]))


_AT_ONCE = 10_000
"""Kinds of kernels that are looked at."""


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
