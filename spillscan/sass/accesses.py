"""The accesses of one function as columns; their records are made when somebody looks at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from spillscan.sass.local import Access
from spillscan.sass.model import AccessClass, Group, LocalAccess, SourceLine, Traffic


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Accesses(Sequence[LocalAccess]):
    """A sequence of records, by address; equal to any sequence of equal records."""

    addresses: Sequence[int]
    lines: Sequence[int | None]
    accesses: Sequence[Access]
    kinds: Sequence[AccessClass]
    depths: Sequence[int | None]
    parts: Sequence[int]
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
        access = self.accesses[index]
        return LocalAccess(
            address=self.addresses[index],
            line=self.lines[index],
            store=access.store,
            bytes=access.target.bytes,
            form=access.target.form,
            slot=access.target.slot,
            last_use=access.target.last_use,
            predicated=access.predicated,
            kind=self.kinds[index],
            depth=self.depths[index],
            part=self.parts[index],
            source=self.sources[index] if self.sources else None,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(LocalAccess.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def groups(self) -> Counter[Group]:
        """How many there are of each group."""
        found: Counter[Group] = Counter()
        alike = Counter(zip(self.kinds, self.accesses, self.depths, self.parts, strict=True))
        for (kind, access, depth, part), count in alike.items():
            found[Group(kind, access.store, access.target.bytes, depth, part > 0)] += count
        return found

    def traffic(self, kind: AccessClass | None = None, *, own: bool = False) -> Traffic:
        """Those of one class (``None``: all), ``own``: in the function itself only. No loop is looked for."""
        columns = zip(self.accesses, self.kinds, self.parts, strict=True)
        return _traffic([access for access, which, part in columns if kind in (None, which) and not (own and part)])

    def frame(self, size: int | None) -> Traffic:
        """The slots of the function's own frame of ``size`` bytes; all slots where that is not known."""
        own = [
            access
            for access, part in zip(self.accesses, self.parts, strict=True)
            if not part and access.target.slot is not None and (size is None or access.target.slot < size)
        ]
        return _traffic(own)


def _traffic(accesses: Sequence[Access]) -> Traffic:
    stored = [access.target.bytes for access in accesses if access.store]
    loaded = [access.target.bytes for access in accesses if not access.store]
    return Traffic(stores=len(stored), loads=len(loaded), store_bytes=sum(stored), load_bytes=sum(loaded))
