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
    """Clear bounded caches of lines that were read; grammars stay. All modules must be loaded."""
    for each in _of_lines():
        each.cache_clear()


def steps(work: Callable[[], object]) -> int:
    """Number of executed lines and function calls."""
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
    for _ in range(3):  # others run at the same time
        fourfold = seconds(4 * size)
        if fourfold <= 0.1 or fourfold <= 10 * seconds(size) + 0.1:
            return True
    return False


def growth(work: Callable[[int], object], size: int) -> float:
    """Steps of the second doubling of an input divided by twice those of the first: 1 for linear work, 2 for quadratic
    work. Work done once, whatever the size, is in neither.
    """
    work(4 * size)  # what is remembered or loaded is then there
    once, twice, four_times = (steps(lambda size=size: work(size)) for size in (size, 2 * size, 4 * size))  # type: ignore[misc]
    return (four_times - twice) / max(2 * (twice - once), 1)
