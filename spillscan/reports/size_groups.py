"""Sums in nested groups, with earlier sums if there are any: bytes of files, compile times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from msgspec import Struct

from spillscan.model.symbols import demangle, namespace, natural
from spillscan.naming import Names
from spillscan.output.nouns import size
from spillscan.output.terminal import Row, Style, table
from spillscan.reports.page.document import STATIC
from spillscan.reports.page.series import BEFORE, weight_document

NO_KERNEL = "(no kernel)"


class Measure(NamedTuple):
    """One of the values that are summed; groups are sorted by the first."""

    name: str
    """Name in JSON and CSV: ``stored_bytes``."""
    head: str
    """Head of the column: ``stored``."""
    digits: int = 0
    """Decimals; none for bytes."""
    bytes: bool = False
    """Whether people read it as bytes, with a unit after each value."""

    def text(self, value: float, sign: str = "") -> str:
        """Value for people."""
        return size(round(value), sign) if self.bytes else f"{value:{sign},.{self.digits}f}"


class Part(NamedTuple):
    """One summand, with its group at each level."""

    labels: tuple[str, ...]
    """Labels of the groups, the outermost first."""
    values: tuple[float, ...]
    """Values by measure."""
    old: bool
    """Whether it comes from an older input."""


class SizeGroup(Struct, frozen=True, kw_only=True):
    """Sum of parts with a common property."""

    label: str
    """Common property: an architecture, a file, a family of kernels."""
    values: tuple[float, ...]
    """Sums by measure."""
    before: tuple[float, ...] | None
    """Sums of the older inputs by measure; ``None`` without older inputs."""
    groups: Sequence[SizeGroup] = ()
    """Parts by their label at the next level, the largest first; with older inputs, the largest change first."""

    @property
    def growth(self) -> tuple[float, ...]:
        """Growth by measure; without older inputs, the sums."""
        if self.before is None:
            return self.values
        return tuple(now - then for now, then in zip(self.values, self.before, strict=True))

    def rows(self) -> Iterator[tuple[str | float, ...]]:
        """Innermost groups, each preceded by the labels of all groups around it."""
        if not self.groups:
            yield self.label, *self.values, *(self.before or ())
        for group in self.groups:
            yield from ((self.label, *row) for row in group.rows())

    def document(self, measures: Sequence[Measure]) -> dict[str, Any]:
        """JSON object of the group."""
        names = [each.name for each in measures]
        found: dict[str, Any] = {"label": self.label, **dict(zip(names, self.values, strict=True))}
        if self.before is not None:
            found |= {f"{BEFORE}{name}": value for name, value in zip(names, self.before, strict=True)}
        if self.groups:
            found["groups"] = [group.document(measures) for group in self.groups]
        return found


class SizeGroups(NamedTuple):
    """Nested groups of one or several measurements."""

    roots: Sequence[SizeGroup]
    """Sum of everything per measurement."""
    levels: Sequence[str]
    """Kinds of groups, the outermost first."""
    measures: Sequence[Measure]
    """Measures that are summed."""

    @property
    def compared(self) -> bool:
        """Whether there are older inputs."""
        return any(root.before is not None for root in self.roots)

    def records(self, source: str = "") -> Iterator[Sequence[Any]]:
        """CSV records, heads first; ``source``: head of the column of root labels, which is omitted if empty."""
        names = [each.name for each in self.measures]
        before = [f"{BEFORE}{name}" for name in names if self.compared]
        yield *([source] if source else []), *self.levels, *names, *before
        yield from (row[not source :] for root in self.roots for row in root.rows())

    def documents(self) -> list[dict[str, Any]]:
        """JSON objects, one per root."""
        return [root.document(self.measures) for root in self.roots]

    def page(self, title: str) -> Iterator[str]:
        """Yield a page with a treemap in pieces."""
        return weight_document(title, self.documents(), self.measures, self.lines(STATIC.rows, STATIC))

    def lines(self, most: int | None, style: Style) -> Iterator[str]:
        """Table of the sums with their changes, or with the first measure's share of its root.

        ``most``: subgroups shown of each group.
        """
        columns = ["what"]
        for at, measure in enumerate(self.measures):
            columns += [measure.head, "change"] if self.compared else [measure.head, ""][: 2 - bool(at)]
        rows: list[Row] = [(cells, "") for root in self.roots for cells in self._rows(root, 0, root, most)]
        yield from table(columns, rows, style, ("what",))

    def _rows(self, group: SizeGroup, depth: int, root: SizeGroup, most: int | None) -> Iterator[list[str]]:
        yield self._cells("  " * depth + group.label, [group], root)
        inner = group.groups
        if len(inner) == 1 and (inner[0].label in group.label or group.label in inner[0].label):
            return
        for each in inner[:most]:
            yield from self._rows(each, depth + 1, root, most)
        if most is not None and (rest := inner[most:]):
            yield self._cells(f"{'  ' * depth}  … {len(rest):,} more", rest, root)

    def _cells(self, label: str, several: Sequence[SizeGroup], root: SizeGroup) -> list[str]:
        found = [label]
        for at, measure in enumerate(self.measures):
            value = sum(each.values[at] for each in several)
            found.append(measure.text(value))
            if self.compared:
                found.append(measure.text(sum(each.growth[at] for each in several), "+"))
            elif at == 0:
                found.append(f"{100 * value / (root.values[0] or 1):.1f}%")
        return found


def whole(parts: Iterable[Part], measures: Sequence[Measure], compared: bool, label: str = "total") -> SizeGroup:
    """Sum of all parts; ``compared``: whether there are older inputs."""
    sums: dict[tuple[tuple[str, ...], bool], list[float]] = {}
    for part in parts:
        known = sums.get((part.labels, part.old))
        if known is None:
            sums[part.labels, part.old] = [*part.values]
        else:
            for at, value in enumerate(part.values):
                known[at] += value
    every = [Part(labels, tuple(values), old) for (labels, old), values in sums.items()]
    return _group(label, every, 0, len(every[0].labels) if every else 0, (0,) * len(measures), compared)


def _group(
    label: str, parts: Sequence[Part], depth: int, deepest: int, nothing: tuple[float, ...], compared: bool
) -> SizeGroup:
    inner: list[SizeGroup] = []
    if depth < deepest:
        found: defaultdict[str, list[Part]] = defaultdict(list)
        for part in parts:
            found[part.labels[depth]].append(part)
        inner = [_group(each, several, depth + 1, deepest, nothing, compared) for each, several in found.items()]
        inner.sort(key=lambda each: (*(-abs(value) for value in each.growth), natural(each.label)))

    def total(old: bool) -> tuple[float, ...]:
        return tuple(map(sum, zip(*(part.values for part in parts if part.old is old), strict=True))) or nothing

    return SizeGroup(label=label, values=total(False), before=total(True) if compared else None, groups=inner)


def of_kernels(names: Names) -> dict[str, Callable[[str], str]]:
    """Functions that give a symbol's group, by level."""
    return {
        "family": cache(names.base),
        "kernel": cache(names.of),
        "namespace": cache(lambda symbol: namespace(demangle(symbol))),
    }
