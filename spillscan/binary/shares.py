"""The members of one file, read by as many processes as there are processors; records in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from spillscan import workers
from spillscan.binary.containers import Damage, Found, Image
from spillscan.binary.figures import Functions, Told
from spillscan.binary.pages import Pages

LEAST_BYTES = 64 << 20
"""Of a share, decompressed: below, a process costs more than it saves."""
_MOST = 8
"""Processes."""
_OWN_WORK = 0.12
"""What this process does besides, its start, records of what the others find, a report: as a part of reading all."""
_HEAP_BYTES = 31 << 20
"""glibc takes larger blocks from the system one by one, and smaller ones, too, until one of their size was freed, and
gives back what is free beyond twice that: each member's pages would be made anew. So one that is never touched is freed
at first."""


def one_by_one(functions: Functions, found: Iterable[Found]) -> Iterator[tuple[Found, Iterable[Told]]]:
    """Everything, by this process; what is told of one cubin is to be taken before the next is asked for."""
    pages = Pages()
    for each in found:
        yield each, _told(functions, each, pages)


def together(functions: Functions, found: Sequence[Found], origin: str) -> Iterator[tuple[Found, Iterable[Told]]]:
    """Everything, by as many processes as pay. Raises :class:`~spillscan.errors.SpillscanError` where one dies."""
    sizes = [0 if isinstance(each, Damage) else each.plain_bytes for each in found]
    count = max(1, min(workers.processors(), sum(sizes) // LEAST_BYTES, _MOST)) if workers.POSSIBLE else 1
    owners = dealt(sizes, count)
    bytes(_HEAP_BYTES)
    pages = Pages()

    def share(owner: int) -> Iterator[list[Told]]:
        for each, by in zip(found, owners, strict=True):
            if by == owner:
                yield list(_told(functions, each, pages))

    with workers.Workers([share(owner) for owner in range(1, count)], origin) as running:
        said: list[Iterator[Any]] = [iter(()), *(worker.items() for worker in running)]
        for each, by in zip(found, owners, strict=True):
            yield each, next(said[by]) if by else _told(functions, each, pages)
        for others in said[1:]:
            next(others, None)


def dealt(sizes: Sequence[int], count: int) -> list[int]:
    """For each size whose it is: neighbours belong together, so that this process, which is first, seldom waits. Its
    share is smaller by what else it does."""
    total = max(1, sum(sizes))
    own = total * max(0.0, (1 - _OWN_WORK * (count - 1)) / count)
    other = (total - own) / max(1, count - 1)
    middles = [end - size / 2 for size, end in zip(sizes, accumulate(sizes), strict=True)]
    return [0 if middle <= own else min(count - 1, 1 + int((middle - own) / other)) for middle in middles]


def _told(functions: Functions, each: Found, pages: Pages) -> Iterator[Told]:
    if isinstance(each, Image):
        yield from functions.of(each)
        pages.leave(each.raw)
