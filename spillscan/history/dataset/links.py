"""Links between a kernel's names in consecutive builds, paired as ``diff`` does.

A key in both builds is the same kernel. Two builds are compared only if some keys end and others begin between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from spillscan.model import Kernel
from spillscan.model.serialize import text
from spillscan.naming.pairs import pair
from spillscan.naming.same_named import configuration
from spillscan.naming.symbol import canonical

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Dataset

Neighbours = tuple[str, str]
"""Labels of two builds, the older first."""

KEY_HASH = "hash(canonical, arch, variant, role = 'function')"
"""Hash of a :class:`Key`, in SQL."""


class Key(NamedTuple):
    """Identity of a kernel: equal keys in two builds are the same kernel."""

    canonical: str
    arch: str | None
    variant: str | None
    """Configuration that a tuner chose: each autotuning config is a kernel of its own."""
    function: bool

    @classmethod
    def of(cls, kernel: Kernel) -> Key:
        """Key of a kernel."""
        chosen = configuration(kernel)
        variant = None if chosen is None else text(chosen)
        return cls(canonical(kernel.key.symbol), kernel.key.arch, variant, kernel.role == "function")


class Link(NamedTuple):
    """A kernel under its old and its new key."""

    before: Key
    after: Key
    renamed: bool


def sizes_of(dataset: Dataset) -> Counter[str]:
    """Number of kernels in each build, by label."""
    sizes: Counter[str] = Counter()
    for commit in dataset.commits:
        sizes[commit.label] += commit.rows("kernels")
    return sizes


_ALONE = f"""SELECT DISTINCT label FROM (SELECT label, min(label) OVER same = max(label) OVER same AS alone
    FROM kernels WINDOW same AS (PARTITION BY {KEY_HASH})) WHERE alone"""


def links_of(dataset: Dataset, wanted: Iterable[Neighbours]) -> Iterator[tuple[Neighbours, tuple[Link, ...]]]:
    """Links between each pair of builds; keeps at most two builds in memory."""
    for both in wanted:
        if len(dataset.ask(_ALONE, (), both).rows) < 2:
            yield both, ()
            continue
        kernels: dict[str, list[Kernel]] = {label: [] for label in both}
        for label, _, some in dataset.kernels_of(both):
            kernels[label] += some
        yield both, tuple(_between(*kernels.values()))


def _between(base: Sequence[Kernel], head: Sequence[Kernel]) -> Iterator[Link]:
    old, new = {Key.of(each) for each in base}, {Key.of(each) for each in head}
    ended, begun = old - new, new - old
    for before, after, renamed in pair(base, head):
        if before is None or after is None:
            continue
        link = Link(Key.of(before), Key.of(after), renamed)
        if link.before in ended and link.after in begun:
            ended.remove(link.before)
            begun.remove(link.after)
            yield link
