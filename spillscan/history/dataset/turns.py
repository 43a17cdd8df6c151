"""Where a figure of a family turned: what happened to its kernels in one build, as one row.

A figure of code is the same however often it is compiled: each change counts. A compile time never is: it turned where
its level, the median of some builds, moved by more than its own spread explains, and stayed there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.history.dataset.history import Happening, gravity
from spillscan.history.dataset.sql import Rows
from spillscan.judging.compare.causes import causes
from spillscan.model import Kernel
from spillscan.naming import alone
from spillscan.naming.identity import canonical

if TYPE_CHECKING:
    from spillscan.history.dataset.builds import KeptBuild
    from spillscan.history.dataset.reading import Dataset

ALL_FAMILIES = "(most families)"
"""What a turn is called that most families have in the same build: another machine, another toolkit."""
TIME = "compile_ms"
_WINDOW, _FEWEST = 5, 3
"""Builds on either side that make a level, and how many of them must be there."""
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
    """Figures of less gravity that turned the same way in the same build."""

    @property
    def order(self) -> tuple[Any, ...]:
        """By gravity, then what happened to most kernels."""
        return *gravity(self.event, self.metric, self.worsening), -self.kernels, self.first


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
        worst = max(some, key=lambda each: abs(each.worsening))
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
    """Figures of one family that turned one way in one build as one turn, of the gravest."""
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
    steps = [abs(values[at] - values[at - 1]) for at in range(1, len(values))]
    spread = 1.4826 * median(steps) / 2**0.5  # of one value, if it is spread as errors are
    shown: list[tuple[float, Shift]] = []
    for at in range(_FEWEST, len(values) - _FEWEST + 1):
        sides = values[max(0, at - _WINDOW) : at], values[at : at + _WINDOW]
        before, after = map(median, sides)
        middle = (before + after) / 2  # values stand on their own side of it: those at the split, and nearly all others
        astray = [
            sum((each - middle) * (level - middle) <= 0 for each in side)
            for side, level in zip(sides, (before, after), strict=True)
        ]
        parted = (values[at - 1] - middle) * (values[at] - middle) < 0
        if (
            parted
            and all(number <= len(side) // _WINDOW for number, side in zip(astray, sides, strict=True))
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


def times(dataset: Dataset, builds: Sequence[KeptBuild], called: Callable[[str], str], percent: float) -> list[Turn]:
    """Where the compile time of a family turned. Families are compared where they have as many kernels: what a new one
    takes is said where it comes."""
    question = (
        f"SELECT short_name, label, any_value(symbol), sum({TIME}), count(*), list_distinct(list(arch)) FROM kernels"
        f" WHERE role <> 'function' GROUP BY label, short_name HAVING count({TIME}) = count(*) ORDER BY ALL"
    )
    place = {build.label: at for at, build in enumerate(builds)}
    families, found = 0, []
    for name, rows in groupby(dataset.stream(question, (), list(place), {}), key=itemgetter(0)):
        families += 1
        symbols, points = [], []
        for _, label, symbol, took, kernels, archs in rows:
            symbols.append(symbol)
            points.append((place[label], float(took), kernels, tuple(sorted(archs))))
        family = called(symbols[0])
        family = name if family == alone(symbols[0]) else family
        for _, group in groupby(sorted(points), key=lambda point: point[2]):
            run = list(group)
            for shift in shifts([took for _, took, *_ in run], percent):
                before, after = round(shift.before), round(shift.after)
                found.append(
                    Turn(
                        family=family,
                        event="changed",
                        metric=TIME,
                        before=before,
                        after=after,
                        first=run[shift.first][0],
                        last=run[shift.first - 1][0],
                        worsening=after - before,
                        holds=True,
                        kernels=run[0][2],
                        arches=run[0][3],
                    )
                )
    return sorted(_together(found, families), key=lambda turn: turn.order)


def _together(found: Sequence[Turn], families: int) -> Iterator[Turn]:
    """What most families have in one build is one turn."""
    groups: dict[tuple[int, bool], list[Turn]] = defaultdict(list)
    for turn in found:
        groups[turn.first, turn.worsening > 0].append(turn)
    for some in groups.values():
        if len(some) <= max(families / 2, _FEWEST):
            yield from some
            continue
        before, after = sum(each.before or 0 for each in some), sum(each.after or 0 for each in some)
        yield Turn(
            family=ALL_FAMILIES,
            event="changed",
            metric=TIME,
            before=before,
            after=after,
            first=some[0].first,
            last=some[0].last,
            worsening=after - before,
            holds=True,
            kernels=sum(each.kernels for each in some),
            arches=tuple(sorted({arch for each in some for arch in each.arches})),
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
