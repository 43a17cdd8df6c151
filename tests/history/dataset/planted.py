"""Histories in which it is known what happens: kernels that come, go, are away for a while, change for
good or for one build, and builds that know nothing of them. What series and ``diff`` say is held
against it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from spillscan import diff
from spillscan.history.dataset import Unit, open_dataset, write_batch
from spillscan.history.dataset.history import Series, histories
from spillscan.history.dataset.regressions import Occurrence, occurrences
from spillscan.judging.policy.effective import Policy
from spillscan.model import Build, Kernel, KernelKey, Usage
from spillscan.model.metrics import TRACKED
from spillscan.model.symbols import tuned_for

_TILES = ("64x64x32", "128x64x32", "128x128x64")
_PARAMETERS = ("Pf", "Pd", "Pfi", "Pdi", "PKfPf", "PKdPdi", "Pfii", "Piii")
METRICS = ("registers", "spill_bytes")


@dataclass
class Life:
    """One kernel from its first build to its last."""

    symbols: dict[int, str] = field(default_factory=dict)
    """Its name per build that has it; builds in between lack it."""
    figures: dict[int, tuple[int | None, int | None]] = field(default_factory=dict)
    """Registers and spill bytes."""
    tile: str = ""
    """Configuration, for an autotuning config."""

    @property
    def name(self) -> tuple[str, str]:
        """Its last name."""
        return self.symbols[max(self.symbols)], self.tile

    def kernel(self, at: int) -> Kernel:
        """Its record in a build."""
        registers, spill = self.figures[at]
        return Kernel(
            key=KernelKey(symbol=self.symbols[at], arch="sm_90a"),
            role="entry",
            usage=Usage(registers=registers, spill_store_bytes=spill, spill_load_bytes=None if spill is None else 0),
            configuration=(("tile", self.tile),) if self.tile else (),
        )


class Said(NamedTuple):
    """One thing that happened to a kernel."""

    name: tuple[str, str]
    event: str
    metric: str | None
    before: int | None
    after: int | None
    last: int
    first: int


@dataclass
class Past:
    """A history."""

    builds: int
    empty: set[int]
    """Builds without kernels."""
    lives: list[Life]

    def kernels(self, at: int) -> list[Kernel]:
        """Kernels of one build."""
        return [life.kernel(at) for life in self.lives if at in life.symbols]

    def expected(self) -> Counter[Said]:
        """Expected events, derived from the lives."""
        filled = [at for at in range(self.builds) if at not in self.empty]
        return Counter(said for life in self.lives for said in _expected(life, filled))


def _expected(life: Life, filled: Sequence[int]) -> Iterator[Said]:
    there = sorted(life.symbols)
    place = {at: number for number, at in enumerate(filled)}
    if there[0] != filled[0]:
        yield Said(life.name, "new", None, None, None, filled[place[there[0]] - 1], there[0])
    if there[-1] != filled[-1]:
        yield Said(life.name, "gone", None, None, None, there[-1], filled[place[there[-1]] + 1])
    for last, first in pairwise(there):
        if place[first] > place[last] + 1:
            yield Said(life.name, "back", None, None, None, last, first)
        elif life.symbols[last] != life.symbols[first]:
            yield Said(life.name, "renamed", None, None, None, last, first)
    for number, metric in enumerate(METRICS):
        known = [(at, value) for at in there if (value := life.figures[at][number]) is not None]
        for (last, before), (first, after) in pairwise(known):
            if before != after:
                yield Said(life.name, "changed", metric, before, after, last, first)


def past(rng: random.Random, builds: int, kernels: int) -> Past:
    """A history of that many builds and, at its start, kernels."""
    empty = {at for at in range(1, builds - 1) if rng.random() < 0.03}
    made = Past(builds=builds, empty=empty, lives=[])
    words = _words(rng)
    for _ in range(kernels):
        made.lives.append(_life(rng, words, made, 0, builds))
    for _ in range(max(2, builds // 8)):
        made.lives.append(_life(rng, words, made, rng.randrange(1, builds), builds))
    for life in rng.sample(made.lives, len(made.lives) // 4):
        _end(life, rng.randrange(1, builds))
    symbol = _symbol(rng, words)
    for number, tile in enumerate(_TILES):
        life = _life(rng, words, made, 0, builds, symbol)
        life.tile = tile
        if number == 2:
            _end(life, rng.randrange(1, builds))
        made.lives.append(life)
    made.lives = [life for life in made.lives if life.symbols]
    return made


def _end(life: Life, at: int) -> None:
    for later in [each for each in life.symbols if each >= at]:
        del life.symbols[later], life.figures[later]


def _words(rng: random.Random) -> Iterator[str]:
    seen = set[str]()
    while True:
        word = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(4))
        if word not in seen:
            seen.add(word)
            yield word


def _mangled(scope: str, base: str, number: int, parameters: str) -> str:
    return f"_ZN{len(scope)}{scope}{len(base)}{base}ILi{number}EEEv{parameters}"


def _symbol(rng: random.Random, words: Iterator[str]) -> str:
    return _mangled(next(words), f"{next(words)}_{next(words)}", rng.choice((4, 8, 16)), rng.choice(_PARAMETERS))


def _life(rng: random.Random, words: Iterator[str], made: Past, start: int, stop: int, symbol: str = "") -> Life:
    life = Life()
    tuned = bool(symbol)
    scope, base = next(words), f"{next(words)}_{next(words)}"
    number, parameters = rng.choice((4, 8, 16)), rng.choice(_PARAMETERS)
    symbol = symbol or _mangled(scope, base, number, parameters)
    registers, spill = rng.randrange(16, 200), rng.choice((0, 0, 0, rng.randrange(4, 400, 4)))
    chance = 3 / stop
    away, flap = 0, 0
    for at in range(start, stop):
        if at in made.empty:
            continue
        if not tuned and life.symbols and rng.random() < chance / 3:
            away = rng.randrange(1, 4)
        if away:
            away -= 1
            continue
        if rng.random() < chance:
            registers = rng.randrange(16, 256)
        if rng.random() < chance:
            spill = rng.choice((0, rng.randrange(4, 900, 4)))
        flap = rng.randrange(1, 60) if rng.random() < chance else 0
        life.symbols[at] = symbol
        unknown = rng.random() < chance / 3
        life.figures[at] = (None if unknown else registers + flap, None if unknown else spill)
    return life


def write(made: Past, root: Path) -> None:
    """The history as a dataset, a build a day."""
    for at in range(made.builds):
        unit = Unit(uri="build.log", content_hash=f"{at}")
        write_batch(str(root), label(at), [(unit, Build(kernels=tuple(made.kernels(at))))], {"time": _day(at)})


def label(at: int) -> str:
    """Label of a build."""
    return f"b{at}"


def _day(at: int) -> str:
    return f"2026-{at // 28 + 1:02}-{at % 28 + 1:02}" if at < 336 else f"2027-01-01T00:{at - 336:02}:00"


def disagreements(made: Past, root: Path) -> list[str]:
    """Differences between the planted changes and those in series and in ``diff`` of consecutive builds."""
    found = []
    series, rows = _followed(root)
    reported = Counter(said for row in rows for said in _said(row))
    expected = made.expected()
    found += [f"misses {said}" for said in (expected - reported)]
    found += [f"invents {said}" for said in (reported - expected)]
    found += _of_series(made, series)
    found += _of_diff(made, expected)
    return found


def _followed(root: Path) -> tuple[list[Series], list[Occurrence]]:
    dataset = open_dataset(str(root))
    series = histories(dataset, dataset.builds, "*", Policy(()))
    return series, occurrences(series, [each.name for each in TRACKED], Policy(()))


def _name(series: Series) -> tuple[str, str]:
    return series.canonical, ", ".join(tuned_for(series.kernel.configuration)).replace("×", "x")


def _said(each: Occurrence) -> Iterator[Said]:
    if each.state != "changed":
        yield Said(_name(each.series), each.state, None, None, None, each.last, each.first)
    for step in each.steps:
        if step.metric in METRICS:
            yield Said(_name(each.series), "changed", step.metric, step.before, step.after, step.last, step.first)


def _of_series(made: Past, followed: list[Series]) -> Iterator[str]:
    reported = {
        _name(each): {
            at: tuple(point[metric] for metric in METRICS) for at, point in enumerate(each.points) if point is not None
        }
        for each in followed
    }
    for life in made.lives:
        if reported.pop(life.name, None) != life.figures:
            yield f"a series says otherwise of {life.name}"
    yield from (f"a series is invented: {name}" for name in reported)


def _of_diff(made: Past, expected: Counter[Said]) -> Iterator[str]:
    """Neighbours differ in what happened between them."""
    filled = [at for at in range(made.builds) if at not in made.empty]
    ends = {life.name: life for life in made.lives}
    for last, first in pairwise(filled):
        reported = Counter[tuple[str, ...]]()
        for change in diff(Build(kernels=tuple(made.kernels(last))), Build(kernels=tuple(made.kernels(first)))):
            if change.state in ("added", "removed", "renamed"):
                reported[change.state, change.kernel.key.symbol] += 1
            reported.update(
                ("changed", change.kernel.key.symbol, name, str(before), str(after))
                for name, before, after in change.metrics
                if name in ("registers", "spill_store_bytes")
            )
        planted = Counter[tuple[str, ...]]()
        for said in expected:
            life = ends[said.name]
            if said.event in ("new", "back") and said.first == first:
                planted["added", life.symbols[first]] += 1
            if said.event in ("gone", "back") and said.last == last:
                planted["removed", life.symbols[last]] += 1
            if (said.last, said.first) == (last, first) and said.event == "renamed":
                planted["renamed", life.symbols[first]] += 1
            if (said.last, said.first) == (last, first) and said.metric is not None:
                name = "registers" if said.metric == "registers" else "spill_store_bytes"
                planted["changed", life.symbols[first], name, str(said.before), str(said.after)] += 1
        if reported != planted:
            yield f"diff of {label(last)} and {label(first)}: {reported - planted} for {planted - reported}"
