"""The kernels of one build that are worst by some measure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.dataset.history import light_kernel
from spillscan.dataset.sql import ask
from spillscan.errors import UndecidedError, UsageError
from spillscan.identity import canonical
from spillscan.model import Kernel, Usage
from spillscan.model.figures import KEPT
from spillscan.occupancy.summary import summarise

if TYPE_CHECKING:
    from spillscan.dataset.reading import Dataset
    from spillscan.occupancy.launches import Launches
    from spillscan.occupancy.model import Launch, Occupancy

_COLUMNS = (
    *("symbol", "arch", "object", "role", "final", "confidence", "launch_bounds"),
    *(each.name for each in KEPT),
)
_ORDER = {"spills": "spill_bytes"}


class Entry(NamedTuple):
    """One kernel of the ranking."""

    kernel: Kernel
    object: str
    figures: dict[str, int | None]
    """As the dataset holds them."""
    lost_blocks: int | None
    """Blocks per SM that warp and block slots would hold and registers, shared memory and barriers do not."""
    occupancy: Occupancy | None
    copies: int = 1
    """Kernels of this canonical name and arch (in a log, an object, a library) that are ranked; this is the worst."""


class Ranking(NamedTuple):
    """The worst, worst first, and how many the measure does not reach."""

    entries: list[Entry]
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
    counted = ask(
        dataset.connection, f"SELECT count(*), {known} FROM kernels WHERE label = ?{_entries(measure)}", [label]
    )
    total, told = counted.rows[0]
    if total and not told:
        raise UndecidedError(f"no kernel of {label} tells its {measure}", "audit logs of ptxas -v, or binaries")
    rows = ask(
        dataset.connection,
        f"SELECT {', '.join(_COLUMNS)}, count(*) OVER same FROM kernels "
        f"WHERE label = ? AND {column} > 0{_entries(measure)} "
        "WINDOW same AS (PARTITION BY canonical, arch) "
        f"QUALIFY row_number() OVER (same ORDER BY {column} DESC, spills_in_loops DESC NULLS LAST, symbol, object) = 1 "
        f"ORDER BY {column} DESC, canonical, arch LIMIT ?",
        [label, most],
    ).rows
    entries = [_entry(dict(zip(_COLUMNS, row[:-1], strict=True)))._replace(copies=row[-1]) for row in rows]
    return Ranking(entries, total - told)


def _entries(measure: str) -> str:
    """Device functions spill; their registers are nobody's launch."""
    return "" if measure.startswith("spill") else " AND role <> 'function'"


def _by_blocks(dataset: Dataset, label: str, most: int, launches: Launches) -> Ranking:
    question = (
        f"SELECT {', '.join(_COLUMNS)} FROM kernels WHERE label = ?{_entries('lost-blocks')} "
        "ORDER BY canonical, symbol, arch, object"
    )
    entries, unknown = [], 0
    for row in ask(dataset.connection, question, [label]).rows:
        entry = _entry(dict(zip(_COLUMNS, row, strict=True)))
        kernel = entry.kernel
        launch = None if kernel.final is False else launches.launch_of(kernel)
        occupancy = None if launch is None else _occupancy(kernel.usage, kernel.key.arch, launch)
        if occupancy is None:
            unknown += 1
        elif lost := _lost(occupancy):
            entries.append(entry._replace(lost_blocks=lost, occupancy=occupancy))
    if unknown and not entries:
        raise UndecidedError(
            f"no kernel of {label} is known to lose blocks; of {unknown:,} nobody says how they are launched",
            "tell it: --launch 'GLOB=THREADS'",
        )
    entries.sort(key=lambda entry: -(entry.lost_blocks or 0))
    worst: dict[tuple[str, str | None], Entry] = {}
    for entry in entries:
        key = canonical(entry.kernel.key.symbol), entry.kernel.key.arch
        worst[key] = worst[key]._replace(copies=worst[key].copies + 1) if key in worst else entry
    return Ranking(list(worst.values())[:most], unknown)


def _entry(told: dict[str, Any]) -> Entry:
    return Entry(
        kernel=light_kernel(told),
        object=str(told["object"] or ""),
        figures={each.name: told[each.name] for each in KEPT},
        lost_blocks=None,
        occupancy=None,
    )


def _occupancy(usage: Usage, arch: str | None, launch: Launch) -> Occupancy | None:
    return _resident(usage.registers, usage.shared_bytes, usage.barriers, arch, launch)


@lru_cache(maxsize=16384)
def _resident(
    registers: int | None, shared_bytes: int | None, barriers: int | None, arch: str | None, launch: Launch
) -> Occupancy | None:
    usage = Usage(registers=registers, shared_bytes=shared_bytes, barriers=barriers)
    return summarise(usage, arch, launch).occupancy


def _lost(occupancy: Occupancy) -> int:
    slots = [limit for name, limit in occupancy.limits.items() if name in ("warps", "blocks") and limit is not None]
    return max(0, min(slots) - occupancy.resident_blocks)
