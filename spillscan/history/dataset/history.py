"""One kernel over many builds. A kernel is followed from each build to the next as ``diff`` pairs the two.

What has the same canonical name, role, arch and configuration is one kernel; of several copies the worst counts. Where
such a name ends in one build and others begin in the next, :func:`pair` says which goes on under which: it is asked
about both builds whole, as ``diff`` asks it. A name that comes back is the same kernel. Builds that hold no kernel say
nothing of any.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from spillscan.history.dataset import links, lookup
from spillscan.history.dataset.links import Key, Link
from spillscan.model import Kernel, Usage
from spillscan.model.figures import figure
from spillscan.model.patterns import compiled
from spillscan.model.usage import NUMBERS
from spillscan.naming import Names, symbol_of
from spillscan.naming.identity import canonical
from spillscan.output.errors import InputError
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset
    from spillscan.history.dataset.records import KeptBuild
    from spillscan.occupancy.launches import Launches


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


class Span(NamedTuple):
    """Builds without a gap in which the figures of a kernel are the same."""

    first: int
    """Index of the first."""
    last: int
    """Index of the last."""
    point: lookup.Point
    """Its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One kernel of one arch over all builds."""

    kernel: Kernel
    """As the last build that has it names it; with its figures as far as they are followed."""
    canonical: str
    """Its canonical name there."""
    builds: int
    """Over how many builds it is followed."""
    spans: tuple[Span, ...]
    """Its figures, in the order of the builds; between them, builds do not have it."""
    copies: int
    """The most copies (objects, lambdas) of one build; the figures are the worst of them."""
    events: tuple[Event, ...] = ()
    """Births, renames, gaps and its end, in the order of the builds. The first build gives birth to nothing."""
    arches: frozenset[str | None] = frozenset()
    """Those that it was compiled for: ``sm_90`` and ``sm_90a`` may follow each other."""

    @property
    def points(self) -> list[lookup.Point | None]:
        """Its figures, a build each; ``None`` where a build does not have it."""
        points: list[lookup.Point | None] = [None] * self.builds
        for first, last, point in self.spans:
            points[first : last + 1] = [point] * (last + 1 - first)
        return points

    def kernel_at(self, index: int) -> Kernel:
        """The kernel with its figures of a build that has it."""
        point = next(span.point for span in self.spans if span.first <= index <= span.last)
        known = {name: point[name] for name in NUMBERS}
        if known["spill_store_bytes"] is None and point["spill_bytes"] is not None:  # of machine code, both in one
            known |= {"spill_store_bytes": point["spill_bytes"], "spill_load_bytes": 0}
        return replace(self.kernel, usage=Usage(**known))  # type: ignore[arg-type]

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


def histories(
    dataset: Dataset,
    builds: Sequence[KeptBuild],
    pattern: str,
    launches: Launches,
    arches: Sequence[str] = (),
    *,
    timed: bool = True,
    changing: bool = False,
) -> list[Series]:
    """The kernels that ``pattern`` (any name of a kernel, a glob, ``re:…``) names in any of ``builds``.
    ``timed``: whether compile times are followed,
    too; ``changing``: all to which something may have happened, whatever they are called.

    Raises :class:`~spillscan.InputError` where it names none.
    """
    past = _Past(dataset, builds, launches, timed=timed)
    if changing:
        past.read(None)
    elif (exact := compiled(pattern).exact) is not None:  # a symbol names its own kernel first
        past.read([canonical(exact)])
    if not past.held and not changing:
        past.read(lookup.named(dataset, pattern, past.labels))
    if not past.held and not changing:
        bases = lookup.shown_as(dataset, pattern, past.labels)
        keys = lookup.names_in(dataset, past.labels, bases).called(pattern)
        past.read([canonical(symbol_of(key)) for key in keys])
    series = [each for each in map(past.series, past.chains()) if not arches or not each.arches.isdisjoint(arches)]
    if not series and not changing:
        raise InputError(f"no kernel matches {clip(printable(pattern), 80)}", "give its symbol, its name or a glob")

    def order(each: Series) -> tuple[str, str, str, bool]:
        return each.canonical, each.kernel.key.arch or "", str(each.kernel.configuration), each.events != ()

    return sorted(series, key=order)


def names_of(dataset: Dataset, builds: Sequence[KeptBuild], found: Iterable[Series]) -> Names:
    """What kernels that were followed over ``builds`` are called, of all that may be called alike in the builds that
    are spoken of: the last one that has each, and the one before each rename."""
    labels, bases = set[str](), set[str]()
    for each in found:
        ends = [(each.spans[-1].last, each.kernel), *((event.last, event.was) for event in each.events)]
        for at, kernel in ends:
            if kernel is not None:
                labels.add(builds[at].label)
                bases.add(kernel.short_name)
    return lookup.names_in(dataset, sorted(labels), bases)


def steps(series: Series, metric: str) -> Iterator[Step]:
    """Where a metric changed, in the order of the builds."""
    before: int | None = None
    last = 0
    for span in series.spans:
        after = span.point[metric]
        if after is None:
            continue
        if before is not None and after != before:
            yield Step(metric=metric, before=before, after=after, last=last, first=span.first)
        before, last = after, span.last


class _Run(NamedTuple):
    """Builds without a gap in which a key stands; counted in builds that hold kernels."""

    key: Key
    first: int
    last: int


class _State(NamedTuple):
    """Builds without a gap in which the kernels of a key are the same; counted as those of a run."""

    first: int
    last: int
    point: lookup.Point
    copies: int
    kernel: Kernel
    """As the last build without a gap has it."""


class _Past:
    """Builds of a dataset, and the kernels of some names in them."""

    def __init__(self, dataset: Dataset, builds: Sequence[KeptBuild], launches: Launches, *, timed: bool) -> None:
        self._dataset = dataset
        self._builds = builds
        self._launches = launches
        self._timed = timed
        sizes = links.sizes_of(dataset)
        self._filled = [index for index, build in enumerate(builds) if sizes[build.label]]
        self._read: set[str] | None = set()
        self.labels = [build.label for build in builds]
        self.held: dict[Key, list[_State]] = {}
        """Of each key, in the order of the builds."""
        self._points: dict[tuple[int | None, ...], lookup.Point] = {}
        self._links: dict[tuple[int, Key], Link] = {}
        """By the position of the build before, and the key in it."""
        self._back: dict[tuple[int, Key], Link] = {}
        """The same, by the key in the build after."""
        self._paired: set[int] = set()

    def read(self, names: Iterable[str] | None) -> None:
        """Hold the kernels of these canonical names, too; ``None``: of all that not all builds have alike."""
        new = None if names is None else sorted(set(names) - (self._read or set()))
        self._read = None if new is None or self._read is None else self._read | set(new)
        labels = [self._label(at) for at in range(len(self._filled))]
        found = lookup.states(self._dataset, labels, new, timed=self._timed) if new or new is None else ()
        for (_, first, last), rows in groupby(found, key=itemgetter(0, 1, 2)):
            copies = [(lookup.light_kernel(row), row) for *_, row in rows]
            kernel = copies[0][0]
            values = lookup.values_of(copies, self._launches)
            point = self._points.setdefault(values, lookup.Point(values))
            held = self.held.setdefault(Key.of(kernel), [])
            if held and held[-1].last + 1 == first:
                held[-1] = held[-1]._replace(kernel=kernel)  # so that not each is kept
            held.append(_State(first, last, point, len(copies), kernel))

    def chains(self) -> list[list[tuple[_Run, bool]]]:
        """What is one kernel: its runs, each with whether it has another name than the run before. Reads the kernels
        that those already read were called before and after."""
        while True:
            runs = self._runs()
            self._pair(runs)
            found = [*map(self._into, runs), *(self._links.get((run.last, run.key)) for run in runs)]
            missing = {key.canonical for link in found if link for key in (link.before, link.after)}
            if self._read is None or missing <= self._read:
                break
            self.read(missing)
        ends: dict[Key, list[tuple[_Run, bool]]] = {}
        chains = []
        for run in sorted(self._runs(), key=lambda run: run.first):
            link = self._into(run)
            before = run.key if link is None else link.before
            chain = ends.pop(before, None)
            if chain is None:
                chain = []
                chains.append(chain)
            chain.append((run, link is not None and link.renamed))
            ends[run.key] = chain
        return chains

    def series(self, chain: Sequence[tuple[_Run, bool]]) -> Series:
        """One kernel."""
        found = [state for run, _ in chain for state in self._states(run)]
        newest = chain[-1][0]
        return Series(
            kernel=self._kernel(newest),
            canonical=newest.key.canonical,
            builds=len(self._builds),
            spans=tuple(span for state in found for span in self._spans(state)),
            copies=max(state.copies for state in found),
            events=tuple(self._events(chain)),
            arches=frozenset(run.key.arch for run, _ in chain),
        )

    def _states(self, run: _Run) -> Iterator[_State]:
        held = self.held[run.key]
        for at in range(bisect_left(held, run.first, key=itemgetter(0)), len(held)):
            if held[at].first > run.last:
                break
            yield held[at]

    def _spans(self, state: _State) -> Iterator[Span]:
        """A state, without builds that hold no kernel."""
        first = self._filled[state.first]
        for one, other in pairwise(self._filled[state.first : state.last + 1]):
            if other != one + 1:
                yield Span(first, one, state.point)
                first = other
        yield Span(first, self._filled[state.last], state.point)

    def _kernel(self, run: _Run) -> Kernel:
        held = self.held[run.key]
        return held[bisect_right(held, run.last, key=itemgetter(0)) - 1].kernel

    def _events(self, chain: Sequence[tuple[_Run, bool]]) -> Iterator[Event]:
        start, end = chain[0][0].first, chain[-1][0].last
        if start > 0:
            yield Event(state="new", last=self._filled[start - 1], first=self._filled[start])
        for (before, _), (after, renamed) in pairwise(chain):
            last, first = self._filled[before.last], self._filled[after.first]
            if after.first > before.last + 1:
                yield Event(state="back", last=last, first=first)
            elif renamed:
                yield Event(state="renamed", last=last, first=first, was=self._kernel(before))
        if end + 1 < len(self._filled):
            yield Event(state="gone", last=self._filled[end], first=self._filled[end + 1])

    def _runs(self) -> list[_Run]:
        found = []
        for key, held in self.held.items():
            first = held[0].first
            for one, other in pairwise(held):
                if other.first > one.last + 1:
                    found.append(_Run(key, first, one.last))
                    first = other.first
            found.append(_Run(key, first, held[-1].last))
        return found

    def _into(self, run: _Run) -> Link | None:
        return self._back.get((run.first - 1, run.key))

    def _pair(self, runs: Iterable[_Run]) -> None:
        """Know what goes on as what behind the builds in which these end, and before those in which they begin."""
        names: dict[int, set[str]] = defaultdict(set)
        for run in runs:
            names[run.first - 1].add(run.key.canonical)
            names[run.last].add(run.key.canonical)
        new = [at for at in sorted(names.keys() - self._paired) if 0 <= at < len(self._filled) - 1]
        self._paired.update(new)
        asked = {(self._label(at), self._label(at + 1)): at for at in new}
        for both, found in links.found(self._dataset, list(asked)):
            at = asked[both]
            self._links.update(((at, link.before), link) for link in found)
            self._back.update(((at, link.after), link) for link in found)

    def _label(self, position: int) -> str:
        return self.labels[self._filled[position]]
