"""The worst kernels of one build of a dataset. Of several copies the worst counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.compare.effects import resident
from spillscan.dataset.history import LAUNCHED, light_kernel
from spillscan.errors import UndecidedError, UsageError
from spillscan.identity import canonical
from spillscan.model import Kernel
from spillscan.model.figures import RANKED

if TYPE_CHECKING:
    from spillscan.dataset.reading import Dataset
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

    Raises :class:`~spillscan.errors.UsageError` where there is no such build, and
    :class:`~spillscan.errors.UndecidedError` where the figure is known of no kernel.
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
