"""What goes on under another name from one build to the next, as ``diff`` pairs the two.

A kernel of which the name stands in both builds is the same. Of two builds only those whose names end or begin are
therefore compared whole; of the others it is only asked what they are called, of very many of a sample, as
:func:`pair` does: which words are common, and which templates live on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.history.dataset.sql import Rows
from spillscan.judging.compare.pairing import pair
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.figures import KEPT
from spillscan.model.usage import NUMBERS
from spillscan.naming.identity import canonical
from spillscan.naming.identity.likeness import configuration

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset

_AT_ONCE = 1 << 11
"""Names of kernels that are held whole, to be paired."""
_SAMPLE = 2_000
"""Kernels that live on and are looked at, in two builds, besides one of each template that something else has left."""

_UNREAD = (
    *("canonical", "name", "short_name", "source", "reasons", "final", "advisories", "compile_ms", "commit", "caller"),
    *("dynamic_shared", "launch", "cluster_blocks", "roles", "lines"),
    *(each.name for each in KEPT if each.name not in NUMBERS),
)
"""Columns that nothing is paired by."""

Neighbours = tuple[str, str]
"""Labels of two builds, the older first."""

_PARTS = {
    "canonical": "canonical",
    "arch": "arch",
    "configuration": "CASE WHEN len(configuration) > 0 THEN configuration END",
    "threads": "CASE WHEN len(configuration) > 0 THEN NULL ELSE launch_bounds.required_threads END",
    "function": "role = 'function'",
}
_KEY = ", ".join(f"{part} AS {name}" for name, part in _PARTS.items())
KEY_HASH = f"hash({', '.join(_PARTS.values())})"
"""The number of a :class:`Key`, in SQL."""


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


_CHANGED = f"""WITH sides AS (SELECT unnest(?) AS pair, unnest(?) AS label),
    keys AS (SELECT DISTINCT label, {_KEY} FROM kernels),
    all_keys AS (SELECT * EXCLUDE (label), count(*) AS builds FROM keys JOIN sides USING (label) GROUP BY ALL)
    SELECT DISTINCT pair, canonical FROM all_keys WHERE builds = 1 ORDER BY ALL"""
_LIVING = f"""WITH sides AS (SELECT unnest(?) AS pair, unnest(?) AS label),
    seen AS (SELECT label, {_KEY}, symbol, short_name AS base, split_part(name, '<', 1) AS head,
        hash(canonical) % ? = 0 AS sample FROM kernels WHERE sample OR short_name IN (SELECT base FROM bases)),
    living AS (SELECT pair, arch, function, sample, min(symbol) AS symbol, min(base) AS base, min(head) AS head
        FROM seen JOIN sides USING (label) ANTI JOIN changed USING (pair, canonical)
        GROUP BY pair, canonical, arch, configuration, threads, function, sample
        HAVING count(DISTINCT label) = 2)
    SELECT DISTINCT pair, symbol, arch, function FROM living
    QUALIFY sample OR row_number() OVER (PARTITION BY pair, base, head ORDER BY symbol) = 1 ORDER BY ALL"""


def found(
    dataset: Dataset, wanted: Iterable[Neighbours], changed: Mapping[Neighbours, Iterable[str]] | None = None
) -> Iterator[tuple[Neighbours, tuple[Link, ...]]]:
    """What goes on as what between these builds. Many builds are read at once, but not all that there are.
    ``changed``: names of kernels that one of both builds does not have, where all are known."""
    pairs = list(wanted)
    names: dict[int, list[str]] = defaultdict(list)
    labels = {label for both in pairs for label in both}
    if changed is not None:
        names |= {number: sorted(changed.get(both, ())) for number, both in enumerate(pairs)}
    elif pairs:
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
        for label, kernels in dataset.kernels_of(sorted(labels), only, _UNREAD).items():
            whole[label] = defaultdict(list)
            for kernel in kernels:
                whole[label][canonical(kernel.key.symbol)].append(kernel)
    ending = {number: [_ends(whole, pairs[number], names[number], side) for side in (0, 1)] for number in group}
    asked = [number for number in group if all(ending[number])]
    if asked:
        bases = {each.short_name for held in whole.values() for kernels in held.values() for each in kernels}
        tables = {
            "bases": Rows({"base": "VARCHAR"}, [(base,) for base in sorted(bases)]),
            "changed": Rows(
                {"pair": "BIGINT", "canonical": "VARCHAR"}, [(number, name) for number, _, name in changed]
            ),
        }
        narrow = {label for number in asked for label in pairs[number]}
        sizes = sizes_of(dataset)
        words = [*_sides(pairs, asked), max(sizes[label] for label in narrow) // _SAMPLE + 1]
        for number, symbol, arch, function in dataset.ask(_LIVING, words, narrow, tables).rows:
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
