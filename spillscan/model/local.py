"""Local-memory accesses in machine code, each with its class and source line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model.usage import Role

AccessClass = Literal["spill", "array", "frame", "helper", "unknown"]
"""Classes of local-memory accesses.

Spill slot; local array; callee frame, stack argument or saved register; helper code that ptxas adds (division, square
root), whose spills no log counts; unknown.
"""

Evidence = Literal["annotation", "last-use", "none"]
"""Evidence for the spill class, best first.

Annotation by ptxas; the last-use rule; none, without accesses to local memory.
"""

AddressForm = Literal["stack", "register", "uniform", "register+uniform", "absolute", "unknown"]
"""Forms of addresses: ``[R1+0x8]``; ``[R3+0x8]``; ``[UR4]``; ``[R3+UR4]``; ``[0x8]``; anything else."""

FlowKind = Literal["followed", "guessed", "none"]
"""Certainty of loop depths.

Every branch target is known; some targets are inferred (indirect branches, Maxwell's SYNC and BRK); no control flow was
read.
"""


class SourceLine(Struct, frozen=True, kw_only=True):
    """Line in the source, with the calls that it was inlined through."""

    file: str
    """File as named in the debug information."""
    line: int
    """1-based."""
    inlined_at: SourceLine | None = None
    """Call at which this line's function was inlined; ``None`` at the outermost level."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


_PER_LEVEL, _DEEPEST = 10, 9
_MOST_LINES = 100


def cost(size: int, depth: int | None) -> int:
    """Spill cost of ``size`` accessed bytes at loop depth ``depth``.

    Bytes × 10 per loop, up to nine loops, as in register allocators (Muchnick, "Advanced Compiler Design and
    Implementation", 16.3). An unknown depth counts as outside of loops.
    """
    factor: int = _PER_LEVEL ** min(depth or 0, _DEEPEST)
    return size * factor


class CostLine(Struct, frozen=True, kw_only=True):
    """Local-memory accesses of one class from one source line."""

    kind: AccessClass
    """Class of the accesses."""
    source: SourceLine
    """Source line, with the calls that it was inlined through."""
    accesses: int
    """Number of instructions."""
    bytes: int
    """Bytes accessed per thread, each instruction counted once."""
    depth: int | None
    """Natural loops around the innermost access; ``None`` if control flow is unknown."""
    cost: int
    """Spill cost: bytes × 10 per enclosing loop."""
    share: float
    """Share of the spill cost of all accesses of this class, including those without a line: 0 to 1."""


class LocalAccess(Struct, frozen=True):
    """One STL or LDL instruction."""

    address: int
    """Byte offset in the function's code."""
    line: int | None
    """1-based line of the disassembly; ``None`` in JSON."""
    store: bool
    """Whether it is STL, else LDL."""
    bytes: int
    """Width of the access per thread, regardless of its predicate."""
    form: AddressForm
    """Form of the address."""
    slot: int | None
    """Byte offset from the stack pointer R1; ``None`` for any other form."""
    last_use: bool
    """Whether it is ``LDL.LU``, which ptxas uses only for refills."""
    predicated: bool
    """Whether it is guarded by a predicate."""
    kind: AccessClass
    """Class of the access."""
    depth: int | None
    """Natural loops around it; ``None`` if control flow is unknown."""
    part: int
    """0 in the function itself; n in the n-th callee after it in the listing."""
    source: SourceLine | None = None
    """Source line; ``None`` without line information."""


class Traffic(Struct, frozen=True, kw_only=True):
    """Number and bytes of a group of accesses, counted once per instruction, regardless of loops."""

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


class Group(NamedTuple):
    """Accesses with equal properties."""

    kind: AccessClass
    store: bool
    bytes: int
    depth: int | None
    inner: bool
    """Whether they are in a callee, after the function in the listing."""


class _Moving(Protocol):
    @property
    def store(self) -> bool: ...

    @property
    def bytes(self) -> int: ...


def traffic(counts: Iterable[tuple[_Moving, int]]) -> Traffic:
    """Traffic of accesses, or of groups of them, given with the count of each."""
    stores = loads = store_bytes = load_bytes = 0
    for access, count in counts:
        if access.store:
            stores += count
            store_bytes += count * access.bytes
        else:
            loads += count
            load_bytes += count * access.bytes
    return Traffic(stores=stores, loads=loads, store_bytes=store_bytes, load_bytes=load_bytes)


class LocalTraffic(Struct, frozen=True, kw_only=True, dict=True):
    """All local-memory accesses of one function. The classes always add up to the total."""

    accesses: Sequence[LocalAccess] = ()
    """Accesses in address order; empty for a snapshot."""
    kept: tuple[tuple[Group, int], ...] | None = None
    """Number of accesses in each group, as kept by a snapshot; ``None`` if the code was read."""
    kept_lines: tuple[CostLine, ...] = ()
    """Source lines of the accesses, as kept by a snapshot."""
    evidence: Evidence = "none"
    """Evidence for the classes."""
    flow: FlowKind = "none"
    """Certainty of the loop depths."""

    frame: Traffic | None = None
    """For a device function: its spills as ptxas prints them, including saves of the caller's registers.

    ``None`` for an entry, and if other slots of the frame cannot be told apart from these.
    """
    cumulative: Traffic | None = None
    """For an entry: its spills with those of its callees in the same listing, as ptxas prints them.

    ``None`` without callees, if unknown, and for a snapshot.
    """

    @cached_property
    def groups(self) -> Counter[Group]:
        """Number of accesses in each group."""
        if self.kept is not None:
            return Counter(dict(self.kept))
        counts = Counter((a.kind, a.store, a.bytes, a.depth, a.part > 0) for a in self.accesses)
        return Counter({Group(*group): count for group, count in counts.items()})

    @property
    def total(self) -> Traffic:
        """All accesses."""
        return self.of()

    @property
    def own(self) -> LocalTraffic:
        """Accesses of the function itself, without callees; their lines are unknown in a snapshot of both. Not cached:
        it may be the same object, and records have no cycles."""
        if not any(group.inner for group in self.groups):
            return self
        kept = self.kept and tuple(each for each in self.kept if not each[0].inner)
        accesses = tuple(each for each in self.accesses if not each.part)
        return replace(self, accesses=accesses, kept=kept, kept_lines=(), cumulative=None)

    @property
    def spill(self) -> Traffic:
        """Accesses of the spill class, including callees in the same listing."""
        return self.of("spill")

    def spills(self, role: Role) -> Traffic | None:
        """Spills of the function itself as ptxas prints them; ``None`` if unknown."""
        if role == "function":
            return self.frame if self.total.accesses else Traffic()
        own = self.own
        return None if own.doubtful else own.spill

    @property
    def callees(self) -> bool:
        """Whether callees in the listing access local memory, ptxas's own helpers excluded."""
        return self.inner() > self.inner("helper")

    @cached_property
    def tree(self) -> Traffic | None:
        """Spills of an entry with all callees in its listing, as ptxas prints them.
        ``None`` without callees that use local memory, and if unknown: what is no spill by the rules may be a register
        that a callee saves.
        """
        if self.cumulative is not None or not self.callees:
            return self.cumulative
        silent = self.inner("spill") + self.inner("helper")
        return None if self.doubtful or self.inner() > silent else self.spill

    def bounds(self, role: Role) -> tuple[Traffic, Traffic]:
        """Lower and upper bound of the spills that ptxas may print for the function with callees in its listing."""
        known = self.tree if self.callees else self.spills(role)
        if known is not None:
            return known, known
        doubtful = traffic(self.doubtful)
        if role == "function" or self.inner("frame"):
            doubtful += self.of("frame")
        return self.spill, self.spill + doubtful

    def inner(self, kind: AccessClass | None = None) -> int:
        """Number of accesses by callees in the listing, of one class or all."""
        return sum(number for group, number in self.groups.items() if group.inner and kind in (None, group.kind))

    def of(self, kind: AccessClass | None = None) -> Traffic:
        """Accesses of one class, or all."""
        return traffic(each for each in self.groups.items() if kind in (None, each[0].kind))

    @property
    def doubtful(self) -> list[tuple[Group, int]]:
        """Number of accesses, by group, that may be spills: of unknown class and, if ptxas marks spills, in callees
        whose spills are unknown, since helpers may have no names."""
        marked, uncounted = self.evidence == "annotation", self.cumulative is None
        unknown = ((group, number) for group, number in self.groups.items() if group.kind == "unknown")
        return [(group, number) for group, number in unknown if not marked or (group.inner and uncounted)]

    @cached_property
    def by_loop_depth(self) -> dict[int | None, Counter[AccessClass]]:
        """Number of accesses of each class by loop depth, innermost first; ``None`` (unknown) last."""
        found: dict[int | None, Counter[AccessClass]] = {}
        for group, count in self.groups.items():
            found.setdefault(group.depth, Counter())[group.kind] += count
        return dict(sorted(found.items(), key=lambda item: -1 if item[0] is None else item[0], reverse=True))

    @cached_property
    def lines(self) -> tuple[CostLine, ...]:
        """Source lines of the accesses, the costliest first, at most a hundred; empty without line information."""
        if self.kept is not None:
            return self.kept_lines
        total: Counter[AccessClass] = Counter()
        found: dict[tuple[AccessClass, SourceLine], list[LocalAccess]] = {}
        for access in self.accesses:
            total[access.kind] += cost(access.bytes, access.depth)
            if access.source is not None:
                found.setdefault((access.kind, access.source), []).append(access)
        lines = []
        for (kind, source), group in found.items():
            line_cost = sum(cost(access.bytes, access.depth) for access in group)
            lines.append(
                CostLine(
                    kind=kind,
                    source=source,
                    accesses=len(group),
                    bytes=sum(access.bytes for access in group),
                    depth=max((access.depth for access in group if access.depth is not None), default=None),
                    cost=line_cost,
                    share=line_cost / total[kind],
                )
            )
        return tuple(sorted(lines, key=lambda line: (-line.cost, str(line.source)))[:_MOST_LINES])

    @property
    def spills_in_loops(self) -> dict[int, int]:
        """Number of spill stores and loads inside loops by depth, innermost first."""
        return {depth: kinds["spill"] for depth, kinds in self.by_loop_depth.items() if depth and kinds["spill"]}

    @property
    def spills_placed(self) -> bool:
        """Whether no access in a loop is a doubtful spill, and for every spill it is known whether it is in a loop."""
        unplaced = any(group.depth is None for group in self.groups if group.kind == "spill")
        return not unplaced and not any(group.depth != 0 for group, _ in self.doubtful)


NO_TRAFFIC = LocalTraffic()
