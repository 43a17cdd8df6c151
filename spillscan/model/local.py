"""Accesses to local memory that machine code holds, each with the reason for its class, and where in the source they
come from.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from msgspec import Struct

from spillscan.model.usage import Role

AccessClass = Literal["spill", "array", "frame", "helper", "unknown"]
"""Spill slot; local array; callee frame, stack argument or saved register; whatever the code does that ptxas brings
along (division, square root), of which no log counts a spill; not known."""

Evidence = Literal["annotation", "last-use+log", "log", "last-use", "none"]
"""Why the spill class is what it is, best first: ptxas's own annotation; the last-use rule, and the build log counts
the same bytes; the slots from one offset on, whose bytes are exactly those that the build log counts; the last-use rule
alone; nothing to judge: no access to local memory."""

AddressForm = Literal["stack", "register", "uniform", "register+uniform", "absolute", "unknown"]
"""``[R1+0x8]``; ``[R3+0x8]``; ``[UR4]``; ``[R3+UR4]``; ``[0x8]``; anything else."""

FlowKind = Literal["followed", "guessed", "none"]
"""How sure loop depths are: every branch has its target; some targets are inferred (indirect branches, Maxwell's SYNC
and BRK); no control flow was read."""


class SourceLine(Struct, frozen=True, kw_only=True):
    """A place in the source, with the calls that were inlined to get there."""

    file: str
    """As the debug information names it."""
    line: int
    """1-based."""
    inlined_at: SourceLine | None = None
    """Where the function that holds this line was inlined; ``None`` at the outermost."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_PER_LEVEL, _DEEPEST = 10, 9
_MOST_LINES = 100


def weight(size: int, depth: int | None) -> int:
    """What ``size`` bytes of an access to local memory weigh under so many loops: ten times as much for each of up to
    nine, as register allocators weigh spills (Muchnick, "Advanced Compiler Design and Implementation", 16.3). Where
    the depth is not known, as outside of loops."""
    factor: int = _PER_LEVEL ** min(depth or 0, _DEEPEST)
    return size * factor


class WeighedLine(Struct, frozen=True, kw_only=True):
    """The accesses to local memory of one class that come from one place in the source."""

    kind: AccessClass
    """What they are."""
    source: SourceLine
    """The line, and the calls that it was inlined through."""
    accesses: int
    """Instructions."""
    bytes: int
    """That they move per thread, each counted once."""
    depth: int | None
    """Natural loops around the innermost; ``None`` where control flow cannot be followed."""
    weight: int
    """Bytes, ten times as many for each loop around them."""
    share: float
    """Of the weight of all accesses of this class, those without a line included: 0 to 1."""


class LocalAccess(Struct, frozen=True, kw_only=True):
    """One STL or LDL instruction."""

    address: int
    """Byte offset in the function's code."""
    line: int | None
    """1-based line of the dump; ``None`` in JSON."""
    store: bool
    """STL, else LDL."""
    bytes: int
    """Width of the access per thread, whatever its predicate."""
    form: AddressForm
    """What the address is made of."""
    slot: int | None
    """Byte offset from the stack pointer R1; ``None`` for any other form."""
    last_use: bool
    """``LDL.LU``: ptxas puts it on refills only."""
    predicated: bool
    """Guarded by a predicate."""
    kind: AccessClass
    """What it is."""
    depth: int | None
    """Natural loops around it; ``None`` where control flow cannot be followed."""
    part: int
    """0 in the function itself; n in the n-th callee that the listing holds after it."""
    source: SourceLine | None = None
    """Where it comes from; ``None`` without line information."""


class Traffic(Struct, frozen=True, kw_only=True):
    """Number and bytes of one group of accesses, counted once per instruction, loops or not."""

    stores: int = 0
    """STL instructions."""
    loads: int = 0
    """LDL instructions."""
    store_bytes: int = 0
    """Bytes per thread that the stores write."""
    load_bytes: int = 0
    """Bytes per thread that the loads read."""

    @property
    def accesses(self) -> int:
        """Stores plus loads."""
        return self.stores + self.loads

    @property
    def bytes(self) -> int:
        """Bytes stored plus bytes loaded."""
        return self.store_bytes + self.load_bytes

    @property
    def pair(self) -> tuple[int, int]:
        """(bytes stored, bytes loaded)."""
        return self.store_bytes, self.load_bytes

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            stores=self.stores + other.stores,
            loads=self.loads + other.loads,
            store_bytes=self.store_bytes + other.store_bytes,
            load_bytes=self.load_bytes + other.load_bytes,
        )


_NOTHING = Traffic()


class Group(NamedTuple):
    """Accesses that no figure distinguishes."""

    kind: AccessClass
    store: bool
    bytes: int
    depth: int | None
    inner: bool
    """In a callee that the listing holds after the function."""


class Grouped(Sequence[LocalAccess]):
    """Accesses that can be counted without being made."""

    __slots__ = ()

    @property
    @abstractmethod
    def has_sources(self) -> bool:
        """Whether any of them has a source line."""

    @abstractmethod
    def groups(self) -> Counter[Group]:
        """How many there are of each group."""

    @abstractmethod
    def traffic(self, kind: AccessClass | None = None, *, own: bool = False) -> Traffic:
        """Those of one class (``None``: all), ``own``: in the function itself only. No loop is looked for."""


def _sum(groups: Iterable[tuple[Group, int]]) -> Traffic:
    stores = loads = store_bytes = load_bytes = 0
    for group, count in groups:
        if group.store:
            stores += count
            store_bytes += count * group.bytes
        else:
            loads += count
            load_bytes += count * group.bytes
    return Traffic(stores=stores, loads=loads, store_bytes=store_bytes, load_bytes=load_bytes)


class LocalTraffic(Struct, frozen=True, kw_only=True, dict=True):
    """Every access to local memory of one function. The classes always add up to the total."""

    accesses: Sequence[LocalAccess] = ()
    """In the order of their addresses; empty where a snapshot was read."""
    kept: tuple[tuple[Group, int], ...] | None = None
    """What a snapshot keeps of the accesses: how many there are of each group; ``None`` where a dump was read."""
    kept_lines: tuple[WeighedLine, ...] = ()
    """What a snapshot keeps of their source lines."""
    evidence: Evidence = "none"
    """What the classes rest on."""
    flow: FlowKind = "none"
    """How sure the loop depths are."""

    frame: Traffic | None = None
    """Of a device function: what ptxas prints as its spills, saves of the caller's registers included; ``None`` for an
    entry, and where other slots of the frame cannot be held apart from these."""
    cumulative: Traffic | None = None
    """Of an entry: what ptxas prints as its spills and those of its callees in the same listing together; ``None``
    without callees, where that is not known, and where a snapshot was read."""

    @cached_property
    def groups(self) -> Counter[Group]:
        """How many accesses there are of each group."""
        if self.kept is not None:
            return Counter(dict(self.kept))
        if isinstance(self.accesses, Grouped):
            return self.accesses.groups()
        return Counter(Group(a.kind, a.store, a.bytes, a.depth, a.part > 0) for a in self.accesses)

    @property
    def total(self) -> Traffic:
        """All accesses."""
        return self._traffic()

    @property
    def spill(self) -> Traffic:
        """The spill class, callees in the same listing included."""
        return self.of("spill")

    @property
    def own_spill(self) -> Traffic:
        """The spill class of the function itself: what ptxas prints on the function's own line."""
        return self._traffic("spill", own=True)

    def spills(self, role: Role) -> Traffic | None:
        """What ptxas prints as the spills of the function itself; ``None`` where that is not known."""
        if role == "function":
            return self.frame if self.total.accesses else Traffic()
        return None if self._traffic("unknown", own=True).accesses else self.own_spill

    @property
    def callees(self) -> bool:
        """Whether callees in the listing access local memory, ptxas's own helpers apart."""
        return self._inner() > self._inner("helper")

    @cached_property
    def tree(self) -> Traffic | None:
        """The same of an entry and all callees that its listing holds; ``None`` without callees that use local memory,
        and where it is not known: what by the rules is no spill may be a register that a callee saves."""
        if self.cumulative is not None or not self.callees:
            return self.cumulative
        silent = self._inner("spill") + self._inner("helper")
        return None if self.of("unknown").accesses or self._inner() > silent else self.spill

    def bounds(self, role: Role, *, own: bool = False) -> tuple[Traffic, Traffic]:
        """The least and the most that ptxas may print as spills of the function and of callees in its listing together,
        or of the function itself (``own``)."""
        known = self.spills(role) if own or not self.callees else self.tree
        if known is not None:
            return known, known
        least, doubtful = self._traffic("spill", own=own), self._traffic("unknown", own=own)
        if role == "function" or (self._inner("frame") and not own):
            doubtful += self._traffic("frame", own=own)
        return least, least + doubtful

    def _inner(self, kind: AccessClass | None = None) -> int:
        """Accesses of callees in the listing."""
        return self._traffic(kind).accesses - self._traffic(kind, own=True).accesses

    def of(self, kind: AccessClass) -> Traffic:
        """One class."""
        return self._traffic(kind)

    @cached_property
    def _known(self) -> dict[tuple[AccessClass | None, bool], Traffic]:
        return {}

    def _traffic(self, kind: AccessClass | None = None, *, own: bool = False) -> Traffic:
        if not self.kept and not len(self.accesses):
            return _NOTHING
        key = kind, own
        if key not in self._known:
            self._known[key] = self._summed(kind, own=own)
        return self._known[key]

    def _summed(self, kind: AccessClass | None, *, own: bool) -> Traffic:
        if self.kept is None and isinstance(self.accesses, Grouped):
            return self.accesses.traffic(kind, own=own)
        wanted = ((group, count) for group, count in self.groups.items() if kind in (None, group.kind))
        return _sum((group, count) for group, count in wanted if not (own and group.inner))

    @cached_property
    def by_loop_depth(self) -> dict[int | None, Counter[AccessClass]]:
        """Accesses of each class by loop depth, innermost first; ``None`` (unknown) last."""
        found: dict[int | None, Counter[AccessClass]] = {}
        for group, count in self.groups.items():
            found.setdefault(group.depth, Counter())[group.kind] += count
        return dict(sorted(found.items(), key=lambda item: -1 if item[0] is None else item[0], reverse=True))

    @cached_property
    def lines(self) -> tuple[WeighedLine, ...]:
        """The places that accesses come from, those of greatest weight first, no more than a hundred; empty without
        line information."""
        if self.kept is not None:
            return self.kept_lines
        if isinstance(self.accesses, Grouped) and not self.accesses.has_sources:
            return ()
        total: Counter[AccessClass] = Counter()
        found: dict[tuple[AccessClass, SourceLine], list[LocalAccess]] = {}
        for access in self.accesses:
            total[access.kind] += weight(access.bytes, access.depth)
            if access.source is not None:
                found.setdefault((access.kind, access.source), []).append(access)
        lines = []
        for (kind, source), group in found.items():
            heavy = sum(weight(access.bytes, access.depth) for access in group)
            lines.append(
                WeighedLine(
                    kind=kind,
                    source=source,
                    accesses=len(group),
                    bytes=sum(access.bytes for access in group),
                    depth=max((access.depth for access in group if access.depth is not None), default=None),
                    weight=heavy,
                    share=heavy / total[kind],
                )
            )
        return tuple(sorted(lines, key=lambda line: (-line.weight, str(line.source)))[:_MOST_LINES])

    @property
    def spills_in_loops(self) -> dict[int, int]:
        """Spill stores and loads inside loops by depth, innermost first."""
        return {depth: kinds["spill"] for depth, kinds in self.by_loop_depth.items() if depth and kinds["spill"]}

    @property
    def spills_placed(self) -> bool:
        """Whether each access in a loop is known to be a spill or not, and each spill to be in a loop or not."""
        return not any(
            kinds["spill"] + kinds["unknown"] if depth is None else depth and kinds["unknown"]
            for depth, kinds in self.by_loop_depth.items()
        )


NO_TRAFFIC = LocalTraffic()
