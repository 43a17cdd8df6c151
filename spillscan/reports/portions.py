"""What is added up, in groups of groups, beside what it was before: bytes of files, time of compilations. Of files also
which of their code stands in them several times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

from spillscan.model.symbols import demangle, namespace, natural
from spillscan.naming import Names
from spillscan.occupancy.text import size
from spillscan.output.terminal import Style, table

if TYPE_CHECKING:
    from spillscan.builds.coverage import Archs
    from spillscan.reading.binary.size_accounting import Copy, Key, Weight

NO_KERNEL = "(no kernel)"


class Measure(NamedTuple):
    """One of the figures that are added up; groups are sorted by the first."""

    name: str
    """In JSON and CSV: ``stored_bytes``."""
    head: str
    """Above its column: ``stored``."""
    digits: int = 0
    """Behind the decimal point; of bytes none."""
    bytes: bool = False
    """Whether people read it as bytes, with their unit beside each."""

    def text(self, value: float, sign: str = "") -> str:
        """For people."""
        return size(round(value), sign) if self.bytes else f"{value:{sign},.{self.digits}f}"


class Part(NamedTuple):
    """What is in one group at each level."""

    labels: tuple[str, ...]
    """Of the groups, from the outermost in."""
    values: tuple[float, ...]
    """By measure."""
    old: bool
    """Whether it is of an older input."""


class Portion(Struct, frozen=True, kw_only=True):
    """Parts that have something in common."""

    label: str
    """What."""
    values: tuple[float, ...]
    """By measure."""
    before: tuple[float, ...] | None
    """The same in the older inputs; ``None`` where there are none."""
    portions: Sequence[Portion] = ()
    """The same by what comes next, the largest first; beside older inputs, what changed most."""

    @property
    def growth(self) -> tuple[float, ...]:
        """By how much it grew."""
        if self.before is None:
            return self.values
        return tuple(now - then for now, then in zip(self.values, self.before, strict=True))

    def rows(self, above: tuple[str, ...] = ()) -> Iterator[tuple[str | float, ...]]:
        """The portions without portions, each behind the labels of all around it."""
        path = (*above, self.label)
        if not self.portions:
            yield *path, *self.values, *(self.before or ())
        for portion in self.portions:
            yield from portion.rows(path)

    def document(self, measures: Sequence[Measure]) -> dict[str, Any]:
        """For JSON."""
        names = [each.name for each in measures]
        found: dict[str, Any] = {"label": self.label, **dict(zip(names, self.values, strict=True))}
        if self.before is not None:
            found |= {f"base_{name}": value for name, value in zip(names, self.before, strict=True)}
        if self.portions:
            found["groups"] = [portion.document(measures) for portion in self.portions]
        return found


def whole(parts: Iterable[Part], measures: Sequence[Measure], compared: bool, label: str = "total") -> Portion:
    """All parts; ``compared``: there are older inputs."""
    sums: dict[tuple[tuple[str, ...], bool], list[float]] = {}
    for part in parts:
        known = sums.get((part.labels, part.old))
        if known is None:
            sums[part.labels, part.old] = [*part.values]
        else:
            for at, value in enumerate(part.values):
                known[at] += value
    every = [Part(labels, tuple(values), old) for (labels, old), values in sums.items()]
    return _portion(label, every, 0, len(every[0].labels) if every else 0, (0,) * len(measures), compared)


def _portion(
    label: str, parts: Sequence[Part], depth: int, deepest: int, nothing: tuple[float, ...], compared: bool
) -> Portion:
    inner: list[Portion] = []
    if depth < deepest:
        found: defaultdict[str, list[Part]] = defaultdict(list)
        for part in parts:
            found[part.labels[depth]].append(part)
        inner = [_portion(each, several, depth + 1, deepest, nothing, compared) for each, several in found.items()]
        inner.sort(key=lambda each: (*(-abs(value) for value in each.growth), natural(each.label)))

    def total(old: bool) -> tuple[float, ...]:
        return tuple(map(sum, zip(*(part.values for part in parts if part.old is old), strict=True))) or nothing

    return Portion(label=label, values=total(False), before=total(True) if compared else None, portions=inner)


def of_kernels(names: Names) -> dict[str, Callable[[str], str]]:
    """What a symbol is grouped by, by level."""
    return {
        "family": cache(lambda symbol: names.family(symbol).base),
        "kernel": cache(names.of),
        "namespace": cache(lambda symbol: namespace(demangle(symbol))),
    }


def heads(levels: Sequence[str], measures: Sequence[Measure], compared: bool) -> tuple[str, ...]:
    """The columns of :meth:`Portion.rows`, without the first label."""
    names = [each.name for each in measures]
    return (*levels, *names, *(f"base_{name}" for name in names if compared))


def lines(roots: Sequence[Portion], measures: Sequence[Measure], most: int | None, style: Style) -> Iterator[str]:
    """Trees as a table: of each measure its sum, and its change, else of the first the share of its root."""
    compared = any(root.before is not None for root in roots)

    def cells(label: str, several: Sequence[Portion], root: Portion) -> tuple[list[str], str]:
        found = [label]
        for at, measure in enumerate(measures):
            value = sum(each.values[at] for each in several)
            found.append(measure.text(value))
            if compared:
                found.append(measure.text(sum(each.growth[at] for each in several), "+"))
            elif at == 0:
                found.append(f"{100 * value / (root.values[0] or 1):.1f}%")
        return found, ""

    def rows(portion: Portion, depth: int, root: Portion) -> Iterator[tuple[list[str], str]]:
        yield cells("  " * depth + portion.label, [portion], root)
        inner = portion.portions
        if len(inner) == 1 and (inner[0].label in portion.label or portion.label in inner[0].label):
            return
        for each in inner[:most]:
            yield from rows(each, depth + 1, root)
        if most is not None and (rest := inner[most:]):
            yield cells(f"{'  ' * depth}  … {len(rest):,} more", rest, root)

    columns = ["what"]
    for at, measure in enumerate(measures):
        columns += [measure.head, "change"] if compared else [measure.head, ""][: 2 - bool(at)]
    yield from table(columns, [row for root in roots for row in rows(root, 0, root)], style, ("what",))


BYTES = (Measure("stored_bytes", "stored", bytes=True), Measure("bytes", "unpacked", bytes=True))
HOST = "host and packing"


class Weighed(NamedTuple):
    """One input."""

    name: str
    """As the user knows it."""
    weight: Weight
    """What it consists of."""


_Label: TypeAlias = "Callable[[str, Key], str]"


def tree(weighed: Sequence[Weighed], levels: Sequence[str], base: Sequence[Weighed] = ()) -> Portion:
    """All bytes, in groups of groups; beside those of older inputs, where there are any."""
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


class Alike(Struct, frozen=True, kw_only=True):
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


def archs(weighed: Iterable[Weighed]) -> dict[str, Archs]:
    """What each file holds code for, each member of an archive that holds any; an input without any holds none."""
    from spillscan.builds.coverage import Archs

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


def unexplained(weighed: Iterable[Weighed]) -> list[dict[str, Any]]:
    """What nothing explains, by where it stands."""
    return [
        {"file": each.name, "member": gap.member, "offset": gap.offset, "bytes": gap.bytes}
        for each in weighed
        for gap in each.weight.gaps
    ]
