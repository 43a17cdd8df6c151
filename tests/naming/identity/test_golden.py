"""Pairs of kernels of two builds, with evidence and number of candidates, as stored in `golden.txt`: generated
refactorings, with and without code. `python -m tests.naming.identity.test_golden` rewrites it: read its diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.code import SassStats
from spillscan.naming.pairs import paired
from tests.conftest import FIXTURES, read_any
from tests.naming.identity import generator

GOLDEN = Path(__file__).with_name("golden.txt")
Builds = tuple[list[Kernel], list[Kernel]]


def lambdas(seed: int) -> Builds:
    """Numbered lambdas of one function; some were inserted, others removed, some have changed metrics, and values that
    a front end does not report are unknown.
    """
    chance = Random(seed)

    def numbered(figures: list[Usage], coded: float) -> list[Kernel]:
        found = []
        for number, usage in enumerate(figures):
            symbol = f"_Z5applyIZ4hostvEUlfE{'' if number == 0 else number - 1}_EvT_Pf"
            key = KernelKey(symbol=symbol, arch="sm_90", unit=chance.choice(("", "", "a.o")))
            sass = None
            if chance.random() < coded:
                opcodes = (("FFMA", usage.registers or 1), ("EXIT", 1))
                digest = f"{usage.registers}{usage.stack_bytes}"
                sass = SassStats(instructions=50, code_bytes=800, opcodes=opcodes, digest=digest)
            found.append(Kernel(key=key, role="entry", usage=usage, sass=sass))
        return found

    def usage() -> Usage:
        stack = chance.choice((0, 0, 8, 16, None)) if seed % 2 else chance.choice((0, 8))
        return Usage(registers=chance.choice((16, 24, 32, 40)), stack_bytes=stack, barriers=chance.choice((0, 1)))

    before = [usage() for _ in range(chance.randrange(4, 14))]
    after = [usage() if chance.random() < 0.2 else each for each in before if chance.random() < 0.85]
    for _ in range(chance.randrange(4)):
        after.insert(chance.randrange(len(after) + 1), usage())
    coded = (0.0, 1.0, 0.5)[seed % 3]
    return numbered(before, coded), numbered(after, coded)


def groups() -> Iterator[tuple[str, Builds]]:
    """Builds before and after."""
    for seed in range(12):
        yield f"lambdas {seed}", lambdas(seed)
    for seed in (101, 102):
        case = generator.make(seed, templates=20)
        yield f"refactored {seed}", (case.base, case.head)
    for one, other in (("refactored", "renamed"), ("here", "there"), ("lambda", "renamed"), ("spilled", "refactored")):
        logs = [read_any(FIXTURES / "identity" / f"{name}-13.5.log").kernels for name in (one, other)]
        yield f"{one} and {other}", (list(logs[0]), list(logs[1]))


def said(builds: Builds) -> str:
    """One line per pair that is no identity or has several of its name, and per kernel without a counterpart."""
    found = paired(*builds)

    def name(kernel: Kernel) -> str:
        unit = f" {kernel.key.unit}" if kernel.key.unit else ""
        return f"{kernel.key.symbol} {kernel.key.arch} {kernel.usage.registers}{unit}"

    lines = [f"{len(found.same)} of one identity"]
    lines += sorted(f"{name(a)} = {name(b)}" for a, b in found.same if a.key != b.key or a.usage != b.usage)
    lines += sorted(
        f"{name(match.before)} -> {name(match.after)} {match.evidence.kind}"
        f" {match.evidence.rule} {match.evidence.explains}"
        for match in found.renamed
    )
    lines += sorted(f"gone {name(kernel)}" for kernel in found.gone)
    lines += sorted(f"new {name(kernel)}" for kernel in found.new)
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize(("group", "builds"), list(groups()), ids=lambda value: value if isinstance(value, str) else "")
def test_paired_as_in_the_file(group: str, builds: Builds) -> None:
    parts = dict(part.split("\n", 1) for part in GOLDEN.read_text(encoding="utf-8").split("== ")[1:])
    assert said(builds) == parts[group]


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"== {group}\n{said(builds)}" for group, builds in groups()), encoding="utf-8")
