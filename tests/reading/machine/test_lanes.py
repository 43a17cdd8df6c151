"""What lanes hold, against sums of numbers: what is known must hold whatever lanes share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from spillscan.reading.machine.lanes import (
    ALL_KNOWN,
    ANY,
    LANES,
    WIDTHS,
    WORD,
    Lanes,
    Shape,
    added,
    either,
    logical,
    multiplied,
    settled,
    shifted_right,
    times,
)
from tests.conftest import sized

TID_X = 0x21


def drawn(chance: random.Random) -> Lanes:
    step, bits = chance.choice((0, 0, 1, 2, 4, 12, 1 << 31)), chance.choice((0, 2, 5, ALL_KNOWN))
    table = [chance.randrange(4) + step * lane if chance.random() < 0.1 else step * lane for lane in range(LANES)]
    return settled((each % WORD for each in table), bits)


def numbers(value: Lanes, chance: random.Random) -> list[int]:
    """One that it may be, in each lane."""
    shared = 0 if value.bits == ALL_KNOWN else chance.choice((0, 1, chance.getrandbits(32))) << value.bits
    return [(shared + each) % WORD for each in value.table]


def holds(found: Lanes | None, numbers: Sequence[int]) -> bool:
    """Whether numbers are such as it says."""
    if found is None:
        return True
    apart = {(number - each) % WORD for number, each in zip(numbers, found.table, strict=True)}
    return len(apart) == 1 and next(iter(apart)) % (1 << found.bits) == 0


def signed(number: int) -> int:
    return number - WORD if number >> 31 else number


def lop3(table: int, a: int, b: int, c: int) -> int:
    return sum((table >> ((a >> at & 1) << 2 | (b >> at & 1) << 1 | c >> at & 1) & 1) << at for at in range(32))


OPERATIONS: dict[str, tuple[Callable[..., Lanes | None], Callable[..., int]]] = {
    "sum": (lambda a, b, c: added(a, b), lambda a, b, c: (a + b) % WORD),
    "product": (lambda a, b, c: multiplied(a, b), lambda a, b, c: a * b % WORD),
    "multiple": (lambda a, b, c: times(a, 24), lambda a, b, c: a * 24 % WORD),
    "and": (lambda a, b, c: logical(0xC0, (a, b, c)), lambda a, b, c: a & b),
    "table": (lambda a, b, c: logical(0x6A, (a, b, c)), lambda a, b, c: lop3(0x6A, a, b, c)),
    "shift": (lambda a, b, c: shifted_right(a, 3, signed=False), lambda a, b, c: a >> 3),
    "signed": (lambda a, b, c: shifted_right(a, 2, signed=True), lambda a, b, c: (signed(a) >> 2) % WORD),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_what_is_known_holds(name: str) -> None:
    chance = random.Random(name)
    abstract, concrete = OPERATIONS[name]
    known = 0
    for _ in range(sized(1000, 10_000)):
        values = [drawn(chance) for _ in range(3)]
        found = abstract(*values)
        known += found is not None
        for _ in range(3):
            lanes = zip(*(numbers(each, chance) for each in values), strict=True)
            assert holds(found, [concrete(*each) for each in lanes]), (values, found)
    assert known > 15


def test_either_of_two() -> None:
    chance = random.Random(1)
    known = 0
    for _ in range(sized(1000, 10_000)):
        one = drawn(chance)
        other = chance.choice((drawn(chance), added(one, ANY), added(one, settled([8] * LANES, ALL_KNOWN))))
        found = either(one, other)
        known += found is not None
        assert holds(found, numbers(one, chance))
        assert holds(found, numbers(other, chance))
    assert known > 100


@pytest.mark.parametrize("width", WIDTHS)
def test_threads_of_a_block(width: int) -> None:
    """All warps of blocks with such rows: what is said of ``threadIdx``."""
    for x, y in {0: ((24, 4), (64, 2)), 32: ((32, 3), (96, 2)), 16: ((16, 6),), 8: ((8, 8),)}[width]:
        threads = [(tid % x, tid // x) for tid in range(x * y)]
        for warp in range(0, x * y - LANES + 1, LANES):
            for axis in (0, 1):
                found = Shape(width).identity(TID_X + axis)
                assert holds(found, [thread[axis] for thread in threads[warp : warp + LANES]])
    assert (Shape(width).identity(TID_X) is None) == (width == 0)
