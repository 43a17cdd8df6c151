"""What goes on under another name from one build to the next, and where a compaction keeps that.

To know it, :func:`pair` is asked about both builds whole, as ``diff`` asks it. Who follows
one kernel through a thousand builds has no time for that, so a compaction pairs each build that it writes with the
one before it, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from spillscan import __version__
from spillscan.history.dataset.reading import scanner
from spillscan.history.dataset.schema import PAIRS, Field, Record, decode, encode
from spillscan.history.dataset.store import LINKS, reading
from spillscan.judging.compare.pairing import pair
from spillscan.model import Kernel
from spillscan.naming.identity import canonical
from spillscan.naming.identity.likeness import configuration

if TYPE_CHECKING:
    import pyarrow

    from spillscan.history.dataset.reading import Dataset

_AT_ONCE = 1 << 14
"""Kernels that are held whole, to be paired."""

Neighbours = tuple[str, str]
"""Labels of two builds, the older first."""


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

    @classmethod
    def stored(cls, name: str, arch: str | None, pairs: Hashable, threads: int | None, function: bool) -> Key:
        """As it was before it was stored."""
        return cls(name, arch, pairs or threads, function)

    @property
    def pairs(self) -> Hashable:
        """The configuration that the compiler wrote down."""
        return self.configuration if isinstance(self.configuration, tuple) else None

    @property
    def threads(self) -> int | None:
        """The block size that the code requires, where nothing else says the configuration."""
        return self.configuration if isinstance(self.configuration, int) else None


class Link(NamedTuple):
    """What goes on under another key."""

    before: Key
    after: Key
    score: float
    """How much alike the two are, as ``diff`` says."""


_KEY = Record(
    (
        Field(name="canonical", shape="text", get=attrgetter("canonical")),
        Field(name="arch", shape="text", get=attrgetter("arch")),
        Field(name="configuration", shape=PAIRS, get=attrgetter("pairs")),
        Field(name="threads", shape="whole", get=attrgetter("threads")),
        Field(name="function", shape="flag", get=attrgetter("function")),
    ),
    Key.stored,
)
_LINK = Record(
    (
        Field(name="before", shape=_KEY, get=attrgetter("before")),
        Field(name="after", shape=_KEY, get=attrgetter("after")),
        Field(name="score", shape="real", get=attrgetter("score")),
    ),
    Link,
)


def neighbours(dataset: Dataset) -> dict[str, str]:
    """Of each build that holds kernels the one before it that does, by label."""
    sizes = sizes_of(dataset)
    filled = [label for label in dataset.labels if sizes[label]]
    return {after: before for before, after in pairwise(filled)}


def sizes_of(dataset: Dataset) -> Counter[str]:
    """How many kernels each build holds, by label."""
    sizes: Counter[str] = Counter()
    for commit in dataset.commits:
        sizes[commit.label] += commit.rows("kernels")
    return sizes


def found(dataset: Dataset, wanted: Iterable[Neighbours]) -> Iterator[tuple[Neighbours, tuple[Link, ...]]]:
    """What goes on as what between these builds. Many builds are read at once, but not all that there are."""
    sizes = sizes_of(dataset)
    left = list(wanted)
    while left:
        builds: dict[str, int] = {}
        number = 0
        for number, both in enumerate(left):
            builds |= {label: sizes[label] for label in both}
            if sum(builds.values()) > _AT_ONCE and number:
                break
        else:
            number = len(left)
        held = {
            label: [(kernel, Key.of(kernel)) for kernel in kernels]
            for label, kernels in dataset.kernels_of(list(builds)).items()
        }
        for before, after in left[:number]:
            yield (before, after), _between(held[before], held[after])
        left = left[number:]


def _between(base: Sequence[tuple[Kernel, Key]], head: Sequence[tuple[Kernel, Key]]) -> tuple[Link, ...]:
    """Keys that end in one build, and those that begin in the next as whose counterparts, each once."""
    keys = {id(kernel): key for kernel, key in (*base, *head)}
    ended, begun = ({key for _, key in side} for side in (base, head))
    ended, begun = ended - begun, begun - ended
    if not ended or not begun:
        return ()
    links = []
    for before, after, score in pair([kernel for kernel, _ in base], [kernel for kernel, _ in head]):
        if before is None or after is None:
            continue
        link = Link(keys[id(before)], keys[id(after)], score)
        if link.before in ended and link.after in begun:
            ended.remove(link.before)
            begun.remove(link.after)
            links.append(link)
    return tuple(links)


def to_table(links: Mapping[str, Sequence[Link]]) -> pyarrow.Table:
    """The rows that a compaction keeps: the label of the newer build, and what goes on there as what."""
    import pyarrow as pa

    rows = [(label, link) for label, some in links.items() for link in some]
    return pa.table(
        {
            "label": encode([label for label, _ in rows], "text"),
            "link": encode([link for _, link in rows], _LINK),
        }
    )


def kept(dataset: Dataset, wanted: Collection[Neighbours]) -> dict[Neighbours, tuple[Link, ...]]:
    """What compactions by this version of spillscan kept of these, where nothing was added to either build since."""
    latest: dict[str, set[str]] = {}
    for commit in dataset.commits:
        latest.setdefault(commit.label, set()).add(commit.time)
    sound: dict[str, Neighbours] = {}
    paths = set()
    for commit in dataset.commits:
        if commit.follows is None or commit.tool != __version__ or latest[commit.label] != {commit.time}:
            continue
        before, time = commit.follows
        if (before, commit.label) in wanted and max(latest.get(before, {""})) == time:
            sound[commit.label] = before, commit.label
            paths |= {part.path for part in commit.parts if part.table == LINKS}
    links: dict[str, list[Link]] = {label: [] for label in sound}
    for label, link in _stored(dataset, sorted(paths)):
        if label in links:
            links[label].append(link)
    return {sound[label]: tuple(some) for label, some in links.items()}


def _stored(dataset: Dataset, paths: Sequence[str]) -> Iterator[tuple[str, Link]]:
    import pyarrow.dataset as ds

    files, base = dataset.place.arrow()
    if not paths:
        return
    with reading(dataset.root):
        rows = scanner(ds.dataset([base + path for path in paths], filesystem=files, format="parquet")).to_table()
    for labels, some in zip(rows.column("label").chunks, rows.column("link").chunks, strict=True):
        yield from zip(decode(labels, "text"), decode(some, _LINK), strict=True)
