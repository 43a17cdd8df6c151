"""Sizes of files: all bytes in nested groups, and duplicate code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from pathlib import PurePath
from typing import NamedTuple

from msgspec import Struct

from spillscan.builds.coverage import Archs
from spillscan.model.symbols import natural
from spillscan.naming import Names
from spillscan.reading.binary.size_accounting import Copy, Key, Weight
from spillscan.reports.size_groups import NO_KERNEL, Measure, Part, SizeGroup, of_kernels, whole

BYTES = (Measure("stored_bytes", "stored", bytes=True), Measure("bytes", "unpacked", bytes=True))
HOST = "host and packing"


class Weighed(NamedTuple):
    """One input, with its bytes by kind."""

    name: str
    """Name that the user gave."""
    weight: Weight
    """Bytes by kind, as counted by :func:`~spillscan.reading.binary.size_accounting.weigh`."""


_Label = Callable[[str, Key], str]


def tree(weighed: Sequence[Weighed], levels: Sequence[str], base: Sequence[Weighed] = ()) -> SizeGroup:
    """All bytes in nested groups, with those of older inputs if there are any."""
    inputs = [*((each, False) for each in weighed), *((each, True) for each in base)]
    labels = _labels(Names(dict.fromkeys(key.symbol for each, _ in inputs for key in each.weight.sums if key.symbol)))
    wanted = [labels[level] for level in levels]
    parts = (
        Part(tuple(label(each.name, key) for label in wanted), (measure.stored, measure.plain), old)
        for each, old in inputs
        for key, measure in each.weight.sums.items()
    )
    return whole(parts, BYTES, bool(base))


def _labels(names: Names) -> dict[str, _Label]:
    def of_kernel(label: Callable[[str], str]) -> _Label:
        return lambda _, key: label(key.symbol) if key.symbol else NO_KERNEL if key.form else HOST

    kernels = of_kernels(names)
    return {
        "arch": lambda _, key: f"{key.arch} ({key.form})" if key.form not in ("", "SASS") else key.arch or HOST,
        "kind": lambda _, key: key.kind,
        "section": lambda _, key: key.section,
        **{level: of_kernel(label) for level, label in kernels.items()},
        "object": lambda _, key: key.unit or "(not known)",
        "member": lambda name, key: key.member or PurePath(name).name,
        "file": lambda name, key: name,
    }


class Duplicate(Struct, frozen=True, kw_only=True):
    """Code that occurs in several places."""

    symbol: str
    """Symbol of the first copy."""
    symbols: int
    """Number of distinct symbols."""
    copies: int
    """Number of copies."""
    objects: int
    """Number of distinct sources or objects with a copy."""
    archs: tuple[str, ...]
    """Architectures with a copy."""
    files: int
    """Number of inputs and archive members with a copy."""
    code_bytes: int
    """Unpacked bytes of one copy."""
    saved_bytes: int
    """Unpacked bytes of all copies but one."""
    saved_stored_bytes: int
    """Stored bytes of all copies but the largest, by their share of what is compressed together."""


def duplicates(weighed: Sequence[Weighed]) -> list[Duplicate]:
    """Equal code, the most wasted bytes first.

    Whether one copy can serve for all is up to the developer: each architecture needs its own.
    """
    found: defaultdict[str, list[tuple[str, Copy, int]]] = defaultdict(list)
    for each in weighed:
        for copy in each.weight.copies:
            if copy.code_bytes:
                found[copy.digest].append((each.name, copy, _stored(each.weight, copy)))
    same = [
        Duplicate(
            symbol=members[0][1].key.symbol,
            symbols=len({copy.key.symbol for _, copy, _ in members}),
            copies=len(members),
            objects=len({copy.key.unit for _, copy, _ in members}),
            archs=tuple(sorted({copy.key.arch for _, copy, _ in members}, key=natural)),
            files=len({(name, copy.key.member) for name, copy, _ in members}),
            code_bytes=members[0][1].code_bytes,
            saved_bytes=sum(copy.code_bytes for _, copy, _ in members[1:]),
            saved_stored_bytes=sum(stored for *_, stored in members) - max(stored for *_, stored in members),
        )
        for members in found.values()
        if len(members) > 1
    ]
    return sorted(same, key=lambda each: (-each.saved_bytes, each.symbol))


def _stored(weight: Weight, copy: Copy) -> int:
    measure = weight.sums.get(copy.key._replace(section=".text"))
    return measure.stored * copy.code_bytes // measure.plain if measure is not None and measure.plain else 0


class Alike(Struct, frozen=True, kw_only=True):
    """Two architectures, and the amount of their equal code."""

    archs: tuple[str, str]
    """The two targets, the older first."""
    functions: int
    """Functions that both have, by file and symbol."""
    equal: int
    """Functions of these whose code is equal."""
    equal_bytes: int
    """Unpacked bytes of the equal code, counted once."""

    @property
    def identical(self) -> bool:
        """Whether all functions that both have are equal."""
        return self.equal == self.functions


def alike(weighed: Sequence[Weighed]) -> list[Alike]:
    """Pairs of architectures with equal code, most bytes first."""
    held: defaultdict[str, defaultdict[tuple[str, str, str], dict[str, int]]]
    held = defaultdict(lambda: defaultdict(dict))
    for each in weighed:
        for copy in each.weight.copies:
            held[copy.key.arch][each.name, copy.key.member, copy.key.symbol][copy.digest] = copy.code_bytes
    found = []
    for one, other in combinations(sorted(held, key=natural), 2):
        both = held[one].keys() & held[other].keys()
        equal = [place for place in both if held[one][place].keys() == held[other][place].keys()]
        if equal:
            size = sum(sum(held[one][place].values()) for place in equal)
            found.append(Alike(archs=(one, other), functions=len(both), equal=len(equal), equal_bytes=size))
    return sorted(found, key=lambda each: -each.equal_bytes)


def archs(weighed: Iterable[Weighed]) -> dict[str, Archs]:
    """Architectures that each file or archive member has code for; empty for an input without any."""
    found: dict[str, Archs] = {}
    for each in weighed:
        here: dict[str, Archs] = {}
        machine = {(key.member, key.arch) for key in each.weight.sums if key.form == "SASS"}
        portable = {(key.member, key.arch, key.section) for key in each.weight.sums if key.form == "PTX"}

        def held(member: str, here: dict[str, Archs] = here, name: str = each.name) -> Archs:
            return here.setdefault(f"{name} > {member}" if member else name, Archs())

        for member, arch in sorted(machine):
            held(member).machine.add(arch)
        for member, arch, section in sorted(portable):
            held(member).add_ptx(arch, section.partition(" ")[2] or None)
        found |= here or {each.name: Archs()}
    return found
