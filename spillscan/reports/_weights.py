"""What files weigh, in groups; and which of their code stands in them several times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from spillscan.binary.weight import Copy, Key, Measure, Weight
from spillscan.names import demangle, namespace, natural
from spillscan.naming import Names

NO_KERNEL, HOST = "(no kernel)", "host and packing"


class Weighed(NamedTuple):
    """One input."""

    name: str
    """As the user knows it."""
    weight: Weight
    """What it consists of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Bytes that have something in common."""

    label: str
    """What."""
    stored_bytes: int
    """As they stand in the file."""
    bytes: int
    """Unpacked."""
    groups: Sequence[Group] = ()
    """The same by what comes next, most stored bytes first."""

    def rows(self, above: tuple[str, ...] = ()) -> Iterator[tuple[str | int, ...]]:
        """The groups without groups, each behind the labels of all groups around it."""
        path = (*above, self.label)
        if not self.groups:
            yield *path, self.stored_bytes, self.bytes
        for group in self.groups:
            yield from group.rows(path)

    @property
    def document(self) -> dict[str, Any]:
        """For JSON."""
        inner = {"groups": [group.document for group in self.groups]} if self.groups else {}
        return {"label": self.label, "stored_bytes": self.stored_bytes, "bytes": self.bytes, **inner}


_Part = tuple[str, Key, Measure]


def tree(weighed: Sequence[Weighed], levels: Sequence[str]) -> Group:
    """All bytes, in groups of groups."""
    parts = [(each.name, key, measure) for each in weighed for key, measure in each.weight.sums.items()]
    names = Names(dict.fromkeys(key.symbol for _, key, _ in parts if key.symbol))
    return _group("total", parts, levels, _labels(names))


def _group(
    label: str, parts: Sequence[_Part], levels: Sequence[str], labels: Mapping[str, Callable[[str, Key], str]]
) -> Group:
    inner: list[Group] = []
    if levels:
        found: defaultdict[str, list[_Part]] = defaultdict(list)
        label_of = labels[levels[0]]
        for part in parts:
            found[label_of(part[0], part[1])].append(part)
        inner = [_group(each, members, levels[1:], labels) for each, members in found.items()]
        inner.sort(key=lambda group: (-group.stored_bytes, -group.bytes, natural(group.label)))
    return Group(
        label=label,
        stored_bytes=sum(measure.stored for *_, measure in parts),
        bytes=sum(measure.plain for *_, measure in parts),
        groups=inner,
    )


def _labels(names: Names) -> dict[str, Callable[[str, Key], str]]:
    def of_kernel(label: Callable[[str], str]) -> Callable[[str, Key], str]:
        known = cache(label)
        return lambda _, key: known(key.symbol) if key.symbol else NO_KERNEL if key.form else HOST

    return {
        "arch": lambda _, key: f"{key.arch} ({key.form})" if key.form not in ("", "SASS") else key.arch or HOST,
        "kind": lambda _, key: key.kind,
        "section": lambda _, key: key.section,
        "family": of_kernel(lambda symbol: names.family(symbol).base),
        "kernel": of_kernel(names.of),
        "namespace": of_kernel(lambda symbol: namespace(demangle(symbol))),
        "object": lambda _, key: key.unit or "(not known)",
        "member": lambda name, key: key.member or name,
        "file": lambda name, key: name,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """Code that stands in several places."""

    symbol: str
    """Of the first."""
    symbols: int
    """Different names that it has."""
    copies: int
    """Places where it stands."""
    objects: int
    """Different sources or objects among these."""
    archs: tuple[str, ...]
    """Architectures among these."""
    files: int
    """Inputs and archive members among these."""
    code_bytes: int
    """Of one copy, unpacked."""
    saved_bytes: int
    """Unpacked bytes of all copies but one."""
    saved_stored_bytes: int
    """The same as they are stored, by their share of what is compressed together; the largest copy stays."""


def duplicates(weighed: Sequence[Weighed]) -> list[Duplicate]:
    """Equal code, what costs most first. Whether one copy can serve for all is for the builder to judge: each
    architecture needs its own."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Two architectures, and how much of their code is equal."""

    archs: tuple[str, str]
    """Which."""
    functions: int
    """Functions that stand in both, by file and symbol."""
    equal: int
    """Of them, those whose code is equal."""
    equal_bytes: int
    """Their code, unpacked, once."""

    @property
    def identical(self) -> bool:
        """Whether that is all of it."""
        return self.equal == self.functions


def alike(weighed: Sequence[Weighed]) -> list[Alike]:
    """Every two architectures that have equal code, most of it first."""
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


def unexplained(weighed: Iterable[Weighed]) -> list[dict[str, Any]]:
    """What nothing explains, by where it stands."""
    return [
        {"file": each.name, "member": gap.member, "offset": gap.offset, "bytes": gap.bytes}
        for each in weighed
        for gap in each.weight.gaps
    ]
