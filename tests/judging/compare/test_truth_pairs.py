"""Which of several kernels of one name is which, one fact a row. Ties are decided the same way each time: the first
with the first. Typed by hand."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from spillscan.model import Kernel, KernelKey, Usage
from spillscan.naming.pairs import pair


class Row(NamedTuple):
    """Kernels of one symbol as (unit, registers), and the units that are paired."""

    why: str
    before: list[tuple[str, int | None]]
    after: list[tuple[str, int | None]]
    pairs: list[tuple[str | None, str | None]]


def equals(prefix: str, count: int) -> list[tuple[str, int | None]]:
    return [(f"{prefix}{number:03}", 32) for number in range(count)]


TABLE = [
    Row("a unit that keeps its name", [("a", 32), ("b", 40)], [("b", 32), ("a", 40)], [("a", "a"), ("b", "b")]),
    Row("equal figures under other units", [("a", 32), ("b", 40)], [("x", 40), ("y", 32)], [("a", "y"), ("b", "x")]),
    Row(
        "all equal: the first with the first", [("a", 32), ("b", 32)], [("x", 32), ("y", 32)], [("a", "x"), ("b", "y")]
    ),
    Row(
        "all equal, one fewer: the last has none",
        [("a", 32), ("b", 32), ("c", 32)],
        [("x", 32), ("y", 32)],
        [("a", "x"), ("b", "y"), ("c", None)],
    ),
    Row(
        "equal ones beside another that changed",
        [("a", 32), ("b", 32), ("c", 40)],
        [("x", 32), ("y", 48), ("z", 32)],
        [("a", "x"), ("b", "z"), ("c", "y")],
    ),
    Row(
        "equal ones of which one is new: the first two are paired",
        [("a", 32), ("b", 32)],
        [("x", 32), ("y", 32), ("z", 32)],
        [("a", "x"), ("b", "y"), (None, "z")],
    ),
    Row("the nearest registers", [("a", 32), ("b", 200)], [("x", 208), ("y", 40)], [("a", "y"), ("b", "x")]),
    Row(
        "what is not known contradicts nothing",
        [("a", 32), ("b", 40)],
        [("x", 40), ("y", None)],
        [("a", "y"), ("b", "x")],
    ),
    Row(
        "very many equals: the first with the first",
        equals("a", 70),
        equals("x", 71),
        [*((f"a{n:03}", f"x{n:03}") for n in range(70)), (None, "x070")],
    ),
]


def kernels(given: list[tuple[str, int | None]]) -> list[Kernel]:
    return [
        Kernel(key=KernelKey(symbol="k", arch="sm_80", unit=unit), role="entry", usage=Usage(registers=registers))
        for unit, registers in given
    ]


@pytest.mark.parametrize("fact", TABLE, ids=lambda fact: fact.why)
def test_pairs(fact: Row) -> None:
    found = [
        (each.before and each.before.key.unit, each.after and each.after.key.unit)
        for each in pair(kernels(fact.before), kernels(fact.after))
    ]
    assert sorted(found, key=str) == sorted(fact.pairs, key=str)
