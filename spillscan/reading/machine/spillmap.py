"""Spill map of one function: its slots with stores and reloads, their loop depths and source lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

if TYPE_CHECKING:  # not loaded to read logs
    from spillscan.model.code import SassStats
    from spillscan.model.local import AccessClass, CostLine, LocalAccess, LocalTraffic, SourceLine


class Slot(Struct, frozen=True, kw_only=True):
    """All accesses to one slot of local memory, or by one form of computed address."""

    name: str
    """``R1+0x44``, or the form of the address."""
    kind: AccessClass
    """Class of its accesses."""
    stores: tuple[LocalAccess, ...]
    """In the order of their addresses."""
    loads: tuple[LocalAccess, ...]
    """In the order of their addresses."""

    @property
    def depth(self) -> int:
        """Loop depth of its innermost access; -1 if unknown."""
        return max((a.depth for a in (*self.stores, *self.loads) if a.depth is not None), default=-1)


def slots(local: LocalTraffic) -> list[Slot]:
    """Every slot: spills first, innermost loops first, then by offset."""
    groups: dict[tuple[AccessClass, int, int | None, str], list[LocalAccess]] = {}
    for access in local.accesses:
        key = (access.kind, access.part, access.slot, "" if access.slot is not None else access.form)
        groups.setdefault(key, []).append(access)
    result = [
        Slot(
            name=(f"R1+{offset:#x}" if offset is not None else form) + (f" (callee {part})" if part else ""),
            kind=kind,
            stores=tuple(access for access in accesses if access.store),
            loads=tuple(access for access in accesses if not access.store),
        )
        for (kind, part, offset, form), accesses in sorted(
            groups.items(), key=lambda item: (item[0][2] or 0, item[0][3])
        )
    ]
    return sorted(result, key=lambda slot: (slot.kind != "spill", -slot.depth))


def slot_numbers(numbered: Iterable[Slot]) -> dict[tuple[int, bool], int]:
    """Number of each access's slot, by the address of the access and whether it stores."""
    return {
        (access.address, access.store): number
        for number, slot in enumerate(numbered)
        for access in (*slot.stores, *slot.loads)
    }


def registers_of(registers: int | None, code: SassStats) -> str:
    """Registers of a kernel's warps: ``168 registers allocated``, or ``168 registers at launch, then 24, 240
    (setmaxnreg)``; empty if unknown."""
    if not registers or not code.setmaxnreg:
        return f"{registers} registers allocated" if registers else ""
    given = {role.registers for role in code.roles if role.address is not None}
    known = [str(each) for each in sorted(each for each in given if each is not None)]
    then = ", ".join(known + ["an unknown number"] * (not given or None in given))
    return f"{registers} registers at launch, then {then} (setmaxnreg)"


TOP = 3
"""Maximum number of lines listed."""


class Culprit(NamedTuple):
    """Source line, and its share of the cost of a class of accesses."""

    place: SourceLine
    """Source line; its callees may be inlined there."""
    inner: SourceLine
    """Costliest line inlined there, with the calls in between; the line itself if there is none."""
    share: float
    """Share of the cost of all accesses of the class: 0 to 1."""
    bytes: int
    """Bytes that its accesses move per thread, each counted once."""
    depth: int | None
    """Loop depth of the innermost access; ``None`` if unknown."""

    def __str__(self) -> str:
        """``softmax.cuh:118, inlined at flash.cu:38: 64 bytes at depth 2``."""
        depth = "unknown depth" if self.depth is None else f"depth {self.depth}"
        return f"{where(self.inner)}: {self.bytes:,} bytes at {'up to ' * bool(self.depth)}{depth}"


def culprits(
    local: LocalTraffic, kind: AccessClass = "spill", place_of: Callable[[SourceLine], SourceLine] = lambda line: line
) -> list[Culprit]:
    """Source lines of the accesses of one class, costliest first. ``place_of`` selects a line or one of the call sites
    that it was inlined at; accesses at the same place are summed."""
    groups: dict[tuple[str, int], list[CostLine]] = {}
    for line in local.lines:
        if line.kind == kind:
            place = place_of(line.source)
            groups.setdefault((place.file, place.line), []).append(line)
    result = [
        Culprit(
            place_of(lines[0].source),
            lines[0].source,
            fsum(line.share for line in lines),
            sum(line.bytes for line in lines),
            max((line.depth for line in lines if line.depth is not None), default=None),
        )
        for lines in groups.values()
    ]
    return sorted(result, key=lambda culprit: (-culprit.share, str(culprit.place)))


def share_text(share: float) -> str:
    """Share as a percentage, ``62%``; only 0 is shown as 0, and only all as 100."""
    if 0 < share <= 0.005:
        return "<1%"
    return f"{min(round(share * 100), 100 if share > 0.9999 else 99)}%"


def where(source: SourceLine | None) -> str:
    """Text for a source line: ``gemm.cu:118, inlined at main.cu:9``; empty without line information."""
    if source is None:
        return ""
    text = f"{base(source.file)}:{source.line}"
    caller = source.inlined_at
    while caller is not None:
        text += f", inlined at {base(caller.file)}:{caller.line}"
        caller = caller.inlined_at
    return text


def base(path: str) -> str:
    """File name of a path of either system."""
    return path.replace("\\", "/").rpartition("/")[2]
