"""How much a dataset holds of each build."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from spillscan.dataset.sql import ask

if TYPE_CHECKING:
    from spillscan.dataset.builds import KeptBuild
    from spillscan.dataset.reading import Dataset


class Held(NamedTuple):
    """One build and how much there is of it."""

    build: KeptBuild
    kernels: int
    units: int
    failures: int
    """Units that could not be read."""
    files: int
    """Parquet files."""
    size_bytes: int
    """Of these."""


def summary(dataset: Dataset, builds: Iterable[KeptBuild]) -> Iterator[Held]:
    """Each of ``builds``, in their order."""
    question = "SELECT label, coalesce(sum(kernels), 0)::BIGINT, count(*), count(failure) FROM units GROUP BY label"
    counted = {label: counts for label, *counts in ask(dataset.connection, question).rows}
    for build in builds:
        parts = [part for each in dataset.commits if each.label == build.label for part in each.parts]
        kernels, units, failures = counted[build.label]
        yield Held(build, kernels, units, failures, len(parts), sum(part.size_bytes for part in parts))
