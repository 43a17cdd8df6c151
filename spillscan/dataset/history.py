"""One kernel over many builds. Builds are joined by canonical name and arch; of several copies the worst counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.compare.effects import blocks
from spillscan.errors import InputError
from spillscan.identity import canonical
from spillscan.model import Kernel, KernelKey, LaunchBounds, Usage
from spillscan.model.figures import FOLLOWED, KEPT, figure
from spillscan.model.usage import NUMBERS
from spillscan.names import short_name
from spillscan.output.safe import clip, printable
from spillscan.patterns import compiled, names_of, text_of

if TYPE_CHECKING:
    from spillscan.dataset.builds import KeptBuild
    from spillscan.dataset.reading import Dataset
    from spillscan.occupancy.launches import Launches

_FOLLOWED = tuple(each.name for each in FOLLOWED)
_STORED = tuple(each.name for each in KEPT)
_COLUMNS = (
    "arch", "canonical", "symbol", "role", "final", "confidence", "launch_bounds", *_STORED, "labels"
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


def histories(
    dataset: Dataset, builds: Sequence[KeptBuild], pattern: str, launches: Launches, arches: Sequence[str] = ()
) -> list[Series]:
    """The kernels that ``pattern`` (any name of a kernel, a glob, ``re:…``) names, by name and arch.

    Raises :class:`~spillscan.errors.InputError` where it names none.
    """
    at = {build.label: index for index, build in enumerate(builds)}
    found: dict[tuple[str, str | None], list[list[Copy]]] = {}
    for name, index, copy in _rows(dataset, pattern, at):
        arch = copy.kernel.key.arch
        if not arches or arch in arches:
            found.setdefault((name, arch), [[] for _ in builds])[index].append(copy)
    if not found:
        raise InputError(f"no kernel is called {clip(printable(pattern), 80)}", "give its symbol, its name or a glob")
    keys = sorted(found, key=lambda key: (key[0], key[1] or ""))
    return [_series(name, found[name, arch], launches) for name, arch in keys]


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
    bounds = row["launch_bounds"]
    return Kernel(
        key=KernelKey(symbol=row["symbol"], arch=row["arch"]),
        role=row["role"],
        usage=Usage(**{name: row.get(name) for name in NUMBERS}),  # type: ignore[arg-type]
        confidence=row["confidence"],
        final=row["final"],
        launch_bounds=None if bounds is None else LaunchBounds(**bounds),
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
