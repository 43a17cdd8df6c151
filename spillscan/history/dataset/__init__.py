"""Datasets: builds kept over time as Parquet files in a folder or an object store (docs/history.md).

``write_batch`` appends the records of some inputs. ``seen`` lists units that need no second reading. ``open_dataset``
opens a dataset for queries. ``load_build`` reads one build back. All need the packages of ``pip install
'spillscan[data]'``, which are imported on first use.

``schema`` defines every column; ``store`` reads and writes whole objects. ``writing`` appends parts under names derived
from the batch, then a commit record (``records``) with their checksums. ``merge`` joins the commits of an audit.
``reading`` is the view of valid data: intact commits that no other replaces, each unit once. ``joining`` joins the
records of one kernel in several units, as `scan` does. ``sql`` lets DuckDB read the files that records name, and locks
it. ``history`` follows kernels over builds, with ``links`` for renames and ``lookup`` for names; ``regressions`` lists
their changes.
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
    """Append the records of some inputs to the build ``label``, atomically for readers.

    ``root`` is a local folder or a URL that fsspec supports; it is created if missing. A unit without a build could not
    be read; its ``failure`` is the reason. ``meta`` is stored with the build; later values win. The build's time is
    ``time`` of ``meta``, an ISO 8601 date, else ``begun``, else the time of writing. Units written twice count once, by
    whichever process, in whatever batches, even at the same time. Raises :class:`~spillscan.UsageError` for a label or
    metadata that cannot be stored, :class:`~spillscan.InputError` if ``root`` cannot be written.
    """
    from spillscan.history.dataset.writing import write

    write(root, label, results, meta, begun)


def seen(root: str, label: str) -> list[Claim]:
    """Units of ``label`` whose content was seen, read or failed, one per uri; empty if there is no dataset."""
    from spillscan.history.dataset.reading import seen

    return seen(root, label)


def open_dataset(root: str) -> Dataset:
    """Open the dataset at ``root`` for queries; see :class:`~spillscan.history.dataset.reading.Dataset`.

    Raises :class:`~spillscan.InputError` if there is none, or if it has another version of the schema.
    """
    from spillscan.history.dataset.reading import Dataset

    return Dataset.open(root)


def load_build(root: str, label: str) -> Build:
    """Build ``label`` as its inputs reported it: units by uri, kernels in reading order.

    Raises :class:`~spillscan.InputError` if there is no dataset, or no such build in it.
    """
    from spillscan.history.dataset.reading import Dataset

    return Dataset.open(root, lambda _: label).build(label)
