"""What goes on under another name from one build to the next, as ``diff`` pairs the two.

A kernel of which the name stands in both builds is the same. Of two builds only those whose names end or begin are
therefore compared whole; of the others it is only asked what they are called, of very many of a sample, as
:func:`pair` does: which words are common, and which templates live on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.history.dataset.sql import Rows
from spillscan.judging.compare.pairing import pair
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.naming.identity import canonical
from spillscan.naming.identity.likeness import configuration

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset

_AT_ONCE = 1 << 11
"""Names of kernels that are held whole, to be paired."""
_SAMPLE = 2_000
"""Kernels that live on and are looked at, in two builds, besides one of each template."""

Neighbours = tuple[str, str]
"""Labels of two builds, the older first."""

KEY = (
    "canonical, arch, CASE WHEN len(configuration) > 0 THEN configuration END AS configuration, "
    "CASE WHEN len(configuration) > 0 THEN NULL ELSE launch_bounds.required_threads END AS threads, "
    "role = 'function' AS function"
)
"""A :class:`Key`, in SQL."""


class Key(NamedTuple):
    """What makes kernels of two builds the same without being compared."""

    canonical: str
    arch: str | None
    configuration: Hashable
    """What a tuner chose; candidates of one name are several kernels."""
    function: bool

    @classmethod
    def of(cls, kernel: Kernel) -> Key:
        """That of a kernel."""
        return cls(canonical(kernel.key.symbol), kernel.key.arch, configuration(kernel), kernel.role == "function")


class Link(NamedTuple):
    """What goes on under another key."""

    before: Key
    after: Key
    score: float
    """How much alike the two are, as ``diff`` says."""


def sizes_of(dataset: Dataset) -> Counter[str]:
    """How many kernels each build holds, by label."""
    sizes: Counter[str] = Counter()
    for commit in dataset.commits:
        sizes[commit.label] += commit.rows("kernels")
    return sizes


_KEYS = f"""WITH sides AS (SELECT unnest(?) AS pair, unnest(?) AS label),
    keys AS (SELECT DISTINCT label, {KEY} FROM kernels),
    all_keys AS (SELECT pair, * EXCLUDE (pair, label), min(label) AS label, count(*) AS builds
        FROM keys JOIN sides USING (label) GROUP BY ALL)"""
_CHANGED = f"{_KEYS} SELECT DISTINCT pair, canonical FROM all_keys WHERE builds = 1 ORDER BY ALL"
_LIVING = f"""{_KEYS}, living AS (SELECT DISTINCT pair, canonical, arch, function FROM all_keys
        SEMI JOIN asked USING (pair) ANTI JOIN changed USING (pair, canonical) WHERE builds = 2),
    named AS (SELECT pair, arch, function, any_value(symbol) AS symbol, any_value(short_name) AS base,
            any_value(split_part(name, '<', 1)) AS head
        FROM living JOIN (SELECT label, canonical, symbol, short_name, name FROM kernels) USING (canonical)
        JOIN sides USING (pair, label) GROUP BY pair, canonical, arch, function)
    SELECT pair, symbol, arch, function FROM named QUALIFY
        row_number() OVER (PARTITION BY pair, base, head ORDER BY symbol) = 1
        OR row_number() OVER (PARTITION BY pair ORDER BY symbol)
            % (count(*) OVER (PARTITION BY pair) // {_SAMPLE} + 1) = 0
    ORDER BY ALL"""


def found(dataset: Dataset, wanted: Iterable[Neighbours]) -> Iterator[tuple[Neighbours, tuple[Link, ...]]]:
    """What goes on as what between these builds. Many builds are read at once, but not all that there are."""
    pairs = list(wanted)
    names: dict[int, list[str]] = defaultdict(list)
    labels = {label for both in pairs for label in both}
    if pairs:
        for number, name in dataset.ask(_CHANGED, _sides(pairs, range(len(pairs))), labels).rows:
            names[number].append(name)
    group: list[int] = []
    for number in range(len(pairs)):
        if group and sum(len(names[each]) for each in (*group, number)) > _AT_ONCE:
            yield from _of_group(dataset, pairs, group, names)
            group = []
        group.append(number)
    if group:
        yield from _of_group(dataset, pairs, group, names)


def _sides(pairs: Sequence[Neighbours], numbers: Iterable[int]) -> list[list[Any]]:
    sides = [(number, label) for number in numbers for label in pairs[number]]
    return [[number for number, _ in sides], [label for _, label in sides]]


def _of_group(
    dataset: Dataset, pairs: Sequence[Neighbours], group: Sequence[int], names: dict[int, list[str]]
) -> Iterator[tuple[Neighbours, tuple[Link, ...]]]:
    changed = [(number, label, name) for number in group for name in names[number] for label in pairs[number]]
    whole: dict[str, dict[str, list[Kernel]]] = {}
    living: dict[int, list[KernelKey]] = defaultdict(list)
    functions = set[tuple[int, KernelKey]]()
    labels = {label for _, label, _ in changed}
    if changed:
        rows = sorted({(label, name) for _, label, name in changed})
        only = Rows({"label": "VARCHAR", "canonical": "VARCHAR"}, rows)
        for label, kernels in dataset.kernels_of(sorted(labels), only).items():
            whole[label] = defaultdict(list)
            for kernel in kernels:
                whole[label][canonical(kernel.key.symbol)].append(kernel)
    ending = {number: [_ends(whole, pairs[number], names[number], side) for side in (0, 1)] for number in group}
    asked = [number for number in group if all(ending[number])]
    if asked:
        tables = {
            "asked": Rows({"pair": "BIGINT"}, [(number,) for number in asked]),
            "changed": Rows(
                {"pair": "BIGINT", "canonical": "VARCHAR"}, [(number, name) for number, _, name in changed]
            ),
        }
        narrow = {label for number in asked for label in pairs[number]}
        for number, symbol, arch, function in dataset.ask(_LIVING, _sides(pairs, asked), narrow, tables).rows:
            key = KernelKey(symbol=symbol, arch=arch)
            living[number].append(key)
            if function:
                functions.add((number, key))
    for number in group:
        if number not in asked:
            yield pairs[number], ()
            continue
        sides = []
        for label in pairs[number]:
            alike = [
                Kernel(key=key, role="function" if (number, key) in functions else "entry", usage=_UNKNOWN)
                for key in living[number]
            ]
            sides.append([*(kernel for name in names[number] for kernel in whole[label][name]), *alike])
        yield pairs[number], _between(sides[0], sides[1], *ending[number])


_UNKNOWN = Usage()


def _ends(whole: dict[str, dict[str, list[Kernel]]], both: Neighbours, names: Sequence[str], side: int) -> set[Key]:
    """The keys of one side that the other does not have."""
    keys = [{Key.of(kernel) for name in names for kernel in whole[label][name]} for label in both]
    return keys[side] - keys[1 - side]


def _between(base: Sequence[Kernel], head: Sequence[Kernel], ended: set[Key], begun: set[Key]) -> tuple[Link, ...]:
    """Keys that end in one build, and those that begin in the next as whose counterparts, each once."""
    links = []
    for before, after, score in pair(base, head):
        if before is None or after is None:
            continue
        link = Link(Key.of(before), Key.of(after), score)
        if link.before in ended and link.after in begun:
            ended.remove(link.before)
            begun.remove(link.after)
            links.append(link)
    return tuple(links)
