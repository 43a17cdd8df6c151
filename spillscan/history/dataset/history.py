"""Follow kernels over many builds, pairing each build with the next as ``diff`` does.

Kernels with the same canonical name, role, arch and configuration are one kernel; of several copies the worst values
count. If such a key ends in one build and others begin in the next, :func:`pair` decides which continues under which
name, given both builds complete, as in ``diff``. A name that returns is the same kernel. Builds without any kernel are
ignored.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec.structs import replace

from spillscan.history.dataset import links, lookup
from spillscan.history.dataset.links import Key, Link
from spillscan.model import Kernel, Usage
from spillscan.model.metrics import find_metric
from spillscan.model.patterns import compiled
from spillscan.model.usage import NUMBERS
from spillscan.naming import Names, symbol_of
from spillscan.naming.symbol import canonical
from spillscan.output.errors import InputError, nearest
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset
    from spillscan.history.dataset.records import KeptBuild
    from spillscan.occupancy.launches import Launches


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change of a kernel's existence or name."""

    state: Literal["new", "renamed", "gone", "back"]
    """Kind of event; ``back``: some builds in between lack the kernel."""
    last: int
    """Index of the last build before."""
    first: int
    """Index of the first build after."""
    was: Kernel | None = None
    """If ``renamed``: the kernel under its name in the build before."""


class Span(NamedTuple):
    """Consecutive builds in which a kernel's values are the same."""

    first: int
    """Index of the first build."""
    last: int
    """Index of the last build."""
    point: lookup.Point
    """The kernel's values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One kernel of one arch over all builds."""

    kernel: Kernel
    """The kernel as named in the last build that has it, with the values that are followed."""
    canonical: str
    """Canonical name in that build."""
    builds: int
    """Number of builds over which it is followed."""
    spans: tuple[Span, ...]
    """Values in build order; builds between two spans lack the kernel."""
    copies: int
    """Maximum number of copies (objects, lambdas) in one build; the values are those of the worst copy."""
    events: tuple[Event, ...] = ()
    """Additions, renames, returns and the removal, in build order; none for kernels of the first build."""
    arches: frozenset[str | None] = frozenset()
    """Archs that it was compiled for; more than one if ``sm_90`` and ``sm_90a`` follow each other."""

    @property
    def points(self) -> list[lookup.Point | None]:
        """Values per build; ``None`` for a build without the kernel."""
        points: list[lookup.Point | None] = [None] * self.builds
        for first, last, point in self.spans:
            points[first : last + 1] = [point] * (last + 1 - first)
        return points

    def kernel_at(self, index: int) -> Kernel:
        """The kernel with its values in the build at ``index``, which must have it."""
        point = next(span.point for span in self.spans if span.first <= index <= span.last)
        known = {name: point[name] for name in NUMBERS}
        if known["spill_store_bytes"] is None and point["spill_bytes"] is not None:  # machine code gives their sum only
            known |= {"spill_store_bytes": point["spill_bytes"], "spill_load_bytes": 0}
        return replace(self.kernel, usage=Usage(**known))  # type: ignore[arg-type]

    def values(self, metric: str) -> list[int | None]:
        """Values of one metric per build; ``None`` if unknown."""
        return [None if point is None else point[metric] for point in self.points]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A known change of a metric between two builds."""

    metric: str
    """Name of the metric."""
    before: int
    """Old value."""
    after: int
    """New value."""
    last: int
    """Index of the last build known to have the old value."""
    first: int
    """Index of the first build known to have the new value; unknown for the builds between."""

    @property
    def worsening(self) -> int:
        """Amount by which the metric got worse; negative if it got better."""
        grown = self.after - self.before
        return -grown if find_metric(self.metric).worse == "fewer" else grown


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
    """Kernels that match ``pattern`` (a name of a kernel, or a glob) in any of ``builds``.

    ``timed``: follow compile times, too. ``changing``: ignore ``pattern`` and return all kernels that may have changed.
    Raises :class:`~spillscan.InputError` if ``pattern`` matches none.
    """
    past = _Past(dataset, builds, launches, timed=timed)
    if changing:
        past.read(None)
    elif (exact := compiled(pattern).exact) is not None:  # a symbol selects its own kernel first
        past.read([canonical(exact)])
    if not past.states and not changing:
        past.read(lookup.named(dataset, pattern, past.labels))
    if not past.states and not changing:
        bases = lookup.shown_as(dataset, pattern, past.labels)
        keys = lookup.names_in(dataset, past.labels, bases).called(pattern)
        past.read([canonical(symbol_of(key)) for key in keys])
    series = [each for each in map(past.series, past.chains()) if not arches or not each.arches.isdisjoint(arches)]
    if not series and not changing:
        if past.states and arches:
            of = printable(" or ".join(arches))
            raise InputError(f"no kernel of {of} matches {clip(printable(pattern), 80)}", "choose another arch")
        hint = nearest(pattern, lookup.similar(dataset, pattern, past.labels))
        raise InputError(
            f"no kernel matches {clip(printable(pattern), 80)}", hint or "pass a kernel's symbol or name, or a glob"
        )

    def order(each: Series) -> tuple[str, str, str, bool]:
        return each.canonical, each.kernel.key.arch or "", str(each.kernel.configuration), each.events != ()

    return sorted(series, key=order)


def names_of(dataset: Dataset, builds: Sequence[KeptBuild], series: Iterable[Series]) -> Names:
    """Display names of followed kernels, distinct within the builds that a report mentions.

    These are the last build that has each kernel, and the one before each rename.
    """
    labels, bases = set[str](), set[str]()
    for each in series:
        ends = [(each.spans[-1].last, each.kernel), *((event.last, event.was) for event in each.events)]
        for at, kernel in ends:
            if kernel is not None:
                labels.add(builds[at].label)
                bases.add(kernel.short_name)
    return lookup.names_in(dataset, sorted(labels), bases)


def steps(series: Series, metric: str) -> Iterator[Step]:
    """Changes of a metric, in build order."""
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
    """Consecutive builds that have a key, by their position among builds with kernels."""

    key: Key
    first: int
    last: int


class _State(NamedTuple):
    """Consecutive builds in which the kernels of a key are the same; positions as in a run."""

    first: int
    last: int
    point: lookup.Point
    copies: int
    kernel: Kernel
    """The kernel as in the last consecutive build that has it."""


class _Past:
    """The builds of a dataset, and their kernels of some names."""

    def __init__(self, dataset: Dataset, builds: Sequence[KeptBuild], launches: Launches, *, timed: bool) -> None:
        self._dataset = dataset
        self._builds = builds
        self._launches = launches
        self._timed = timed
        sizes = links.sizes_of(dataset)
        self._filled = [index for index, build in enumerate(builds) if sizes[build.label]]
        self._read: set[str] | None = set()
        self.labels = [build.label for build in builds]
        self.states: dict[Key, list[_State]] = {}
        """States of each key, in build order."""
        self._points: dict[tuple[int | None, ...], lookup.Point] = {}
        self._links: dict[tuple[int, Key], Link] = {}
        """Links by the position of the build before and the key in it."""
        self._back: dict[tuple[int, Key], Link] = {}
        """The same links by the key in the build after."""
        self._paired: set[int] = set()

    def read(self, names: Iterable[str] | None) -> None:
        """Read the kernels of these canonical names, too; ``None``: all kernels that differ between builds."""
        new = None if names is None else sorted(set(names) - (self._read or set()))
        self._read = None if new is None or self._read is None else self._read | set(new)
        labels = [self._label(at) for at in range(len(self._filled))]
        unjoined: dict[tuple[str, str], list[tuple[Key, int]]] = defaultdict(list)
        archs: dict[str, set[str | None]] = defaultdict(set)
        rows_of_new = lookup.states(self._dataset, labels, new, timed=self._timed) if new or new is None else ()
        for (_, first, last), rows in groupby(rows_of_new, key=itemgetter(0, 1, 2)):
            copies = [(lookup.light_kernel(row), row) for *_, row in rows]
            key = Key.of(copies[0][0])
            states = self.states.setdefault(key, [])
            if lookup.needs_join(copies):
                unjoined[self._label(last), key.canonical].append((key, len(states)))
            states.append(self._state(first, last, copies))
            if len(states) > 1 and states[-2].last + 1 == first:
                states[-2] = states[-2]._replace(kernel=states[-1].kernel)  # share one record per key
            archs[key.canonical].add(key.arch)
        unknown = {name for name, some in archs.items() if None in some and len(some) > 1}  # may be any of the others
        for key in (key for key in self.states if key.canonical in unknown):
            for at, state in enumerate(self.states[key]):
                unjoined[self._label(state.last), key.canonical].append((key, at))
        self._join(unjoined)

    def _state(self, first: int, last: int, copies: Sequence[lookup.Copy]) -> _State:
        values = lookup.values_of(copies, self._launches)
        return _State(first, last, self._points.setdefault(values, lookup.Point(values)), len(copies), copies[0][0])

    def _join(self, unjoined: Mapping[tuple[str, str], Sequence[tuple[Key, int]]]) -> None:
        """Replace states, given by label and canonical name, by those of their joined records.

        Deletes states whose records belong to kernels of other keys.
        """
        gone = set[tuple[Key, int]]()
        labels = {label for label, _ in unjoined}
        for label, name, kernels in self._dataset.kernels_of(labels, unjoined) if unjoined else ():
            copies: dict[Key, list[lookup.Copy]] = defaultdict(list)
            for kernel in kernels:
                copies[Key.of(kernel)].append(lookup.copy_of(kernel))
            for key, at in unjoined[label, name]:
                if key in copies:
                    self.states[key][at] = self._state(*self.states[key][at][:2], copies[key])
                else:
                    gone.add((key, at))
        for key in {key for key, _ in gone}:
            left = [state for at, state in enumerate(self.states.pop(key)) if (key, at) not in gone]
            self.states |= {key: left} if left else {}

    def chains(self) -> list[list[tuple[_Run, bool]]]:
        """Runs grouped by kernel, each run with whether it was renamed.

        Also reads earlier and later names of kernels already read.
        """
        while True:
            runs = self._runs()
            self._pair(runs)
            links = [*map(self._into, runs), *(self._links.get((run.last, run.key)) for run in runs)]
            missing = {key.canonical for link in links if link for key in (link.before, link.after)}
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
        """Series of one kernel."""
        states = [state for run, _ in chain for state in self._states(run)]
        newest = chain[-1][0]
        return Series(
            kernel=self._kernel(newest),
            canonical=newest.key.canonical,
            builds=len(self._builds),
            spans=tuple(span for state in states for span in self._spans(state)),
            copies=max(state.copies for state in states),
            events=tuple(self._events(chain)),
            arches=frozenset(run.key.arch for run, _ in chain),
        )

    def _states(self, run: _Run) -> Iterator[_State]:
        states = self.states[run.key]
        for at in range(bisect_left(states, run.first, key=itemgetter(0)), len(states)):
            if states[at].first > run.last:
                break
            yield states[at]

    def _spans(self, state: _State) -> Iterator[Span]:
        """Spans of a state, split at builds without any kernel."""
        first = self._filled[state.first]
        for one, other in pairwise(self._filled[state.first : state.last + 1]):
            if other != one + 1:
                yield Span(first, one, state.point)
                first = other
        yield Span(first, self._filled[state.last], state.point)

    def _kernel(self, run: _Run) -> Kernel:
        states = self.states[run.key]
        return states[bisect_right(states, run.last, key=itemgetter(0)) - 1].kernel

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
        runs = []
        for key, states in self.states.items():
            first = states[0].first
            for one, other in pairwise(states):
                if other.first > one.last + 1:
                    runs.append(_Run(key, first, one.last))
                    first = other.first
            runs.append(_Run(key, first, states[-1].last))
        return runs

    def _into(self, run: _Run) -> Link | None:
        return self._back.get((run.first - 1, run.key))

    def _pair(self, runs: Iterable[_Run]) -> None:
        """Find the links at the builds where ``runs`` end or begin."""
        names: dict[int, set[str]] = defaultdict(set)
        for run in runs:
            names[run.first - 1].add(run.key.canonical)
            names[run.last].add(run.key.canonical)
        new = [at for at in sorted(names.keys() - self._paired) if 0 <= at < len(self._filled) - 1]
        self._paired.update(new)
        asked = {(self._label(at), self._label(at + 1)): at for at in new}
        for both, pairs in links.links_of(self._dataset, list(asked)):
            at = asked[both]
            self._links.update(((at, link.before), link) for link in pairs)
            self._back.update(((at, link.after), link) for link in pairs)

    def _label(self, position: int) -> str:
        return self.labels[self._filled[position]]
