"""What a command reads: builds from files and standard input, datasets."""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from spillscan.commands import _library, _policy
from spillscan.commands._options import DATASET, DATASET_VARIABLE
from spillscan.commands._selection import Selection
from spillscan.history.dataset import open_dataset
from spillscan.history.dataset.builds import KeptBuild, ordered
from spillscan.history.dataset.history import Series, histories, names_in
from spillscan.history.dataset.reading import Dataset
from spillscan.history.dataset.store import without_pandas
from spillscan.model import Build
from spillscan.naming import Names
from spillscan.output.errors import InputError, UsageError
from spillscan.output.progress import Progress, Reading
from spillscan.reading.inputs.source import expand


def inputs_or_stdin(inputs: Sequence[str]) -> list[str]:
    """``inputs``; without any, standard input where something is piped into it."""
    if inputs:
        return list(inputs)
    if sys.stdin is not None and not sys.stdin.isatty():
        return ["-"]
    raise UsageError("no INPUT", "give a log file or a folder of logs, or pipe a log in")


def refuse_swapped(kernel: str, inputs: Sequence[str], call: str) -> None:
    """Refuse a ``call`` with an input where the kernel belongs and a kernel where an input does."""
    if os.path.exists(kernel) and not os.path.exists(inputs[-1]):
        try:
            expand(inputs)
        except InputError as error:
            raise UsageError(f"{error.what}, and {kernel} is a file", f"the kernel comes first: {call}") from None


def scan(
    paths: Sequence[str] | str,
    *,
    operands: bool = False,
    live: bool = False,
    unpacking: Mapping[str, int] | None = None,
) -> Build:
    """:func:`spillscan.scan`, with its progress where a person watches."""
    with Progress("reading") as progress:
        watch = Reading(progress) if progress.watched else None
        _read.append(_library.scan(paths, watch, operands=operands, live=live, unpacking=unpacking))
    return _read[-1]


_read: deque[Build] = deque(maxlen=2)
"""What was read last stays there until the process ends: freeing the records one by one takes time, too."""


def dataset_of(arguments: argparse.Namespace) -> Dataset:
    """The dataset that was asked for."""
    with without_pandas():
        dataset = open_dataset(arguments.dataset or os.environ.get(DATASET_VARIABLE) or DATASET)
        import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # the others keep a third more than they use
    return dataset


def builds_of(dataset: Dataset, arguments: argparse.Namespace) -> tuple[KeptBuild, ...]:
    """Its builds in the order asked for."""
    return ordered(dataset.builds, arguments.order)


class Followed(NamedTuple):
    """Kernels of a dataset, and the builds over which they are followed."""

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
    labels = [build.label for build in builds]
    return Followed(builds, series, lambda some: names_in(dataset, labels, some, policy.labels))
