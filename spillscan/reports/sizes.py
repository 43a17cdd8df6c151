"""Sizes of binaries: all bytes in nested groups, and duplicate code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import PurePath
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins

from spillscan.builds.coverage import Archs
from spillscan.model.symbols import demangle, namespace, natural
from spillscan.naming import Names
from spillscan.naming.libraries import counterparts
from spillscan.output.nouns import size
from spillscan.output.terminal import Style, table
from spillscan.reading.binary.size_accounting import Copy, Key, Sizes
from spillscan.reports.page.document import STATIC, document, head

HOST, NO_KERNEL = "host and packing", "(no kernel)"


class SizedFile(NamedTuple):
    """One input, with its bytes by kind."""

    name: str
    """Name that the user gave."""
    sizes: Sizes
    """Bytes by kind, as counted by :func:`~spillscan.reading.binary.size_accounting.sizes_of`."""


class SizeGroup(Struct, frozen=True, omit_defaults=True):
    """Bytes with a common property."""

    label: str
    """Common property: an architecture, a file, a family of kernels."""
    stored_bytes: int
    """Bytes in the files."""
    bytes: int
    """Bytes when unpacked."""
    base_stored_bytes: int | None = None
    """Bytes in the older files; ``None`` without any."""
    base_bytes: int | None = None
    """Bytes of the older files when unpacked."""
    groups: tuple[SizeGroup, ...] = ()
    """Parts by the next level, the largest first; with older inputs, the largest change first."""

    @property
    def growth(self) -> tuple[int, int]:
        """Growth of stored and unpacked bytes; without older inputs, the bytes."""
        return self.stored_bytes - (self.base_stored_bytes or 0), self.bytes - (self.base_bytes or 0)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Innermost groups, each with the labels of all groups around it."""
        if not self.groups:
            base = () if self.base_bytes is None else (self.base_stored_bytes, self.base_bytes)
            yield self.label, self.stored_bytes, self.bytes, *base
        for group in self.groups:
            yield from ((self.label, *row) for row in group.rows())


def tree(files: Sequence[SizedFile], levels: Sequence[str], base: Sequence[SizedFile] = ()) -> SizeGroup:
    """All bytes in nested groups, with those of older inputs, which have the names of their counterparts."""
    names = Names(dict.fromkeys(key.symbol for each in (*files, *base) for key in each.sizes.sums if key.symbol))
    wanted = [_labels(names)[level] for level in levels]
    inside = ({each.name: {key.member for key in each.sizes.sums} for each in inputs} for inputs in (base, files))
    renamed = counterparts(*inside)
    sums: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for at, inputs in ((0, files), (2, base)):
        for each in inputs:
            for key, measure in each.sizes.sums.items():
                name, member, unit = renamed(each.name, key.member, key.unit)
                part = sums[tuple(label(name, key._replace(member=member, unit=unit)) for label in wanted)]
                part[at] += measure.stored
                part[at + 1] += measure.plain
    return _group("total", list(sums.items()), 0, compared=bool(base))


_Label = Callable[[str, Key], str]


def _labels(names: Names) -> dict[str, _Label]:
    """Functions that give the group of an input's bytes, by level."""

    def of_kernel(label: Callable[[str], str]) -> _Label:
        return lambda _, key: label(key.symbol) if key.symbol else NO_KERNEL if key.form else HOST

    return {
        "arch": lambda _, key: f"{key.arch} ({key.form})" if key.form not in ("", "SASS") else key.arch or HOST,
        "kind": lambda _, key: key.kind,
        "section": lambda _, key: key.section,
        "family": of_kernel(cache(names.base)),
        "kernel": of_kernel(cache(names.of)),
        "namespace": of_kernel(cache(lambda symbol: namespace(demangle(symbol)))),
        "object": lambda _, key: key.unit or "(unknown)",
        "member": lambda name, key: key.member or PurePath(name).name,
        "file": lambda name, key: name,
    }


_Part = tuple[tuple[str, ...], list[int]]
"""Labels at all levels, and bytes: stored, unpacked, and both of older inputs."""


def _group(label: str, parts: Sequence[_Part], depth: int, *, compared: bool) -> SizeGroup:
    inner: defaultdict[str, list[_Part]] = defaultdict(list)
    for part in parts:
        if depth < len(part[0]):
            inner[part[0][depth]].append(part)
    groups = [_group(each, several, depth + 1, compared=compared) for each, several in inner.items()]
    groups.sort(key=lambda each: (*(-abs(value) for value in each.growth), natural(each.label)))
    stored, unpacked, *base = (sum(sizes[at] for _, sizes in parts) for at in range(4))
    old_stored, old_unpacked = base if compared else (None, None)
    return SizeGroup(label, stored, unpacked, old_stored, old_unpacked, tuple(groups))


# ---- forms of the groups ------------------------------------------------------------------------------------------


def lines(whole: SizeGroup, most: int | None, style: Style) -> Iterator[str]:
    """Table of the sums with their changes or shares; ``most``: subgroups shown of each group."""
    compared = whole.base_bytes is not None
    heads = ("part", "stored", "change", "unpacked", "change") if compared else ("part", "stored", "", "unpacked")
    yield from table(heads, [(cells, "") for cells in _rows(whole, whole, 0, most)], style, ("part",))


def _rows(group: SizeGroup, whole: SizeGroup, depth: int, most: int | None) -> Iterator[list[str]]:
    yield _cells("  " * depth + group.label, [group], whole)
    inner = group.groups
    if len(inner) == 1 and (inner[0].label in group.label or group.label in inner[0].label):
        return
    for each in inner[:most]:
        yield from _rows(each, whole, depth + 1, most)
    if most is not None and (rest := inner[most:]):
        yield _cells(f"{'  ' * depth}  … {len(rest):,} more", rest, whole)


def _cells(label: str, several: Sequence[SizeGroup], whole: SizeGroup) -> list[str]:
    stored, unpacked = sum(each.stored_bytes for each in several), sum(each.bytes for each in several)
    if whole.base_bytes is None:
        return [label, size(stored), f"{100 * stored / (whole.stored_bytes or 1):.1f}%", size(unpacked)]
    grown = [size(sum(each.growth[at] for each in several), "+") for at in (0, 1)]
    return [label, size(stored), grown[0], size(unpacked), grown[1]]


def records(whole: SizeGroup, levels: Sequence[str]) -> Iterator[Sequence[Any]]:
    """CSV records, heads first."""
    base = () if whole.base_bytes is None else ("base_stored_bytes", "base_bytes")
    yield *levels, "stored_bytes", "bytes", *base
    yield from (row[1:] for row in whole.rows())


def page(whole: SizeGroup, title: str) -> Iterator[str]:
    """Yield a page with a treemap in pieces."""
    payload = {**head(title, "size", {"size": "Size"}), "tree": to_builtins(whole)}
    return document(title, payload, ("treemap", "size"), lines(whole, STATIC.rows, STATIC))


# ---- duplicate code -----------------------------------------------------------------------------------------------


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


def duplicates(files: Sequence[SizedFile]) -> list[Duplicate]:
    """Equal code, the most wasted bytes first.

    Whether one copy can serve for all is up to the developer: each architecture needs its own.
    """
    groups: defaultdict[str, list[tuple[str, Copy, int]]] = defaultdict(list)
    for each in files:
        for copy in each.sizes.copies:
            if copy.code_bytes:
                groups[copy.digest].append((each.name, copy, _stored(each.sizes, copy)))
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
        for members in groups.values()
        if len(members) > 1
    ]
    return sorted(same, key=lambda each: (-each.saved_bytes, each.symbol))


def _stored(sizes: Sizes, copy: Copy) -> int:
    measure = sizes.sums.get(copy.key._replace(section=".text"))
    return measure.stored * copy.code_bytes // measure.plain if measure is not None and measure.plain else 0


def archs(files: Iterable[SizedFile]) -> dict[str, Archs]:
    """Architectures that each file or archive member has functions or PTX for; empty for an input without any.

    A cubin may have no function: nvcc adds one for its default arch to a library that it links without ``-arch``.
    """
    by_file: dict[str, Archs] = {}
    for each in files:
        here: defaultdict[str, Archs] = defaultdict(Archs)
        for key in sorted(each.sizes.sums):
            name = f"{each.name} > {key.member}" if key.member else each.name
            if key.kind == "code":
                here[name].machine.add(key.arch)
            elif key.form == "PTX":
                here[name].portable.add(key.arch)
        by_file |= here or {each.name: Archs()}
    return by_file
