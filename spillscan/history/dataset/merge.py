"""Merge the commits of a build into one: an audit commits every few seconds, readers want few files.

A merge appends and replaces: it writes new parts, then one record that names them and the commits it replaces, then
deletes those. If killed at any moment, the dataset still reads the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from spillscan import __version__
from spillscan.history.dataset import records, schema
from spillscan.history.dataset.reading import Dataset, seen
from spillscan.history.dataset.records import Commit
from spillscan.history.dataset.store import Store, digest, folder
from spillscan.history.dataset.writing import pieces, put, put_part

if TYPE_CHECKING:
    import pyarrow

_ORDER = {"kernels": "canonical, arch, symbol, unit_id, position", "units": "uri", "issues": "unit_id, position"}


def merge(root: str, labels: Collection[str]) -> None:
    """Rewrite each build with several commits as one commit. Must not run while a build is being appended to."""
    for label in labels:
        _delete_damaged(root, label)
    dataset = Dataset.open(root)
    for label in labels:
        commits = [each for each in dataset.commits if each.label == label]
        if len(commits) > 1:
            _merge(dataset, label, commits)


def _delete_damaged(root: str, label: str) -> None:
    """Delete damaged commits of a build if all of their units were read again."""
    place = Store(root)
    commits, _ = records.load(place, label)
    lost = {each.path for each in records.check(place, commits)}
    damaged = [each for each in commits if any(part.path in lost for part in each.parts)]
    units = [replace(each, parts=tuple(part for part in each.parts if part.table == "units")) for each in damaged]
    if damaged and not any(part.path in lost for each in units for part in each.parts):
        uris = {each.uri for each in Dataset(place, units).seen(label)}
        if uris <= {each.uri for each in seen(root, label)}:
            _delete(place, damaged)


def _merge(dataset: Dataset, label: str, commits: Sequence[Commit]) -> None:
    name = digest("merge", str(schema.VERSION), *(word for each in commits for word in (label, each.name, each.time)))
    rows = {table: _living(dataset, table, label, name) for table in schema.TABLES}
    parts = [
        put_part(dataset.place, table, f"{folder(table, label)}/{name}", piece)
        for table in ("kernels", "issues")
        for piece in pieces(rows[table])
    ]
    commit = Commit(
        name=name,
        label=label,
        time=commits[-1].time,
        first_time=min(each.first_time or each.time for each in commits),
        parts=tuple(parts),
        meta={key: value for each in commits for key, value in each.meta.items()},
        replaces={each.name: each.time for each in commits},
        tool=__version__,
    )
    put(dataset.place, commit, rows["units"])
    _delete(dataset.place, commits)


def _living(dataset: Dataset, table: str, label: str, name: str) -> pyarrow.Table:
    """Valid rows of a build, with ``name`` as their commit."""
    rows = dataset.arrow(
        f"SELECT * REPLACE (? AS commit) FROM ({dataset.source(table, [label])}) ORDER BY {_ORDER[table]}", [name]
    )
    return rows.select(schema.arrow_schema(table, label=False).names).cast(schema.arrow_schema(table, label=False))


def _delete(place: Store, gone: Sequence[Commit]) -> None:
    """Delete replaced commits: records before files, since a record whose files are gone is damage.

    A record that was rewritten meanwhile keeps its files.
    """
    paths = sorted({each.path for each in gone})
    place.delete(paths)
    again = {path for path, data in zip(paths, place.read(paths), strict=True) if data is not None}
    place.delete(sorted({part.path for each in gone if each.path not in again for part in each.parts}))
