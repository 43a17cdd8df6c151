"""Turns that are planted into a long history are found in their build, and noise is none."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from spillscan.history.dataset import Unit, write_batch
from spillscan.history.dataset.turns import shifts
from spillscan.model import Build, Kernel, KernelKey, Usage
from spillscan.model.code import LocalTraffic, SassStats
from tests.history.dataset.support import command

WORSE, BETTER, REST = "turns", "improvements", "came_and_went"


class Nightly:
    """Families of two instances, whose compile times are never the same twice; what is planted stays."""

    def __init__(self, seed: int, builds: int, families: int) -> None:
        self.rng = random.Random(seed)
        self.builds = builds
        self.expected: set[tuple[str, str, str, str]] = set()
        """Table, family, what, label."""
        self.families = {
            f"fam{number}": {
                "registers": [96] * builds,
                "spill": [16 * (number % 3)] * builds,
                "shared": [4096] * builds,
                "code": [16_000 + 160 * number] * builds,
                "ms": [30.0 + 5 * number] * builds,
                "lives": [(0, builds)] * 2,
                "name": [f"fam{number}"] * builds,
            }
            for number in range(families)
        }

    def plant(self, count: int) -> None:
        """So many turns, no two in one family, each at its own build."""
        kinds = ("registers", "spill", "shared", "code", "ms", "birth", "death", "rename")
        for number, family in enumerate(self.rng.sample(sorted(self.families), count)):
            at, worse, made = self.rng.randrange(6, self.builds - 6), number % 16 < 8, self.families[family]
            kind, label, sign = kinds[number % 8], f"b{at:03}", 1 if worse else -1
            if kind == "birth":
                made["lives"][1] = (at, self.builds)
                self.expected.add((WORSE if made["spill"][at] else REST, family, "new", label))
            elif kind == "death":
                made["lives"][1] = (0, at)
                self.expected.add((REST, family, "gone", label))
            elif kind == "rename":
                made["name"][at:] = [f"{family}_v2"] * (self.builds - at)
                self.expected.add((REST, f"{family}_v2", "renamed", label))
            else:
                step = {"registers": 40, "spill": 16, "shared": 2048, "code": 1600, "ms": made["ms"][0] * 0.3}[kind]
                if kind == "spill" and not worse:
                    made["spill"] = [64] * self.builds
                made[kind][at:] = [value + sign * step for value in made[kind][at:]]
                metric = {"spill": "spill_bytes", "shared": "shared_bytes", "code": "code_bytes", "ms": "compile_ms"}
                self.expected.add((WORSE if worse else BETTER, family, metric.get(kind, kind), label))

    def write(self, root: Path) -> None:
        """All builds as a dataset."""
        for at in range(self.builds):
            label = f"b{at:03}"
            kernels = tuple(
                self._kernel(made, at, instance)
                for made in self.families.values()
                for instance, (begin, end) in enumerate(made["lives"])
                if begin <= at < end
            )
            meta = {"time": f"2026-{1 + at // 28:02}-{1 + at % 28:02}", "commit": f"{at:040}"}
            unit = Unit(uri="build.log", content_hash=str(at))
            write_batch(str(root), label, [(unit, Build(kernels=kernels))], meta)

    def _kernel(self, made: dict[str, list], at: int, instance: int) -> Kernel:  # type: ignore[type-arg]
        name = made["name"][at]
        busy = 1 + self.rng.gauss(0, 0.03) + (0.8 if self.rng.random() < 0.005 else 0)
        usage = Usage(
            registers=made["registers"][at],
            spill_store_bytes=made["spill"][at],
            spill_load_bytes=0,
            shared_bytes=made["shared"][at],
        )
        size = made["code"][at]
        sass = SassStats(code_bytes=size, instructions=size // 16, opcodes=(("NOP", size // 16),), local=LocalTraffic())
        symbol = f"_Z{len(name)}{name}ILi{instance}EEvPfPd"
        key = KernelKey(symbol=symbol, arch="sm_90a")
        return Kernel(key=key, role="entry", usage=usage, sass=sass, compile_ms=made["ms"][at] / 2 * busy)


def told(root: Path) -> set[tuple[str, str, str, str]]:
    """Table, family, what, label of each turn."""
    document = json.loads(command("history", root, "--launch", "*=256", "-f", "json").out)
    found = set()
    for table in (WORSE, BETTER, REST):
        for turn in document[table]:
            what = turn["metric"] if turn["event"] == "changed" else turn["event"]
            figures = [what, *(each["metric"] for each in turn["with"])]
            found |= {(table, turn["family"], each, turn["first_build"]) for each in figures}
    return found


FOLLOWS = {"registers": "resident_blocks", "spill_bytes": "spill_store_bytes", "code_bytes": "instructions"}
"""Figures that move with others."""


def test_planted_turns_are_named_with_their_build(tmp_path: Path) -> None:
    """Sixty in three hundred builds, and none that is not there."""
    made = Nightly(20261126, 300, 62)
    made.plant(60)
    made.write(tmp_path)
    follows = {(table, family, FOLLOWS[what], at) for table, family, what, at in made.expected if what in FOLLOWS}
    assert told(tmp_path) == made.expected | follows


def test_noise_is_no_turn(tmp_path: Path) -> None:
    made = Nightly(7, 100, 24)
    made.write(tmp_path)
    assert told(tmp_path) == set()


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ([10.0] * 20, []),
        ([10.0] * 10 + [13.0] * 10, [10]),
        ([10.0] * 10 + [30.0] + [10.0] * 10, []),
        ([10.0] * 9 + [11.0, 13.0] + [13.0] * 9, [10]),
        ([10.0] * 10 + [10.2] * 10, []),
        ([10.0] * 17 + [20.0] * 3, [17]),
        ([10.0] * 18 + [20.0] * 2, []),
        ([10.0] * 10 + [20.0] * 10 + [10.0] * 10, [10, 20]),
        ([10.0] * 5, []),
    ],
)
def test_shifts(values: list[float], first: list[int]) -> None:
    assert sorted(shift.first for shift in shifts(values, 5)) == first
