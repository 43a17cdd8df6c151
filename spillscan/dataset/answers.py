"""What is asked of a dataset: one kernel over many builds, and the worst kernels of one build.

Builds are joined by canonical name and arch; of several copies the worst counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.compare.effects import blocks, resident
from spillscan.errors import InputError, UndecidedError, UsageError
from spillscan.identity import canonical
from spillscan.model import Kernel, KernelKey, Launch, LaunchBounds, Usage
from spillscan.model.figures import FOLLOWED, KEPT, RANKED, figure
from spillscan.model.usage import NUMBERS
from spillscan.names import short_name
from spillscan.naming import Names, symbol_of
from spillscan.output.safe import clip, printable
from spillscan.patterns import compiled, names_of, text_of

if TYPE_CHECKING:
    from spillscan.dataset.builds import KeptBuild
    from spillscan.dataset.reading import Dataset
    from spillscan.occupancy.launches import Launches
    from spillscan.occupancy.model import Occupancy

_FOLLOWED = tuple(each.name for each in FOLLOWED)
_STORED = tuple(each.name for each in KEPT)
_LAUNCHED = ("launch_bounds", "dynamic_shared", "launch")
_COLUMNS = (
    "arch", "canonical", "symbol", "role", "final", "confidence", *_LAUNCHED, *_STORED, "labels"
)  # fmt: skip


class Copy(NamedTuple):
    """One of the kernels of one build that share a canonical name and an arch."""

    kernel: Kernel
    figures: dict[str, int | None]
    """As the dataset holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One kernel of one arch over all builds."""

    kernel: Kernel
    """As the last build that has it names it; with its figures as far as they are followed."""
    canonical: str
    """What joins it over builds."""
    points: tuple[dict[str, int | None] | None, ...]
    """Its figures by metric, a build each; ``None`` where a build does not have it."""
    copies: int
    """The most copies (objects, lambdas) of one build; the figures are the worst of them."""

    def values(self, metric: str) -> list[int | None]:
        """One metric, a value a build; ``None`` where it is not known."""
        return [None if point is None else point[metric] for point in self.points]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A metric that is known to differ between two builds."""

    metric: str
    """Which."""
    before: int
    """The value that it had."""
    after: int
    """The value that it has."""
    last: int
    """Index of the last build known to have the old value."""
    first: int
    """Index of the first build known to have the new one; it is not known of those between."""

    @property
    def worsening(self) -> int:
        """How much worse the new value is; below 0: how much better."""
        grown = self.after - self.before
        return -grown if figure(self.metric).worse == "fewer" else grown


def histories(
    dataset: Dataset, builds: Sequence[KeptBuild], pattern: str, launches: Launches, arches: Sequence[str] = ()
) -> list[Series]:
    """The kernels that ``pattern`` (any name of a kernel, a glob, ``re:…``) names, by name and arch.

    Raises :class:`~spillscan.errors.InputError` where it names none.
    """
    at = {build.label: index for index, build in enumerate(builds)}
    rows = list(_rows(dataset, pattern, at)) or [
        row for key in names_in(dataset).called(pattern) for row in _rows(dataset, symbol_of(key), at)
    ]
    found: dict[tuple[str, str | None], list[list[Copy]]] = {}
    for name, index, copy in rows:
        arch = copy.kernel.key.arch
        if not arches or arch in arches:
            found.setdefault((name, arch), [[] for _ in builds])[index].append(copy)
    if not found:
        raise InputError(f"no kernel is called {clip(printable(pattern), 80)}", "give its symbol, its name or a glob")
    keys = sorted(found, key=lambda key: (key[0], key[1] or ""))
    return [_series(name, found[name, arch], launches) for name, arch in keys]


def names_in(dataset: Dataset) -> Names:
    """What the kernels of all builds are called."""
    rows = dataset.ask("SELECT DISTINCT label, symbol FROM kernels ORDER BY ALL").rows
    return Names(*([symbol for _, symbol in group] for _, group in groupby(rows, key=itemgetter(0))))


def steps(series: Series, metric: str) -> Iterator[Step]:
    """Where a metric changed, in the order of the builds."""
    last: tuple[int, int] | None = None
    for index, value in enumerate(series.values(metric)):
        if value is None:
            continue
        if last is not None and value != last[1]:
            yield Step(metric=metric, before=last[1], after=value, last=last[0], first=index)
        last = index, value


def _rows(dataset: Dataset, pattern: str, at: dict[str, int]) -> Iterator[tuple[str, int, Copy]]:
    exact = compiled(pattern).exact
    rows = [] if exact is None else _called(dataset, [canonical(exact)])
    for row in rows or _called(dataset, _named(dataset, pattern)):
        named = dict(zip(_COLUMNS, row, strict=True))
        copy = Copy(light_kernel(named), {name: named[name] for name in _STORED})
        for label in row[-1]:
            if label in at:
                yield named["canonical"], at[label], copy


def _called(dataset: Dataset, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of the kernels of these canonical names, equal ones of several builds as one; last the builds' labels.

    Arrow leaves out all others before DuckDB sees them: most names stand in every build, and equal figures do, too.
    """
    if not names:
        return []
    columns = ", ".join(_COLUMNS[:-1])
    question = f"SELECT {columns}, list(label) FROM kernels GROUP BY ALL ORDER BY ALL"
    return dataset.ask(question, only=names).rows


def _named(dataset: Dataset, pattern: str) -> list[str]:
    """The canonical names of the kernels that ``pattern`` names."""
    ready = compiled(pattern)
    if ready.exact is not None:
        condition, words = "short_name = ?", [short_name(ready.exact)]
    else:  # each name of a kernel is a piece of its symbol or of its full name
        needle = ready.needle.strip("\n")
        condition, words = "contains(symbol, ?) OR contains(name, ?)", [needle, needle]
    rows = dataset.ask(f"SELECT DISTINCT symbol, canonical FROM kernels WHERE {condition}", words).rows
    return sorted({name for symbol, name in rows if ready.fits(text_of(names := names_of(symbol)), names)})


def light_kernel(row: dict[str, Any]) -> Kernel:
    """A kernel with the figures of a row."""
    bounds, launch = row["launch_bounds"], row["launch"]
    return Kernel(
        key=KernelKey(symbol=row["symbol"], arch=row["arch"]),
        role=row["role"],
        usage=Usage(**{name: row.get(name) for name in NUMBERS}),  # type: ignore[arg-type]
        confidence=row["confidence"],
        final=row["final"],
        launch_bounds=None if bounds is None else LaunchBounds(**bounds),
        dynamic_shared=row["dynamic_shared"],
        launch=None if launch is None else Launch(**launch),
    )


def _series(name: str, held: Sequence[Sequence[Copy]], launches: Launches) -> Series:
    points = tuple(_point(copies, launches) if copies else None for copies in held)
    newest = next(copies for copies in reversed(held) if copies)
    return Series(kernel=newest[0].kernel, canonical=name, points=points, copies=max(len(copies) for copies in held))


def _point(copies: Sequence[Copy], launches: Launches) -> dict[str, int | None]:
    found = [figures | {"resident_blocks": blocks(kernel, launches)} for kernel, figures in copies]
    return {name: _worst(name, [each[name] for each in found]) for name in _FOLLOWED}


def _worst(metric: str, values: Sequence[int | None]) -> int | None:
    """The worst; ``None`` where it is not known of one copy, which may be the worst."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return min(known) if figure(metric).worse == "fewer" else max(known)


_RANKED = (
    *("symbol", "arch", "object", "role", "final", "confidence", *_LAUNCHED),
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
