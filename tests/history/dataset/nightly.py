"""Nightly builds in which it is known what turned: families of several kernels and archs, whose compile times are never
the same twice, on a machine that is slow on some nights; checkouts give other hashes, and a build may know nothing.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from spillscan.history.dataset import Unit, write_batch
from spillscan.history.dataset.turns import ALL_FAMILIES, TIME
from spillscan.judging.compare.effects import blocks
from spillscan.model import Build, Kernel, KernelKey, Usage
from spillscan.model.code import LocalTraffic, SassStats
from spillscan.model.figures import FOLLOWED, figure, value_of
from spillscan.occupancy.launches import LaunchMap, parse_launch
from tests.history.dataset.support import command
from tests.reporting import payload_of

KINDS = ("registers", "blocks", "spills", "size", "time", "birth", "death", "rename")
WORSE, BETTER, REST = TABLES = ("turns", "improvements", "came_and_went")
LAUNCH = "*=256"
_LAUNCHES = LaunchMap((parse_launch(LAUNCH),))
_EDGE, _APART = 8, 12
"""Builds at either end, and between two turns of one family, in which nothing is planted: a level needs some."""
_PARAMETERS = ("Pf", "Pd", "Pfi", "Pdi", "PKfPf", "PKdPdi", "Pfii", "Piii")


class Turned(NamedTuple):
    """What is to be said of a family."""

    table: str
    family: str
    what: str
    """A figure, or what became of kernels."""
    build: str
    before: int | None = None
    after: int | None = None


@dataclass
class Family:
    """Kernels of one template, and what they have in each build."""

    names: list[str]
    parameters: str
    archs: tuple[str, ...]
    lives: list[tuple[int, int]]
    """Of each instance, the first build that has it, and the first after."""
    figures: dict[str, list[int]]
    times: list[float]
    """Milliseconds of one kernel, before noise."""
    noise: float
    local: bool
    """Whether it lies in a namespace without a name, which has another hash in each checkout."""
    planted: list[int] = field(default_factory=list)
    """Builds in which something is planted."""
    timed: list[tuple[bool, int]] = field(default_factory=list)
    """Whether its times got worse, and in which build."""

    def symbol(self, at: int, instance: int) -> str:
        """What an instance is called in a build."""
        scope = f"_GLOBAL__N__{at:08x}_4_k_cu_{at:08x}"
        name = f"{len(self.names[at])}{self.names[at]}ILi{instance}EE"
        return f"_ZN{len(scope)}{scope}{name}Ev{self.parameters}" if self.local else f"_Z{name}v{self.parameters}"


class Nightly:
    """A history; what is planted stays."""

    def __init__(self, seed: int, builds: int, families: int) -> None:
        self.rng = random.Random(seed)
        self.builds = builds
        self.empty = {at for at in range(1, builds - 1) if self.rng.random() < 0.01}
        self.planted: Counter[str] = Counter()
        self._machine = builds
        """The build from which on another machine takes longer."""
        self._moved = set[int]()
        """Builds in which kernels come or go: what comes where another goes may be that one with a new name."""
        words = set[str]()
        while len(words) < families:
            words.add("".join(self.rng.choice("bdfgklmnprstvz") + self.rng.choice("aeiou") for _ in range(4)))
        self.families = [self._family(word) for word in sorted(words)]

    def _family(self, word: str) -> Family:
        rng, builds = self.rng, self.builds
        figures = {
            "registers": rng.choice((24, 32, 40, 64, 96, 128)),
            "spills": rng.choice((0, 0, 0, rng.randrange(8, 400, 8))),
            "shared": rng.randrange(0, 40_960, 128),
            "size": rng.randrange(2_000, 60_000, 16) // 128 * 128,
        }
        return Family(
            names=[word] * builds,
            parameters=rng.choice(_PARAMETERS),
            archs=rng.choice((("sm_90a",), ("sm_80",), ("sm_80", "sm_90a"))),
            lives=[(0, builds)] * rng.randrange(1, 6),
            figures={name: [value] * builds for name, value in figures.items()},
            times=[rng.uniform(15, 900)] * builds,
            noise=rng.uniform(0.005, 0.04),
            local=rng.random() < 0.2,
        )

    # ---- what is planted --------------------------------------------------------------------------------------------

    def plant(self, count: int, *, machine: bool = False) -> None:
        """So many turns, of all kinds, half of them for the worse where there is a worse; with another ``machine``,
        one more."""
        if machine:
            self._machine = self._build()
        for number in range(count):
            kind, worse = KINDS[number % 8], number % 16 < 8
            for _ in range(1000):
                if self._planted(kind, worse, self.rng.choice(self.families), self._build()):
                    break
            else:
                raise ValueError(f"{self.builds} builds have no room for {count} turns")
            self.planted[f"{kind} {'worse' if worse else 'better'}" if number % 8 < 5 else kind] += 1

    def _build(self) -> int:
        choice = [at for at in range(_EDGE, self.builds - _EDGE) if at not in self.empty]
        return self.rng.choice(choice)

    def _planted(self, kind: str, worse: bool, family: Family, at: int) -> bool:
        if any(abs(at - each) < _APART for each in (*family.planted, self._machine)):
            return False
        rng, figures, sign = self.rng, family.figures, 1 if worse else -1
        here = self._there(family, at)
        if not here or (kind in ("birth", "death", "rename") and at in self._moved):
            return False
        if kind in ("birth", "death"):
            whole = [number for number, life in enumerate(family.lives) if life == (0, self.builds)]
            most = len(whole) - bool(family.planted)  # in what else is planted, some are there
            if most < 1:
                return False
            for number in rng.sample(whole, rng.randrange(1, most + 1)):
                family.lives[number] = (at, self.builds) if kind == "birth" else (0, at)
        elif kind == "rename":
            family.names[at:] = [f"{name}_v2" for name in family.names[at:]]
        elif kind == "time":
            factor = rng.uniform(1.3, 2.5) ** sign
            family.times[at:] = [value * factor for value in family.times[at:]]
            family.timed.append((worse, at))
        else:
            name = {"blocks": "shared"}.get(kind, kind)
            old = figures[name][at]
            step = {"registers": 8, "blocks": 2_048, "spills": 8, "size": 256}[kind] * rng.randrange(1, 9)
            most = {"registers": 255, "blocks": 49_152, "spills": 1 << 20, "size": 1 << 24}[kind]
            new = old + sign * step
            if not ({"registers": 16}.get(kind, 0) <= new <= most):
                return False
            had = [self._value("resident_blocks", family, at, *each) for each in here]
            figures[name][at:] = [new] * (self.builds - at)
            if kind == "blocks" and had == [self._value("resident_blocks", family, at, *each) for each in here]:
                figures[name][at:] = [old] * (self.builds - at)
                return False
        family.planted.append(at)
        if kind in ("birth", "death", "rename"):
            self._moved.add(at)
        return True

    # ---- what follows -----------------------------------------------------------------------------------------------

    @staticmethod
    def _there(family: Family, at: int) -> list[tuple[int, str]]:
        """The kernels of a family in a build."""
        lives = [number for number, (begin, end) in enumerate(family.lives) if begin <= at < end]
        return [(number, arch) for number in lives for arch in family.archs]

    def _value(self, name: str, family: Family, at: int, instance: int, arch: str) -> int | None:
        kernel = self._kernel(family, at, instance, arch, 1.0)
        return blocks(kernel, _LAUNCHES) if name == "resident_blocks" else value_of(name, kernel)

    def expected(self) -> set[Turned]:
        """All turns of figures, and what came and went, read off the families."""
        found = {each for family in self.families for each in self._of(family)}
        if self._machine < self.builds:
            found.add(Turned(WORSE, ALL_FAMILIES, TIME, label(self._machine)))
        return found

    def _of(self, family: Family) -> Iterator[Turned]:
        # What has gone before its family got another name keeps the one that it had.
        filled = [at for at in range(self.builds) if at not in self.empty]
        for worse, at in family.timed:
            kernels = len(self._there(family, at)) * (1.4 if at >= self._machine else 1)
            ends = [round(family.times[place] * kernels) for place in (at - 1, at)]
            yield Turned(WORSE if worse else BETTER, family.names[-1], TIME, label(at), *ends)
        for at in family.planted:
            before, there = filled[filled.index(at) - 1], self._there(family, at)
            old = self._there(family, before)
            for kernel in {*old, *there}:
                last = family.names[family.lives[kernel[0]][1] - 1]
                if kernel not in old:
                    yield Turned(WORSE if family.figures["spills"][at] else REST, last, "new", label(at))
                elif kernel not in there:
                    yield Turned(REST, last, "gone", label(at))
                elif family.names[at] != family.names[before]:
                    yield Turned(REST, last, "renamed", label(at))
            yield from self._changed(family, at, before)

    def _changed(self, family: Family, at: int, before: int) -> Iterator[Turned]:
        steps: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
        for kernel in {*self._there(family, before)} & {*self._there(family, at)}:
            last = family.names[family.lives[kernel[0]][1] - 1]
            for name in (each.name for each in FOLLOWED):
                had, has = (self._value(name, family, place, *kernel) for place in (before, at))
                if had is not None and has is not None and had != has:
                    worse = (has > had) == (figure(name).worse != "fewer")
                    steps[WORSE if worse else BETTER, last, name].append((had, has))
        for row, some in steps.items():
            yield Turned(*row, label(at), *max(some, key=lambda step: (abs(step[1] - step[0]), -step[0])))

    # ---- the dataset ------------------------------------------------------------------------------------------------

    def write(self, root: Path) -> None:
        """All builds as a dataset, a build a day."""
        load = 0.0
        for at in range(self.builds):
            load = 0.5 * load + self.rng.gauss(0, 0.012)
            night = (1 + load) * (self.rng.uniform(1.1, 1.6) if self.rng.random() < 0.02 else 1)
            night *= 1.4 if at >= self._machine else 1
            kernels = [
                self._kernel(family, at, *each, night * self._noise(family))
                for family in self.families * (at not in self.empty)
                for each in self._there(family, at)
            ]
            self.rng.shuffle(kernels)
            meta = {"time": f"{2020 + at // 336}-{1 + at // 28 % 12:02}-{1 + at % 28:02}", "commit": f"{at:07}"}
            unit = Unit(uri="build.log", content_hash=str(at))
            write_batch(str(root), label(at), [(unit, Build(kernels=tuple(kernels)))], meta)

    def _noise(self, family: Family) -> float:
        return 1 + self.rng.gauss(0, family.noise) + (0.8 if self.rng.random() < 0.005 else 0)

    @staticmethod
    def _kernel(family: Family, at: int, instance: int, arch: str, noise: float) -> Kernel:
        has = {name: values[at] for name, values in family.figures.items()}
        usage = Usage(
            registers=has["registers"],
            spill_store_bytes=has["spills"],
            spill_load_bytes=0,
            shared_bytes=has["shared"],
        )
        count = has["size"] // 16
        sass = SassStats(code_bytes=count * 16, instructions=count, opcodes=(("NOP", count),), local=LocalTraffic())
        key = KernelKey(symbol=family.symbol(at, instance), arch=arch)
        return Kernel(key=key, role="entry", usage=usage, sass=sass, compile_ms=family.times[at] * noise)


def label(at: int) -> str:
    """What a build is called."""
    return f"n{at:03}"


# ---- what is reported -----------------------------------------------------------------------------------------


class Reported(NamedTuple):
    """What ``history`` says."""

    document: dict[str, Any]
    text: str
    page: Any

    @property
    def turns(self) -> set[Turned]:
        """Each figure of each turn."""
        found = set()
        for table in TABLES:
            for row in self.document[table]:
                changed = row["event"] == "changed"
                for each in (row, *row["with"]):
                    what = each["metric"] if changed else row["event"]
                    ends = (each["before"], each["after"]) if changed else (None, None)
                    found.add(Turned(table, row["family"], what, row["first_build"], *ends))
        return found


def reported(root: Path) -> Reported:
    """In a wide terminal."""
    files = root / "reported.json", root / "reported.html"
    forms = [f"json:{files[0]}", "text", f"html:{files[1]}"]
    text = command("history", root, "--launch", LAUNCH, *[word for form in forms for word in ("-f", form)]).out
    return Reported(json.loads(files[0].read_text()), text, payload_of(files[1].read_text()))


class Judged(NamedTuple):
    """What ``history`` makes of a history."""

    missed: list[Turned]
    false: list[Turned]
    unseen: list[str]
    """What got worse and is not on the first screen, of the terminal or of the page."""


def judged(made: Nightly, root: Path) -> Judged:
    """Compile times are medians: what they were and are may differ from what was planted by a tenth."""
    answer = reported(root)
    expected, said = made.expected(), answer.turns
    exact = {each for each in expected if each.what != TIME}
    times = [each for each in said if each.what == TIME]
    missed = [*(exact - said)]
    for each in expected - exact:
        hit = next((other for other in times if other[:4] == each[:4] and _near(each, other)), None)
        if hit is None:
            missed.append(each)
        else:
            times.remove(hit)
    false = [*(each for each in said - exact if each.what != TIME), *times]
    return Judged(sorted(missed, key=str), sorted(false, key=str), [*_unseen(answer)])


def _near(planted: Turned, said: Turned) -> bool:
    pairs = [(planted.before, said.before), (planted.after, said.after)]
    return all(one is None or other is None or abs(one - other) <= one / 10 for one, other in pairs)


def _unseen(answer: Reported) -> Iterator[str]:
    """Rows of what got worse that the terminal does not show, or the page's first fifty rows, or not with their
    builds."""
    ends = [(row["family"], row["first_build"]) for row in answer.document[WORSE]]
    text = answer.text.split("\n\n")[0].splitlines()[2:]
    shown = {(line.split("  ")[0], word) for line in text for word in line.split() if word.startswith("n")}
    yield from (f"not in the terminal: {each}" for each in ends if each not in shown)
    page = answer.page
    (table,) = [each for each in page["tables"] if each["title"].startswith("Got worse")]
    builds = [each["label"] for each in page["builds"]]
    drawn = [(row[0], builds[at[1]]) for row, at in zip(table["rows"][:50], table["ends"], strict=False)]
    yield from (f"not on the page: {each}" for each in ends if each not in drawn)
