"""The accesses of one function as columns; their records are made when somebody looks at them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from spillscan.machine.local import STORE, WIDTH_AT, WIDTHS, access
from spillscan.model.code import AccessClass, Group, Grouped, LocalAccess, SourceLine, Traffic


class Part(NamedTuple):
    """The accesses of the function itself, or of one callee in its listing. Few are distinct."""

    number: int
    """0: the function itself."""
    begin: int
    """Its first access."""
    counts: Mapping[int, int]
    """How many there are of each, as :func:`spillscan.machine.local.number` has them."""
    kinds: Mapping[int, AccessClass]
    """What each is, in the same order."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Accesses(Grouped):
    """A sequence of records, by address; equal to any sequence of equal records."""

    addresses: NDArray[np.int64]
    lines: NDArray[np.int64] | None
    """``None`` where there is no dump."""
    accesses: NDArray[np.int64]
    """As :func:`spillscan.machine.local.number` has them."""
    depths: Sequence[int | None]
    parts: Sequence[Part]
    """Those that have any."""
    sources: Sequence[SourceLine | None] | None
    """``None`` where the dump tells none."""

    def __len__(self) -> int:
        return len(self.addresses)

    @overload
    def __getitem__(self, index: int) -> LocalAccess: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[LocalAccess]: ...

    def __getitem__(self, index: int | slice) -> LocalAccess | Sequence[LocalAccess]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        index = range(len(self))[index]
        part = self.parts[bisect_right(self.parts, index, key=_begin) - 1]
        return next(self._records(part, index, index + 1))

    def __iter__(self) -> Iterator[LocalAccess]:
        for part, end in self._extents():
            yield from self._records(part, part.begin, end)

    def _extents(self) -> Iterator[tuple[Part, int]]:
        """Each part, and where the next begins."""
        yield from zip(self.parts, (*(part.begin for part in self.parts[1:]), len(self)), strict=True)

    def _records(self, part: Part, begin: int, end: int) -> Iterator[LocalAccess]:
        rows = slice(begin, end)
        unknown = [None] * (end - begin)
        for address, line, number, depth, source in zip(
            self.addresses[rows].tolist(),
            unknown if self.lines is None else self.lines[rows].tolist(),
            self.accesses[rows].tolist(),
            self.depths[rows],
            self.sources[rows] if self.sources else unknown,
            strict=True,
        ):
            store, predicated, _, target = access(number)
            yield LocalAccess(
                address=address,
                line=line,
                store=store,
                bytes=target.bytes,
                form=target.form,
                slot=target.slot,
                last_use=target.last_use,
                predicated=predicated,
                kind=part.kinds[number],
                depth=depth,
                part=part.number,
                source=source,
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(LocalAccess.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def groups(self) -> Counter[Group]:
        """How many there are of each group."""
        found: Counter[Group] = Counter()
        for part, end in self._extents():
            rows = slice(part.begin, end)
            columns = zip(self.accesses[rows].tolist(), self.depths[rows], strict=True)
            for (number, depth), count in Counter(columns).items():
                each = access(number)
                found[Group(part.kinds[number], each.store, each.target.bytes, depth, part.number > 0)] += count
        return found

    def traffic(self, kind: AccessClass | None = None, *, own: bool = False) -> Traffic:
        """Those of one class (``None``: all), ``own``: in the function itself only. No loop is looked for."""
        parts = [part for part in self.parts if not (own and part.number)]
        return _traffic(
            [
                each
                for part in parts
                for each, which in zip(part.counts.items(), part.kinds.values(), strict=True)
                if kind in (None, which)
            ]
        )

    def frame(self, size: int | None) -> Traffic:
        """The slots of the function's own frame of ``size`` bytes; all slots where that is not known."""
        own = [each for part in self.parts if not part.number for each in part.counts.items()]
        return _traffic([each for each in own if _below(access(each[0]).target.slot, size)])


def _begin(part: Part) -> int:
    return part.begin


def _below(slot: int | None, size: int | None) -> bool:
    return slot is not None and (size is None or slot < size)


def _traffic(counts: Iterable[tuple[int, int]]) -> Traffic:
    """Of accesses as numbers, and how many there are of each."""
    stores = loads = store_bytes = load_bytes = 0
    for number, count in counts:
        size = count * WIDTHS[number >> WIDTH_AT & 7]
        if number & STORE:
            stores += count
            store_bytes += size
        else:
            loads += count
            load_bytes += size
    return Traffic(stores=stores, loads=loads, store_bytes=store_bytes, load_bytes=load_bytes)
