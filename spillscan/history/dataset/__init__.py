"""Builds kept over time: a folder, or a place in an object store, of Parquet files (docs/history.md).

``write_batch`` appends what was read of some inputs, ``seen`` says what needs no second reading, ``open_dataset``
answers questions, ``load_build`` gives one build back. Needs the packages of ``pip install 'spillscan[data]'``; they
are imported when they are used.

``schema`` states every column once; ``store`` puts and reads whole objects. ``writing`` appends: parts under names that
follow from the batch, then a commit record (``records``) with their checksums; ``merge`` makes the commits of an audit
one. ``reading`` is the view of what counts: sound commits that no other replaces, each unit once. ``sql`` lets DuckDB
read the files that records name, and locks it; ``history`` (one kernel over builds, followed by ``links``) and
``answers`` ask it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from spillscan.history.dataset.store import Unit

if TYPE_CHECKING:
    from spillscan.history.dataset.reading import Claim, Dataset
    from spillscan.model import Build

__all__ = ["Unit", "load_build", "open_dataset", "seen", "write_batch"]


def write_batch(
    root: str, label: str, results: Sequence[tuple[Unit, Build | None]], meta: Mapping[str, str], begun: str = ""
) -> None:
    """Append what was read of some inputs to the build called ``label``: all of it, or nothing that a reader sees.

    ``root`` is a local folder or a URL that fsspec knows, made where it is not there. A unit without a build is one
    that could not be read; it says why. ``meta`` is kept with the build, later words win; its ``time``, an ISO 8601
    date, is when the build was made; without one that is ``begun``, else when this is written. The same units written
    twice count once, by whatever process, in whatever batches and at the same time. Raises
    :class:`~spillscan.UsageError` for a label or meta that cannot be kept, :class:`~spillscan.InputError` where the
    place cannot be written.
    """
    from spillscan.history.dataset.writing import write

    write(root, label, results, meta, begun)


def seen(root: str, label: str) -> list[Claim]:
    """The units of ``label`` whose content was seen, read or failed, one a uri; none where there is no dataset."""
    from spillscan.history.dataset.reading import seen

    return seen(root, label)


def open_dataset(root: str) -> Dataset:
    """The dataset at ``root``, ready to be asked; see :class:`~spillscan.history.dataset.reading.Dataset`.

    Raises :class:`~spillscan.InputError` where there is none, or a newer version of spillscan wrote it.
    """
    from spillscan.history.dataset.reading import Dataset

    return Dataset.open(root)


def load_build(root: str, label: str) -> Build:
    """The build called ``label`` as its inputs gave it: units by uri, kernels in the order read.

    Raises :class:`~spillscan.InputError` where there is no dataset, or no such build in it.
    """
    from spillscan.history.dataset.reading import Dataset

    return Dataset.open(root, lambda _: label).build(label)
