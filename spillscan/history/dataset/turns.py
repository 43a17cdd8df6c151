"""Where a figure of a family turned: what happened to its kernels in one build, as one row.

A figure of code is the same however often it is compiled: each change counts. A compile time never is: it turned where
its level, the median of some builds, moved by more than its own spread explains, and stayed there; against what most
families take in the same build, for a machine is slow at times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.history.dataset.history import Happening, Series, worst_first
from spillscan.history.dataset.sql import Rows
from spillscan.judging.compare.causes import causes
from spillscan.model import Kernel
from spillscan.naming import alone
from spillscan.naming.identity import canonical

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset
    from spillscan.history.dataset.records import KeptBuild

ALL_FAMILIES = "(most families)"
"""What a turn is called that most families have in the same build: another machine, another toolkit."""
TIME = "compile_ms"
_WINDOW, _FEWEST = 5, 3
"""Builds on either side that make a level, and how many of them must be there."""
_OF_LAG = 8
"""Values, or more, of which each step of a level is between few neighbours."""
_SPREADS = 5.0
"""A level that moved by so many times the spread of a build's time is no chance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What happened to kernels of one family in one build."""

    family: str
    """What they are called together; of a single kernel, its name."""
    event: str
    """``changed``, or what became of them: ``new``, ``gone``, ``back``, ``renamed``."""
    metric: str | None
    """The figure that is spoken of."""
    before: int | None
    """Of the kernel that it is worst of."""
    after: int | None
    """Of the same."""
    first: int
    """Index of the first build after."""
    last: int
    """Index of the last build before."""
    worsening: int
    """Above 0: how much worse; below: how much better."""
    holds: bool
    """Whether nothing later undid it."""
    kernels: int
    """To how many it happened."""
    arches: tuple[str, ...]
    """For which targets."""
    worst: Happening | None = None
    """What happened to the one that it is worst of; ``None`` of times, which are added up."""
    more: tuple[Turn, ...] = ()
    """The other figures that turned the same way in the same build."""

    @property
    def order(self) -> tuple[Any, ...]:
        """Worst first, then what happened to most kernels."""
        return *worst_first(self.event, self.metric, self.worsening), -self.kernels, self.first


def turns(happened: Iterable[Happening], called: Callable[[Happening], str]) -> list[Turn]:
    """What happened to kernels that are ``called`` alike, in one build and in one direction: one turn each, the worst
    first."""
    groups: dict[tuple[object, ...], list[Happening]] = defaultdict(list)
    for each in happened:
        way = (each.worsening > 0) - (each.worsening < 0)
        figure = each.metric if each.event == "changed" else None
        groups[called(each), each.event, figure, each.first, each.last, way].append(each)
    found = []
    for (family, *_), some in groups.items():
        worst = max(some, key=lambda each: (abs(each.worsening), -(each.before or 0)))  # of equal steps the steepest
        archs = {each.series.kernel.key.arch or "" for each in some}
        found.append(
            Turn(
                family=str(family),
                event=worst.event,
                metric=worst.metric,
                before=worst.before,
                after=worst.after,
                first=worst.first,
                last=worst.last,
                worsening=worst.worsening,
                holds=worst.holds,
                kernels=len(some),
                arches=tuple(sorted(archs)),
                worst=worst,
            )
        )
    return sorted(found, key=lambda turn: turn.order)


def gathered(found: Iterable[Turn]) -> list[Turn]:
    """Figures of one family that turned one way in one build as one turn, under the worst."""
    groups: dict[tuple[object, ...], list[Turn]] = defaultdict(list)
    for turn in found:
        changed = turn.event == "changed" and turn.metric != TIME
        groups[turn.family, turn.first, turn.last, turn.worsening > 0, changed or id(turn)].append(turn)
    ordered = (sorted(some, key=lambda turn: turn.order) for some in groups.values())
    return sorted((replace(first, more=tuple(rest)) for first, *rest in ordered), key=lambda turn: turn.order)


# ---- times ----------------------------------------------------------------------------------------------------------


class Shift(NamedTuple):
    """A level that moved."""

    first: int
    """Index of the first value of the new one."""
    before: float
    after: float


def shifts(values: Sequence[float], percent: float) -> Iterator[Shift]:
    """Where the level of values moved by more than ``percent`` of what it was and by more than their spread explains,
    and stayed; in their order."""
    from statistics import median

    if len(values) < 2 * _FEWEST:
        return
    spread = max(  # of one value, if it is spread as errors are; neighbours may be more alike than others
        1.4826 * median(abs(one - other) for one, other in zip(values, values[lag:], strict=False)) / 2**0.5
        for lag in range(1, max(1, min(_WINDOW, len(values) // _OF_LAG)) + 1)
    )
    shown: list[tuple[float, Shift]] = []
    for at in range(_FEWEST, len(values) - _FEWEST + 1):
        sides = values[max(0, at - _WINDOW) : at], values[at : at + _WINDOW]
        before, after = map(median, sides)
        middle = (before + after) / 2  # values stand on their own side of it: those at the split, and nearly all others
        outside = [
            sum((each - middle) * (level - middle) <= 0 for each in side)
            for side, level in zip(sides, (before, after), strict=True)
        ]
        parted = (values[at - 1] - middle) * (values[at] - middle) < 0
        if (
            parted
            and all(number <= len(side) // _WINDOW for number, side in zip(outside, sides, strict=True))
            and abs(after - before) > max(abs(before) * percent / 100, _SPREADS * spread)
        ):
            off = sum(
                sum(abs(each - level) for each in side) for side, level in zip(sides, (before, after), strict=True)
            )
            shown.append((off / (len(sides[0]) + len(sides[1])) - abs(after - before), Shift(at, before, after)))
    while shown:  # of those that see the same move, the one that leaves least unexplained
        best = min(shown)[1]
        yield best
        shown = [(off, each) for off, each in shown if abs(each.first - best.first) >= _WINDOW]


class _Run(NamedTuple):
    """Builds in which a family has as many kernels, and how long these took."""

    family: str
    archs: tuple[str, ...]
    kernels: int
    places: list[int]
    """Indexes of the builds."""
    took: list[float]

    def level(self, at: int) -> tuple[int, int]:
        """Milliseconds before and from an index on."""
        from statistics import median

        before, after = median(self.took[max(0, at - _WINDOW) : at]), median(self.took[at : at + _WINDOW])
        return round(before), round(after)

    def turn(self, at: int) -> Turn:
        """What happened at an index."""
        before, after = self.level(at)
        return Turn(
            family=self.family,
            event="changed",
            metric=TIME,
            before=before,
            after=after,
            first=self.places[at],
            last=self.places[at - 1],
            worsening=after - before,
            holds=True,
            kernels=self.kernels,
            arches=self.archs,
        )


_TOOK = f"""SELECT coalesce(now, short_name) AS family, label, any_value(symbol) AS symbol,
        sum({TIME})::DOUBLE AS took, count(*) AS kernels, list_sort(list_distinct(list(arch))) AS archs
    FROM kernels LEFT JOIN renamed USING (short_name)
    WHERE role <> 'function' AND label IN (SELECT label FROM kernels WHERE {TIME} IS NOT NULL)
    GROUP BY ALL HAVING count({TIME}) = count(*) AND sum({TIME}) > 0"""
_ROWS = "SELECT family, kernels, label, symbol, took, archs FROM took ORDER BY ALL"
_BUSY = """WITH usual AS (SELECT family, kernels, median(took) AS usual FROM took GROUP BY ALL)
    SELECT label, median(took / usual), count(*) FROM took JOIN usual USING (family, kernels) GROUP BY label"""
_CROWD = 8
"""Families of which the median says how busy a build's machine was."""


def times(
    dataset: Dataset,
    builds: Sequence[KeptBuild],
    called: Callable[[str], str],
    percent: float,
    followed: Iterable[Series] = (),
) -> list[Turn]:
    """Where the compile time of a family turned, beyond what most families have in the same build, and where that did.
    Families are compared where they have as many kernels: what a new one takes is said where it comes; under another
    name, where kernels that are ``followed`` got one."""
    place = {build.label: at for at, build in enumerate(builds)}
    tables = {"renamed": Rows({"short_name": "VARCHAR", "now": "VARCHAR"}, [*_renamed(followed).items()])}
    dataset.keep("took", _TOOK, place, tables)
    busy = {place[label]: factor for label, factor, families in dataset.ask(_BUSY).rows if families >= _CROWD}
    common = sorted(busy)
    moved = [common[shift.first] for shift in shifts([busy[at] for at in common], percent)]
    found, together = [], defaultdict[int, list[Turn]](list)
    for name, rows in groupby(dataset.stream(_ROWS), key=itemgetter(0)):
        points = sorted((place[label], kernels, symbol, took, archs) for _, kernels, label, symbol, took, archs in rows)
        newest = points[-1][2]
        family = called(newest)
        family = name if family == alone(newest) else family
        for kernels in sorted({each[1] for each in points}):
            places, _, _, took, archs = zip(*(each for each in points if each[1] == kernels), strict=True)
            run = _Run(family, tuple(archs[0]), kernels, list(places), list(took))
            steady = [each / busy.get(at, 1.0) for at, each in zip(run.places, run.took, strict=True)]
            for shift in shifts(steady, percent):
                turn = run.turn(shift.first)
                found += [turn] if turn.worsening * (shift.after - shift.before) > 0 else []
            for at in moved:
                if at in run.places[_FEWEST:-_FEWEST]:
                    together[at].append(run._replace(family=ALL_FAMILIES).turn(run.places.index(at)))
    found += map(_together, together.values())
    return sorted(found, key=lambda turn: turn.order)


def _renamed(followed: Iterable[Series]) -> dict[str, str]:
    """By a base name that kernels had, the last that they got; of names that went on as several, none."""
    next_of: dict[str, set[str]] = defaultdict(set)
    for series in followed:
        was = [event.was.short_name for event in series.events if event.was is not None]
        for name, other in pairwise((*was, series.kernel.short_name)):
            next_of[name].add(other)
    found = {}
    for name in next_of:
        chain = [name]
        while len(now := next_of.get(chain[-1], set()) - {*chain}) == 1:
            chain += now
        if len(chain) > 1:
            found[name] = chain[-1]
    return found


def _together(some: Sequence[Turn]) -> Turn:
    """What most families have in one build is one turn."""
    before, after = sum(turn.before or 0 for turn in some), sum(turn.after or 0 for turn in some)
    return replace(
        some[0],
        before=before,
        after=after,
        worsening=after - before,
        kernels=sum(turn.kernels for turn in some),
        arches=tuple(sorted({arch for turn in some for arch in turn.arches})),
    )


# ---- why ------------------------------------------------------------------------------------------------------------


def reasons(dataset: Dataset, builds: Sequence[KeptBuild], found: Sequence[Turn]) -> dict[int, str]:
    """What the records show of why a figure is another, by the ``id`` of its turn; nothing of what they do not show."""
    asked = [turn for turn in found if turn.event == "changed" and turn.worst is not None]
    if not asked:
        return {}
    names = sorted({turn.worst.series.canonical for turn in asked if turn.worst is not None})
    labels = sorted({builds[at].label for turn in asked for at in (turn.last, turn.first)})
    held: dict[tuple[str, str, str | None], Kernel] = {}
    for label, kernels in dataset.kernels_of(
        labels, Rows({"canonical": "VARCHAR"}, [(name,) for name in names])
    ).items():
        for kernel in kernels:
            held.setdefault((label, canonical(kernel.key.symbol), kernel.key.arch), kernel)
    said = {}
    for turn in asked:
        assert turn.worst is not None
        name, arch = turn.worst.series.canonical, turn.worst.series.kernel.key.arch
        before, after = (held.get((builds[at].label, name, arch)) for at in (turn.last, turn.first))
        if before is not None and after is not None and (shown := causes(before, after, None, None)):
            said[id(turn)] = f"{shown[0].kind}: {shown[0].evidence}"
    return said
