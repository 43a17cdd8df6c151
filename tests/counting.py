"""Work, counted: lines of Python that are carried out, rounds of loops within one, and calls of functions of C. The
same input takes the same number, on whatever machine. What one call of C does (an expression, a sort) is not seen."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import _lru_cache_wrapper, cache

MOST_GROWTH = 1.15
"""Twice as much may take so many times twice the work."""


@cache
def _of_lines() -> list[_lru_cache_wrapper[object]]:
    gc.unfreeze()  # what is frozen is in no list
    every = [each for each in gc.get_objects() if isinstance(each, _lru_cache_wrapper)]
    gc.freeze()
    return [each for each in every if each.cache_parameters()["maxsize"]]


def forget_lines() -> None:
    """What remembers lines that were read, and is bounded, forgets them; grammars stay. All modules must be loaded."""
    for each in _of_lines():
        each.cache_clear()


def steps(work: Callable[[], object]) -> int:
    """How many lines are carried out and functions are called."""
    count = 0

    def seen(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "c_call"

    def traced(_: object, event: str, __: object) -> Callable[..., object]:
        nonlocal count
        count += event in ("call", "line")
        return traced

    gc.disable()
    before = sys.gettrace()
    sys.setprofile(seen)
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
        sys.setprofile(None)
        gc.enable()
    return count


def costs_its_size(seconds: Callable[[int], float], size: int) -> bool:
    """Whether four times the input takes at most ten times as long, and a tenth of a second besides: what goes over it
    again and again takes sixteen times."""
    for _ in range(3):  # others run beside it
        fourfold = seconds(4 * size)
        if fourfold <= 0.1 or fourfold <= 10 * seconds(size) + 0.1:
            return True
    return False


def growth(work: Callable[[int], object], size: int) -> float:
    """What the second doubling of an input takes, over twice what the first does; work that grows with size has 1, that
    of each with each other has 2. What is done once, however large the input, is in neither."""
    work(4 * size)  # what is remembered or loaded is then there
    once, twice, four_times = (steps(lambda size=size: work(size)) for size in (size, 2 * size, 4 * size))  # type: ignore[misc]
    return (four_times - twice) / max(2 * (twice - once), 1)
