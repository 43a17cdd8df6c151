"""Datasets that commands read, and kernels that they follow over the builds."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from spillscan.commands import _policy
from spillscan.commands._options import DATASET, DATASET_VARIABLE
from spillscan.commands._selection import Selection
from spillscan.history.dataset.builds import KeptBuild, ordered
from spillscan.history.dataset.history import Series, histories, names_of
from spillscan.history.dataset.reading import Dataset, advice
from spillscan.naming import Names
from spillscan.output.errors import UndecidedError, UsageError
from spillscan.output.nouns import count


def dataset_of(arguments: argparse.Namespace, chosen: Callable[[Sequence[KeptBuild]], str] | None = None) -> Dataset:
    """The dataset that was asked for, or the build of it that is ``chosen``."""
    dataset = Dataset.open(place_of(arguments), chosen)
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # the others keep a third more than they use
    return dataset


def place_of(arguments: argparse.Namespace) -> str:
    """Where the dataset lies that was asked for."""
    named = [*getattr(arguments, "place", []), *filter(None, [arguments.dataset])]
    if len(named) > 1:
        raise UsageError(f"{len(named)} datasets", "name one; `spillscan history audit FILE … --each` makes one")
    return str(named[0] if named else os.environ.get(DATASET_VARIABLE) or DATASET)


def answered(dataset: Dataset) -> int:
    """0; raises :class:`~spillscan.output.errors.UndecidedError` where damaged builds are not in the answer."""
    if not dataset.damage:
        return 0
    more = len(dataset.damage) - 1
    others = f", and {count(more, 'more file')}" if more else ""
    said = f"left out: {dataset.damage[0].text(dataset.root)}{others}"
    raise UndecidedError(said, advice(dataset.root))


def builds_of(dataset: Dataset, arguments: argparse.Namespace) -> tuple[KeptBuild, ...]:
    """Its builds in the order asked for."""
    return ordered(dataset.builds, arguments.order)


class Followed(NamedTuple):
    """Kernels of a dataset, and the builds over which they are followed."""

    dataset: Dataset
    builds: Sequence[KeptBuild]
    series: list[Series]
    names_of: Callable[[Sequence[Series]], Names]
    """What some of them are called."""

    @property
    def names(self) -> Names:
        """What all of them are called."""
        return self.names_of(self.series)


def followed(arguments: argparse.Namespace, chosen: Callable[[Sequence[KeptBuild]], Sequence[KeptBuild]]) -> Followed:
    """What KERNEL, --arch and --launch name, in the builds that are ``chosen``; refused where a part names nothing."""
    dataset = dataset_of(arguments)
    builds = chosen(builds_of(dataset, arguments))
    policy = _policy.policy_of(arguments)
    series = histories(dataset, builds, arguments.pattern, policy, arguments.arch, policy.labels)
    Selection(arguments.arch, (), arguments.launch).refuse_unmatched([each.kernel for each in series])
    return Followed(dataset, builds, series, lambda some: names_of(dataset, builds, some, policy.labels))
