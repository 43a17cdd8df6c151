"""The members of one file, read by as many processes as there are processors; records in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from spillscan import cores, forked
from spillscan.binary.containers import Damage, Found
from spillscan.binary.pages import Pages
from spillscan.binary.records import Records, Tally
from spillscan.model import Issue
from spillscan.sass.model import SassFunction

LEAST_BYTES = 64 << 20
"""Of a share, decompressed: below, a process costs more than it saves."""
_MOST = 8
"""Processes."""

Item = SassFunction | Issue


def one_by_one(records: Records, found: Iterable[Found]) -> Iterator[Item]:
    """Everything, by this process."""
    number, pages = 0, Pages()
    for each in found:
        yield from _items(records, each, number, pages)
        number += not isinstance(each, Damage)


def together(records: Records, found: Sequence[Found], origin: str) -> Iterator[Item]:
    """Everything, by as many processes as pay. Raises :class:`~spillscan.errors.SpillscanError` where one dies."""
    sizes = [0 if isinstance(each, Damage) else each.plain_bytes for each in found]
    count = max(1, min(cores.available(), sum(sizes) // LEAST_BYTES, _MOST)) if forked.POSSIBLE else 1
    owners = dealt(sizes, count)
    numbers = _numbers(found)
    pages = Pages()

    def share(owner: int) -> Iterator[list[Item] | Tally]:
        for each, number, by in zip(found, numbers, owners, strict=True):
            if by == owner:
                yield list(_items(records, each, number, pages))
        yield records.tally

    with forked.Workers([share(owner) for owner in range(1, count)], origin) as workers:
        said: list[Iterator[Any]] = [iter(()), *(worker.items() for worker in workers)]
        for each, number, by in zip(found, numbers, owners, strict=True):
            if by:
                yield from next(said[by])
            else:
                yield from _items(records, each, number, pages)
        for others in said[1:]:
            records.add(next(others))


def dealt(sizes: Sequence[int], count: int) -> list[int]:
    """For each size whose it is: neighbours belong together, so that this process, which is first, never waits."""
    total = max(1, sum(sizes))
    return [
        min(count - 1, (end - size // 2) * count // total) for size, end in zip(sizes, accumulate(sizes), strict=True)
    ]


def _numbers(found: Sequence[Found]) -> list[int]:
    """The number of each image among the images."""
    numbers, number = [], 0
    for each in found:
        numbers.append(number)
        number += not isinstance(each, Damage)
    return numbers


def _items(records: Records, each: Found, number: int, pages: Pages) -> Iterator[Item]:
    if isinstance(each, Damage):
        yield records.damage(each.error, each.place)
        return
    yield from records.of(each, number)
    pages.leave(each.raw)
