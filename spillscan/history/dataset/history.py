"""One kernel over many builds. A kernel is followed from each build to the next as ``diff`` pairs the two.

What has the same canonical name, role, arch and configuration is one kernel; of several copies the worst counts. Where
such a name ends in one build and others begin in the next, :func:`pair` says which of these
goes on under which: it is asked about both builds whole, as ``diff`` asks it. A name that comes back is the same
kernel. Builds that hold no kernel say nothing of any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spillscan.history.dataset import links
from spillscan.history.dataset.links import Key, Link
from spillscan.history.dataset.lookup import (
    COLUMNS,
    STORED,
    called,
    changing_names,
    light_kernel,
    named,
    settings_of,
    shown_as,
)
from spillscan.judging.compare.effects import blocks
from spillscan.model import Kernel
from spillscan.model.figures import TRACED, figure, rank
from spillscan.model.patterns import compiled
from spillscan.model.symbols import Tuned, tuned_for
from spillscan.naming import Names, symbol_of
from spillscan.naming.identity import canonical
from spillscan.output.errors import InputError
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    from spillscan.history.dataset.builds import KeptBuild
    from spillscan.history.dataset.reading import Dataset
    from spillscan.occupancy.launches import Launches

_TRACED = tuple(each.name for each in TRACED)


class Copy(NamedTuple):
    """One of the kernels of one build that share a name, an arch and a configuration."""

    kernel: Kernel
    figures: dict[str, int | None]
    """As the dataset holds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What became of a kernel as a whole."""

    state: Literal["new", "renamed", "gone", "back"]
    """``back``: some builds in between do not have it."""
    last: int
    """Index of the last build before."""
    first: int
    """Index of the first build after."""
    was: Kernel | None = None
    """Of ``renamed``: the kernel as the build before names it."""
    score: float = 1.0
    """Of ``renamed``: how much alike the two are, as ``diff`` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One kernel of one arch over all builds."""

    kernel: Kernel
    """As the last build that has it names it; with its figures as far as they are followed."""
    canonical: str
    """Its canonical name there."""
    points: tuple[dict[str, int | None] | None, ...]
    """Its figures by metric, a build each; ``None`` where a build does not have it."""
    copies: int
    """The most copies (objects, lambdas) of one build; the figures are the worst of them."""
    events: tuple[Event, ...] = ()
    """Births, renames, gaps and its end, in the order of the builds. The first build gives birth to nothing."""
    arches: frozenset[str | None] = frozenset()
    """Those that it was compiled for: ``sm_90`` and ``sm_90a`` may follow each other."""

    def values(self, metric: str) -> list[int | None]:
        """One metric, a value a build; ``None`` where it is not known."""
        return [None if point is None else point[metric] for point in self.points]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A metric that is known to differ between two builds."""

    metric: str
    """Its name in the table of figures."""
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


Parameters = Mapping[str, Sequence[str]]
"""What templates call their parameters."""


def histories(
    dataset: Dataset,
    builds: Sequence[KeptBuild],
    pattern: str,
    launches: Launches,
    arches: Sequence[str] = (),
    parameters: Parameters | None = None,
    *,
    changing: bool = False,
) -> list[Series]:
    """The kernels that ``pattern`` (any name of a kernel, a glob, ``re:…``) names in any of ``builds``.
    ``parameters``: what the policy's ``labels`` call those of templates; ``changing``: all to which something may have
    happened, whatever they are called.

    Raises :class:`~spillscan.InputError` where it names none.
    """
    past = _Past(dataset, builds)
    if changing:
        past.read(changing_names(dataset, past.labels, past.filled))
    elif (exact := compiled(pattern).exact) is not None:  # a symbol names its own kernel first
        past.read([canonical(exact)])
    if not past.held and not changing:
        past.read(named(dataset, pattern, past.labels))
    if not past.held and not changing:
        keys = names_in(dataset, past.labels, shown_as(dataset, pattern, past.labels), parameters).called(pattern)
        past.read([canonical(symbol_of(key)) for key in keys])
    chains = past.chains()
    series = [past.series(chain, launches) for chain in chains]
    series = [each for each in series if not arches or not each.arches.isdisjoint(arches)]
    if not series and not changing:
        raise InputError(f"no kernel is called {clip(printable(pattern), 80)}", "give its symbol, its name or a glob")
    return sorted(
        series,
        key=lambda each: (
            each.canonical,
            each.kernel.key.arch or "",
            str(each.kernel.configuration),
            each.events != (),
        ),
    )


def bases_of(found: Iterable[Series]) -> set[str]:
    """The base names of kernels, all that they had over the builds."""
    kernels = (kernel for each in found for kernel in (each.kernel, *(event.was for event in each.events)))
    return {kernel.short_name for kernel in kernels if kernel is not None}


_ONE_OF_EACH_SET = """SELECT min(label) FROM (
    SELECT label, count(*) AS kernels, sum(hash(symbol, configuration)::HUGEINT) AS names FROM kernels GROUP BY label
) GROUP BY kernels, names ORDER BY ALL"""
"""Builds whose kernels have the same names tell no more of names than one of them."""


def names_in(
    dataset: Dataset,
    labels: Sequence[str],
    bases: Iterable[str] | None = None,
    parameters: Parameters | None = None,
) -> Names:
    """What the kernels of some builds are called, or those of some base names, which alone may be called alike;
    candidates of a tuner by what they were tuned for."""
    alike, words = "", []
    if bases is not None:
        alike = " WHERE short_name IN (SELECT unnest(?))"
        words = [sorted(set(bases))]
    else:
        labels = [label for (label,) in dataset.ask(_ONE_OF_EACH_SET, (), labels).rows]
    question = f"SELECT DISTINCT label, symbol, configuration FROM kernels{alike} ORDER BY ALL"
    rows = dataset.ask(question, words, labels).rows
    named = ((label, named_by(symbol, settings)) for label, symbol, settings in rows)
    builds = (dict.fromkeys(key for _, key in group) for _, group in groupby(named, key=itemgetter(0)))
    return Names(*builds, labels=parameters)


def named_by(symbol: str, settings: Sequence[dict[str, str]] | None) -> str | Tuned:
    """What a stored kernel is named by."""
    return Tuned(symbol, tuned_for(settings_of(settings)), "") if settings else symbol


def steps(series: Series, metric: str) -> Iterator[Step]:
    """Where a metric changed, in the order of the builds."""
    last: tuple[int, int] | None = None
    for index, value in enumerate(series.values(metric)):
        if value is None:
            continue
        if last is not None and value != last[1]:
            yield Step(metric=metric, before=last[1], after=value, last=last[0], first=index)
        last = index, value


class Happening(NamedTuple):
    """A figure that changed, or what became of a kernel."""

    series: Series
    event: str
    """``changed``, or the state of an :class:`Event`."""
    metric: str | None
    before: int | None
    after: int | None
    first: int
    last: int
    worsening: int
    """Above 0: how much worse."""
    holds: bool
    """Whether nothing later undid or replaced it."""
    was: Kernel | None = None

    def what(self, names: Names) -> str:
        """The figure that changed, or what became of the kernel, for people."""
        event = self.event if self.was is None else f"renamed from {names.of(self.was.named_by)}"
        return self.metric or "" if self.event == "changed" else ": ".join(filter(None, (event, self.metric)))


def happenings(found: Iterable[Series], metrics: Sequence[str], *, named: bool = False) -> list[Happening]:
    """All that happened to these kernels, the worst first. Where figures are ``named``, only what is said of them."""
    rows = [each for series in found for each in (*_changed(series, metrics), *_events(series, metrics, named=named))]
    return sorted(rows, key=_order)


def gravity(event: str, metric: str | None, worsening: int) -> tuple[Any, ...]:
    """To sort by: what got worse first, then other changes of figures, then kernels that came and went; each by its
    figure, then by how much."""
    worse = worsening > 0
    return not worse, not worse and event != "changed", () if metric is None else rank(metric), -abs(worsening)


def _order(change: Happening) -> tuple[Any, ...]:
    return *gravity(change.event, change.metric, change.worsening), change.first


def _changed(series: Series, metrics: Sequence[str]) -> Iterator[Happening]:
    for metric in metrics:
        every = list(steps(series, metric))
        for step in every:
            held = step is every[-1]
            yield Happening(
                series, "changed", metric, step.before, step.after, step.first, step.last, step.worsening, held
            )


def _events(series: Series, metrics: Sequence[str], *, named: bool) -> Iterator[Happening]:
    """A kernel that spills from birth is a change for the worse. Where figures are ``named``, that is the only event
    that says something of them."""
    for event in series.events:
        point = series.points[event.last if event.state == "gone" else event.first] or {}
        metric = next(
            (name for name in sorted(metrics, key=rank) if event.state in ("new", "gone") and point[name]), None
        )
        value = None if metric is None else point[metric]
        before, after = (value, None) if event.state == "gone" else (None, value)
        worsening = (value or 0) if event.state == "new" and metric == "spill_bytes" else 0
        if worsening or not named:
            held = event is series.events[-1]
            at = event.first, event.last
            yield Happening(series, event.state, metric, before, after, *at, worsening, held, event.was)


class _Run(NamedTuple):
    """Builds without a gap in which a key stands; counted in builds that hold kernels."""

    key: Key
    first: int
    last: int


class _Past:
    """Builds of a dataset, and the kernels of some names in them."""

    def __init__(self, dataset: Dataset, builds: Sequence[KeptBuild]) -> None:
        self._dataset = dataset
        self._builds = builds
        sizes = links.sizes_of(dataset)
        self._filled = [index for index, build in enumerate(builds) if sizes[build.label]]
        self._read: set[str] = set()
        self.labels = [build.label for build in builds]
        self.held: dict[Key, dict[int, list[Copy]]] = defaultdict(dict)
        """The copies of each key, by the index of the build."""
        self._links: dict[tuple[int, Key], Link] = {}
        """By the position of the build before, and the key in it."""
        self._back: dict[tuple[int, Key], Link] = {}
        """The same, by the key in the build after."""
        self._paired: set[int] = set()

    @property
    def filled(self) -> int:
        """How many of the builds hold kernels."""
        return len(self._filled)

    def read(self, names: Iterable[str]) -> None:
        """Hold the kernels of these canonical names, too."""
        new = sorted(set(names) - self._read)
        self._read.update(new)
        at = {build.label: index for index, build in enumerate(self._builds)}
        for row in called(self._dataset, new, self.labels):
            named = dict(zip(COLUMNS[:-1], row, strict=False))
            copy = Copy(light_kernel(named), {name: _whole(named[name]) for name in STORED})
            places = self.held[Key.of(copy.kernel)] if any(label in at for label in row[-1]) else {}
            for label in row[-1]:
                if label in at:
                    places.setdefault(at[label], []).append(copy)

    def chains(self) -> list[list[tuple[_Run, float]]]:
        """What is one kernel: its runs, each with the likeness to the run before it. Reads the kernels that those
        already read were called before and after."""
        while True:
            runs = self._runs()
            self._pair({run.first - 1 for run in runs} | {run.last for run in runs})
            found = (link for run in runs for link in (self._into(run), self._out_of(run)) if link is not None)
            missing = {key.canonical for link in found for key in (link.before, link.after)} - self._read
            if not missing:
                break
            self.read(missing)
        ends: dict[Key, list[tuple[_Run, float]]] = {}
        chains = []
        for run in sorted(self._runs(), key=lambda run: run.first):
            link = self._into(run)
            before = run.key if link is None else link.before
            chain = ends.pop(before, None)
            if chain is None:
                chain = []
                chains.append(chain)
            chain.append((run, 1.0 if link is None else link.score))
            ends[run.key] = chain
        return chains

    def series(self, chain: Sequence[tuple[_Run, float]], launches: Launches) -> Series:
        """One kernel."""
        points: list[dict[str, int | None] | None] = [None] * len(self._builds)
        copies = 0
        made: dict[tuple[int, ...], dict[str, int | None]] = {}  # builds that hold the same rows share a point
        for run, _ in chain:
            for position in range(run.first, run.last + 1):
                index = self._filled[position]
                held = self.held[run.key][index]
                same = tuple(map(id, held))
                if same not in made:
                    made[same] = _point(held, launches)
                points[index] = made[same]
                copies = max(copies, len(held))
        newest = chain[-1][0]
        return Series(
            kernel=self._kernel(newest),
            canonical=newest.key.canonical,
            points=tuple(points),
            copies=copies,
            events=tuple(self._events(chain)),
            arches=frozenset(run.key.arch for run, _ in chain),
        )

    def _kernel(self, run: _Run) -> Kernel:
        return self.held[run.key][self._filled[run.last]][0].kernel

    def _events(self, chain: Sequence[tuple[_Run, float]]) -> Iterator[Event]:
        start, end = chain[0][0].first, chain[-1][0].last
        if start > 0:
            yield Event(state="new", last=self._filled[start - 1], first=self._filled[start])
        for (before, _), (after, score) in pairwise(chain):
            last, first = self._filled[before.last], self._filled[after.first]
            if after.first > before.last + 1:
                yield Event(state="back", last=last, first=first)
            elif score < 1:
                yield Event(state="renamed", last=last, first=first, was=self._kernel(before), score=score)
        if end + 1 < len(self._filled):
            yield Event(state="gone", last=self._filled[end], first=self._filled[end + 1])

    def _runs(self) -> list[_Run]:
        place = {index: position for position, index in enumerate(self._filled)}
        found = []
        for key, at in self.held.items():
            positions = sorted(place[index] for index in at)
            starts = [0, *(n for n in range(1, len(positions)) if positions[n] > positions[n - 1] + 1), len(positions)]
            found += [_Run(key, positions[one], positions[other - 1]) for one, other in pairwise(starts)]
        return found

    def _into(self, run: _Run) -> Link | None:
        return self._back.get((run.first - 1, run.key))

    def _out_of(self, run: _Run) -> Link | None:
        return self._links.get((run.last, run.key))

    def _pair(self, positions: set[int]) -> None:
        """Know what goes on as what behind these builds."""
        new = [at for at in sorted(positions - self._paired) if 0 <= at < len(self._filled) - 1]
        self._paired.update(new)
        asked = {(self._label(at), self._label(at + 1)): at for at in new}
        for both, found in links.found(self._dataset, list(asked)):
            at = asked[both]
            self._links.update(((at, link.before), link) for link in found)
            self._back.update(((at, link.after), link) for link in found)

    def _label(self, position: int) -> str:
        return self.labels[self._filled[position]]


def _point(copies: Sequence[Copy], launches: Launches) -> dict[str, int | None]:
    found = [figures | {"resident_blocks": blocks(kernel, launches)} for kernel, figures in copies]
    return {name: _worst(name, [each[name] for each in found]) for name in _TRACED}


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _worst(metric: str, values: Sequence[int | None]) -> int | None:
    """The worst; ``None`` where it is not known of one copy, which may be the worst."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return min(known) if figure(metric).worse == "fewer" else max(known)
