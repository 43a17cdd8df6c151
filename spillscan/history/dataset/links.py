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
from spillscan.model import Kernel
from spillscan.model.figures import KEPT
from spillscan.model.usage import NUMBERS
from spillscan.naming.identity import canonical
from spillscan.naming.identity.code import configuration

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset

_AT_ONCE = 1 << 11
"""Names of kernels that are held whole, to be paired."""
_SAMPLE = 2_000
"""Kernels that live on and are looked at, in two builds, besides one of each template that something else has left."""

_UNREAD = (
    *("canonical", "name", "short_name", "source", "reasons", "final", "advisories", "compile_ms", "commit", "caller"),
    *("dynamic_shared", "launch", "cluster_blocks", "roles", "lines", "register_cap"),
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
    renamed: bool


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
_ALIVE = """SELECT hash(canonical) AS named, bitstring_agg(nth, 0, {last}) AS nths,
        min(symbol) AS symbol, min(short_name) AS base, split_part(min(name), '<', 1) AS head
    FROM kernels JOIN places USING (label) GROUP BY named"""
_LIVING = """WITH sides AS (SELECT unnest(?) AS pair, unnest(?) AS older, unnest(?) AS newer),
    living AS (SELECT pair, symbol, base, head, named % ? = 0 AS sample FROM alive
        JOIN sides ON get_bit(nths, older) = 1 AND get_bit(nths, newer) = 1
        ANTI JOIN (SELECT pair, hash(canonical) AS named FROM changed) USING (pair, named)
        WHERE sample OR base IN (SELECT base FROM bases))
    SELECT pair, symbol FROM living
    QUALIFY sample OR row_number() OVER (PARTITION BY pair, base, head ORDER BY symbol) = 1 ORDER BY ALL"""


class _Alive:
    """The names of all kernels of some builds, which are asked of these once."""

    def __init__(self, dataset: Dataset, labels: Iterable[str]) -> None:
        self._dataset = dataset
        self._nths = {label: nth for nth, label in enumerate(sorted(labels))}
        self._sizes = sizes_of(dataset)
        self._held = False

    def between(
        self, pairs: Mapping[int, Neighbours], bases: Iterable[str], changed: Sequence[tuple[int, str]]
    ) -> dict[int, list[str]]:
        """Symbols of kernels that both builds of a pair have: of names that are not among its ``changed`` ones."""
        if not self._held:
            places = Rows({"label": "VARCHAR", "nth": "INTEGER"}, [*self._nths.items()])
            self._dataset.keep("alive", _ALIVE.format(last=len(self._nths) - 1), self._nths, {"places": places})
            self._held = True
        tables = {
            "bases": Rows({"base": "VARCHAR"}, [(base,) for base in sorted(bases)]),
            "changed": Rows({"pair": "BIGINT", "canonical": "VARCHAR"}, changed),
        }
        sides = [[self._nths[both[side]] for both in pairs.values()] for side in (0, 1)]
        largest = max(self._sizes[label] for both in pairs.values() for label in both)
        found: dict[int, list[str]] = defaultdict(list)
        for number, symbol in self._dataset.ask(
            _LIVING, [[*pairs], *sides, largest // _SAMPLE + 1], tables=tables
        ).rows:
            found[number].append(symbol)
        return found


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
    alive = _Alive(dataset, {label for number, some in names.items() if some for label in pairs[number]})
    group: list[int] = []
    for number in range(len(pairs)):
        if group and sum(len(names[each]) for each in (*group, number)) > _AT_ONCE:
            yield from _of_group(dataset, pairs, group, names, alive)
            group = []
        group.append(number)
    if group:
        yield from _of_group(dataset, pairs, group, names, alive)


def _sides(pairs: Sequence[Neighbours], numbers: Iterable[int]) -> list[list[Any]]:
    sides = [(number, label) for number in numbers for label in pairs[number]]
    return [[number for number, _ in sides], [label for _, label in sides]]


def _of_group(
    dataset: Dataset, pairs: Sequence[Neighbours], group: Sequence[int], names: dict[int, list[str]], alive: _Alive
) -> Iterator[tuple[Neighbours, tuple[Link, ...]]]:
    rows = sorted({(label, name) for number in group for name in names[number] for label in pairs[number]})
    whole: dict[str, dict[str, list[Kernel]]] = {}
    if rows:
        only = Rows({"label": "VARCHAR", "canonical": "VARCHAR"}, rows)
        for label, kernels in dataset.kernels_of(sorted({label for label, _ in rows}), only, _UNREAD).items():
            whole[label] = defaultdict(list)
            for kernel in kernels:
                whole[label][canonical(kernel.key.symbol)].append(kernel)
    ending = {number: [_ends(whole, pairs[number], names[number], side) for side in (0, 1)] for number in group}
    asked = {number: pairs[number] for number in group if all(ending[number])}
    bases = {each.short_name for held in whole.values() for kernels in held.values() for each in kernels}
    living = (
        alive.between(asked, bases, [(number, name) for number in asked for name in names[number]]) if asked else {}
    )
    for number in group:
        if number in asked:
            sides = [[kernel for name in names[number] for kernel in whole[label][name]] for label in pairs[number]]
            yield pairs[number], _between(sides[0], sides[1], living.get(number, ()), *ending[number])
        else:
            yield pairs[number], ()


def _ends(whole: dict[str, dict[str, list[Kernel]]], both: Neighbours, names: Sequence[str], side: int) -> set[Key]:
    """The keys of one side that the other does not have."""
    keys = [{Key.of(kernel) for name in names for kernel in whole[label][name]} for label in both]
    return keys[side] - keys[1 - side]


def _between(
    base: Sequence[Kernel], head: Sequence[Kernel], alive: Sequence[str], ended: set[Key], begun: set[Key]
) -> tuple[Link, ...]:
    """Keys that end in one build, and those that begin in the next as whose counterparts, each once."""
    links = []
    for before, after, renamed in pair(base, head, alive=alive):
        if before is None or after is None:
            continue
        link = Link(Key.of(before), Key.of(after), renamed)
        if link.before in ended and link.after in begun:
            ended.remove(link.before)
            begun.remove(link.after)
            links.append(link)
    return tuple(links)
