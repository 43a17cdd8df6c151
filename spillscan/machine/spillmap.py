"""The spill map of one function: its slots with their stores and reloads, in which loops, from which lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from spillscan.model.code import AccessClass, LocalAccess, SassFunction, SourceLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """All accesses to one place of local memory, or to the places that one kind of computed address reaches."""

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
        """Of its innermost access; -1 where no depth is known."""
        return max((a.depth for a in (*self.stores, *self.loads) if a.depth is not None), default=-1)


def slots(function: SassFunction) -> list[Slot]:
    """Every slot: spills first, innermost loops first, then by offset."""
    groups: dict[tuple[AccessClass, int, int | None, str], list[LocalAccess]] = {}
    for access in function.stats.local.accesses:
        key = (access.kind, access.part, access.slot, "" if access.slot is not None else access.form)
        groups.setdefault(key, []).append(access)
    found = [
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
    return sorted(found, key=lambda slot: (slot.kind != "spill", -slot.depth))


def sentences(function: SassFunction) -> Iterator[str]:
    """``48 spill loads at depth 2, gemm.cu:118``: worst first, a sentence for each depth, line and direction."""
    counts: Counter[tuple[int, bool, str]] = Counter()
    for group, count in function.stats.local.kept or ():
        if group.kind == "spill":
            counts[-1 if group.depth is None else group.depth, group.store, ""] += count
    for access in function.stats.local.accesses:
        if access.kind == "spill":
            depth = -1 if access.depth is None else access.depth
            counts[depth, access.store, where(access.source)] += 1
    for (depth, store, place), count in sorted(counts.items(), key=lambda item: (-item[0][0], -item[1], item[0][1:])):
        what = ("spill store" if store else "spill load") + "s" * (count > 1)
        nesting = f"at depth {depth}" if depth >= 0 else "at unknown depth"
        yield f"{count} {what} {nesting}" + (f", {place}" if place else "")


def where(source: SourceLine | None) -> str:
    """``gemm.cu:118, inlined at main.cu:9``; empty without line information."""
    if source is None:
        return ""
    text = f"{_base(source.file)}:{source.line}"
    caller = source.inlined_at
    while caller is not None:
        text += f", inlined at {_base(caller.file)}:{caller.line}"
        caller = caller.inlined_at
    return text


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
