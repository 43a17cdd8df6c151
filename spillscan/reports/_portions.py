"""What is added up, in groups of groups, beside what it was before: bytes of files, time of compilations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct

from spillscan.names import demangle, namespace, natural
from spillscan.naming import Names
from spillscan.occupancy.text import size
from spillscan.output.terminal import Style, table

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
