"""Truth table: whose names may have changed places. One fact a row; each kernel is known by its name."""

from __future__ import annotations

import pytest

from spillscan.naming.identity.pairs import paired
from tests.naming.identity.test_truth_pairing import k

ONE, TWO, OTHER = "_Z3onePf", "_Z3twoPf", "_Z5otherPf"
TYPED, FIRST, SECOND = "_Z3twoPi", "_Z1fILi1EEvPf", "_Z1fILi2EEvPf"
FAR, FAR_SECOND = "_ZN2ns1fILi2EEvPf", "_ZN2ns1gILi1EEvPf"

Held = dict[tuple[str, str, str], int | str]
"""By name, object and arch: registers, or code."""


def held(*values: tuple[str, int | str], unit: str = "a.o", arch: str = "sm_90") -> Held:
    return {(name, unit, arch): value for name, value in values}


ROWS: list[tuple[str, Held, Held, dict[str, int]]] = [
    (
        "each has the other's figures",
        held((ONE, 32), (TWO, 64)),
        held((ONE, 64), (TWO, 32)),
        {ONE: 2, TWO: 2},
    ),
    (
        "one has the other's figures, the other its own",
        held((ONE, 32), (TWO, 64)),
        held((ONE, 64), (TWO, 64)),
        {},
    ),
    ("figures in a circle of three", held((ONE, 1), (TWO, 2), (OTHER, 3)), held((ONE, 2), (TWO, 3), (OTHER, 1)), {}),
    ("nothing changed", held((ONE, 32), (TWO, 64)), held((ONE, 32), (TWO, 64)), {}),
    ("other parameters", held((ONE, 32), (TYPED, 64)), held((ONE, 64), (TYPED, 32)), {}),
    ("other arguments alone", held((FIRST, 32), (SECOND, 64)), held((FIRST, 64), (SECOND, 32)), {FIRST: 2, SECOND: 2}),
    ("another scope and other arguments", held((FIRST, 32), (FAR, 64)), held((FIRST, 64), (FAR, 32)), {}),
    (
        "other objects",
        held((ONE, 32)) | held((TWO, 64), unit="b.o"),
        held((ONE, 64)) | held((TWO, 32), unit="b.o"),
        {},
    ),
    (
        "figures that cross in one arch, and not in another",
        held((ONE, 32), (TWO, 64)) | held((ONE, 32), (TWO, 64), arch="sm_80"),
        held((ONE, 64), (TWO, 32)) | held((ONE, 32), (TWO, 64), arch="sm_80"),
        {},
    ),
    (
        "figures that cross in one arch, in another one of the two is gone",
        held((ONE, 32), (TWO, 64)) | held((ONE, 32), (TWO, 64), arch="sm_80"),
        held((ONE, 64), (TWO, 32)) | held((ONE, 64), arch="sm_80"),
        {ONE: 2, TWO: 2},
    ),
    (
        "two may be the other",
        held((ONE, 1), (TWO, 2), (OTHER, 2)),
        held((ONE, 2), (TWO, 1), (OTHER, 1)),
        {ONE: 3, TWO: 2, OTHER: 2},
    ),
    ("each has the other's code: a fact", held((ONE, "x"), (TWO, "y")), held((ONE, "y"), (TWO, "x")), {}),
    (
        "each has the other's code, and so has a third",
        held((ONE, "x"), (TWO, "y"), (OTHER, "y")),
        held((ONE, "y"), (TWO, "x"), (OTHER, "y")),
        {ONE: 2, TWO: 2},
    ),
    (
        "one has the other's code, the other a new one",
        held((ONE, "x"), (TWO, "y")),
        held((ONE, "y"), (TWO, "z")),
        {ONE: 2, TWO: 2},
    ),
    ("one has the other's code, which it kept", held((ONE, "x"), (TWO, "y")), held((ONE, "y"), (TWO, "y")), {}),
    ("one has the code of one that is gone", held((ONE, "x"), (TWO, "y")), held((ONE, "y")), {ONE: 2}),
    ("both have new code", held((ONE, "x"), (TWO, "y")), held((ONE, "z"), (TWO, "w")), {}),
    (
        "both have new code, and code has exchanged their names in another arch",
        held((ONE, "x"), (TWO, "y")) | held((ONE, "p"), (TWO, "q"), arch="sm_80"),
        held((ONE, "z"), (TWO, "w")) | held((ONE, "q"), (TWO, "p"), arch="sm_80"),
        {ONE: 2, TWO: 2},
    ),
]


@pytest.mark.parametrize(("why", "base", "head", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_names_that_may_have_changed_places(why: str, base: Held, head: Held, expected: dict[str, int]) -> None:
    sides = [
        [
            k(unit, name, *((32, value) if isinstance(value, str) else (value,)), arch=arch)
            for (name, unit, arch), value in side.items()
        ]
        for side in (base, head)
    ]
    found = paired(*sides).doubtful
    assert {match.before.key.symbol: match.evidence.one_of for match in found} == expected, why
    assert all(match.before.key.symbol == match.after.key.symbol for match in found)
