"""Reads one large dump on several cores: each process reads a range of whole functions.

Processes take turns, range by range, as some parts of a dump cost more than others. A range begins where a function
does. What its lines do not say is what stands before them: how many lines there are, and which cubin they are in. That
is filled in when the ranges are put together, in their order, so that records, issues and counts are those of one
reader.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from msgspec import structs

from spillscan.model import Issue, Origin
from spillscan.model.code import SassFunction
from spillscan.reading import grammar, workers
from spillscan.reading.dumps.blocks import SIZE
from spillscan.reading.dumps.common import SHOWN, DumpAccount
from spillscan.reading.dumps.cuobjdump import FORMAT, Dump, Place
from spillscan.reading.dumps.listing import BEFORE_ALL, Member
from spillscan.reading.dumps.rows import Rows
from spillscan.reading.inputs.source import Extent, Part
from spillscan.reading.machine.function import instruction_bytes
from spillscan.reading.machine.local import Accesses

LEAST_BYTES = 32 << 20
"""Of a range: below, a process costs more than it saves."""

_MOST = 8
"""Processes."""

TURNS = 4
"""Ranges of one process."""

_SEARCHED = 1 << 16
"""Bytes that are searched at once for the beginning of a function."""

_BEFORE = Member(0, "sm_70\n", "identifier\n", "object\n")
"""What a range does not know; no line of a dump can hold a line end. The arch counts two words an instruction."""

_MANY = 32
"""Items that travel together."""


class _End(NamedTuple):
    """What a process says last."""

    account: DumpAccount
    place: Place
    complete: bool
    """The reader came to the end of its range."""


_Item = SassFunction | Issue | _End


def cuts(extent: Extent, count: int) -> list[Extent]:
    """At most ``count`` ranges of about the same size; each but the first begins with a function's header line."""
    header = grammar.line_starts("function")
    begins = [extent.begin]
    for number in range(1, count):
        at = extent.begin + (extent.end - extent.begin) * number // count
        while at < extent.end:
            data = os.pread(extent.descriptor, min(_SEARCHED, extent.end - at), at)
            first = data.find(b"\n") + 1  # a match at the beginning may be the middle of a line
            last = data.rfind(b"\n") + 1
            if not data or not last:
                at += len(data) or extent.end
                continue
            if found := header.search(data, first, last):
                begins.append(at + found.start())
                break
            at += max(last - 1, 1)
    begins = sorted(set(begins))
    return [Extent(extent.descriptor, begin, end) for begin, end in zip(begins, [*begins[1:], extent.end], strict=True)]


def worthwhile(extent: Extent) -> list[Extent]:
    """The ranges of a file for the processors at hand: one where more would not pay."""
    count = processes(extent.end - extent.begin)
    return cuts(extent, count * TURNS) if count > 1 else [extent]


def processes(size: int) -> int:
    """How many are worth their cost for so many bytes."""
    if not workers.POSSIBLE:
        return 1
    return max(1, min(workers.processors(), size // LEAST_BYTES, _MOST))


class Ranges:
    """A dump as :class:`~spillscan.reading.dumps.cuobjdump.Dump` reads it, by several processes.

    The calling process reads the first range itself, and each one when it is its turn again; what the others found is
    kept until it is theirs.
    """

    def __init__(self, ranges: Sequence[Extent], origin: str, size: int = SIZE) -> None:
        self.account = DumpAccount(origin, FORMAT)
        self._ranges = ranges
        self._processes = max(2, processes(ranges[-1].end - ranges[0].begin))
        self._origin = origin
        self._size = size
        self._unknown = 0
        self._rows = Rows()

    def __iter__(self) -> Iterator[SassFunction | Issue]:
        turns = [self._ranges[first :: self._processes] for first in range(1, self._processes)]
        shares = [_share(extents, self._origin, self._size) for extents in turns if extents]
        with workers.Workers(shares, f"{self._origin} was not read") as running:
            said = [worker.items() for worker in running]
            end = _End(self.account, Place(1, BEFORE_ALL), complete=True)
            for number, extent in enumerate(self._ranges):
                turn = number % self._processes
                if turn and end.place.member.number >= 0:
                    end = yield from self._filled(_next_range(said[turn - 1]), end.place)
                else:
                    if turn:  # the dump has no headers: nothing can be filled in
                        deque(_next_range(said[turn - 1]), maxlen=0)
                    end = yield from self._direct(extent, end.place)
                if not end.complete:
                    break
            else:
                for each in said:
                    deque(each, maxlen=0)  # nothing comes, unless the process failed at its end
        yield from self.account.summary()

    def _direct(self, extent: Extent, place: Place) -> Generator[SassFunction | Issue, None, _End]:
        dump = Dump(Part(extent), self._origin, size=self._size, place=place, rows=self._rows)
        yield from self._shown(dump.items())
        self._add(dump.account)
        return _End(dump.account, dump.place, dump.complete)

    def _filled(self, items: Iterator[_Item], before: Place) -> Generator[SassFunction | Issue, None, _End]:
        end = None
        for item in items:
            if isinstance(item, _End):
                end = item
            else:
                yield from self._shown([_filled_in(item, before)])
        assert end
        self._add(end.account)
        return end._replace(place=Place(end.place.line + before.line - 1, _member(end.place.member, before.member)))

    def _shown(self, items: Iterable[SassFunction | Issue]) -> Iterator[SassFunction | Issue]:
        """Each reader shows some unknown lines; together they show no more."""
        for item in items:
            if isinstance(item, Issue) and item.code == "unknown-line":
                self._unknown += 1
                if self._unknown > SHOWN:
                    continue
            yield item

    def _add(self, account: DumpAccount) -> None:
        for name in ("lines", "bytes_read", "functions", "unknown_lines", "undecodable_bytes", "damaged_names"):
            setattr(self.account, name, getattr(self.account, name) + getattr(account, name))
        self.account.hides = self.account.hides or account.hides


def _member(member: Member, before: Member) -> Member:
    """A cubin of a range, with what stands before it filled in."""
    return Member(
        number=before.number + member.number,
        arch=before.arch if member.arch == _BEFORE.arch else member.arch,
        identifier=before.identifier if member.identifier == _BEFORE.identifier else member.identifier,
        object=before.object if member.object == _BEFORE.object else member.object,
    )


def _filled_in(item: SassFunction | Issue, before: Place) -> SassFunction | Issue:
    """An item of a range, with what stands before it filled in."""
    if isinstance(item, Issue):
        return structs.replace(item, origin=_moved(item.origin, before))
    member, stats = before.member, item.stats
    local = stats.local
    if isinstance(local.accesses, Accesses) and local.accesses.lines is not None:
        lines = local.accesses.lines + before.line - 1
        local = structs.replace(local, accesses=replace(local.accesses, lines=lines))
    arch, code_bytes = item.arch, stats.code_bytes
    if arch == _BEFORE.arch:
        arch = member.arch
        if code_bytes:
            last = code_bytes - instruction_bytes(_BEFORE.arch, 0)
            code_bytes = last + instruction_bytes(arch, last)
    names = {_BEFORE.identifier: member.identifier or member.unit, _BEFORE.object: member.unit}
    return structs.replace(
        item,
        arch=arch,
        member=item.member + member.number,
        identifier=names.get(item.identifier, item.identifier),
        stats=structs.replace(stats, local=local, code_bytes=code_bytes, origin=_moved(stats.origin, before)),
    )


def _moved(origin: Origin | None, before: Place) -> Origin | None:
    if origin is None or origin.line is None:
        return origin
    return structs.replace(origin, line=origin.line + before.line - 1)


def _share(extents: Sequence[Extent], origin: str, size: int) -> Iterator[list[_Item]]:
    """What one process reads of its ranges; many items travel together, and the last of a range is its end."""
    rows = Rows()
    for extent in extents:
        dump = Dump(Part(extent), origin, size=size, place=Place(1, _BEFORE), rows=rows)
        items: list[_Item] = []
        for item in dump.items():
            items.append(item)
            if len(items) == _MANY:
                yield items
                items = []
        yield [*items, _End(dump.account, dump.place, dump.complete)]


def _next_range(said: Iterator[list[_Item]]) -> Iterator[_Item]:
    """What a process said of its next range; the last is its end."""
    for items in said:
        yield from items
        if isinstance(items[-1], _End):
            return
