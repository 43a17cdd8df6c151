"""What of a dataset is lost or damaged, and how the rest is restored.

``verify`` reads every byte. ``repair`` puts records back of which the copy in a file of units is sound, writes what is
left of damaged builds anew, and moves what is damaged into the folder ``quarantine``. What was lost is said: units of
which not all is there are such as could not be read, and the next audit reads them again.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from spillscan import __version__
from spillscan.history.dataset import records
from spillscan.history.dataset.compaction import Fixed, rewrite
from spillscan.history.dataset.reading import Dataset
from spillscan.history.dataset.records import Commit, Damage, Part
from spillscan.history.dataset.schema import VERSION, UnitRow
from spillscan.history.dataset.store import (
    COMMITS,
    ISSUES,
    QUARANTINE,
    SEVERAL,
    UNITS,
    Store,
    Unit,
    checksum,
    folder,
    needed,
    store,
)
from spillscan.history.dataset.writing import COPY, encoded, now, put
from spillscan.output.errors import InputError

if TYPE_CHECKING:
    import pyarrow


def verify(root: str) -> list[Damage]:
    """All that is lost or damaged, none where all is sound. Every byte of every file is read.

    Raises :class:`~spillscan.InputError` where there is no dataset.
    """
    return _damaged(_opened(root))


def _opened(root: str) -> Store:
    with needed():
        import pyarrow.parquet  # noqa: F401
    place = store(root)
    if not place.list(COMMITS) and not place.list(UNITS):
        raise InputError(f"there is no dataset at {root}", "spillscan history audit makes one")
    return place


def _damaged(place: Store) -> list[Damage]:
    commits, damaged = records.load(place)
    lost = records.check(place, commits, digests=True)
    known = {each.path for each in damaged}
    copies = [
        Damage(commit[0].path, tuple(each.label for each in commit), "is lost, or its append was killed")
        for commit in _copies(place, commits)
        if commit[0].path not in known
    ]
    return [*damaged, *copies, *lost]


def repair(root: str) -> list[tuple[Damage, str]]:
    """Restore all that is not in damaged files; what was done about each. The build that they belong to can be read
    again, and says what is missing in it."""
    place = _opened(root)
    before = _damaged(place)
    records_lost = {each.path: each.labels for each in before if each.path.startswith(f"{COMMITS}/")}
    restored = {copy[0].path: copy for copy in _copies(place, records.load(place).commits)}
    for path, owners in sorted(records_lost.items()):
        _move(place, path)
        if path in restored:
            place.put(path, records.to_bytes(restored[path]))
            continue
        for label in owners:
            name = path.split("/")[-1].removesuffix(".json")
            _gap(place, Commit(name=name, label=label, time=now(), parts=()), f"a batch was lost with {path}")
    commits, _ = records.load(place)
    lost = {each.path for each in records.check(place, commits, digests=True)}
    damaged = {
        each.path: {one.label for one in commits if one.path == each.path} for each in commits if _hit(each, lost)
    }
    whole = {each.path for each in commits if any(part.path in lost and part.table == UNITS for part in each.parts)}
    gaps = [_gap(place, each, _why(each, lost)) for each in commits if each.path in whole]
    left = [
        msgspec.structs.replace(each, parts=tuple(part for part in each.parts if part.path not in lost))
        for each in commits
        if each.path not in whole  # what its kernels were read from is not known
    ]
    done = set[str]()
    for path in sorted(damaged, key=lambda path: path.startswith(f"{SEVERAL}/"), reverse=True):
        labels = [build.label for build in records.builds_of(left) if build.label in damaged[path] - done]
        done.update(labels)
        if labels:
            rewrite(Dataset(place, left), labels, _marked(left, commits, lost))
    for path in sorted({*lost, *damaged}.difference(gaps)):
        _move(place, path)
    return [(each, "restored" if each.path in restored else "moved away") for each in before]


def _gap(place: Store, commit: Commit, why: str) -> str:
    """Where the record now lies of one unit that has failed, instead of units of which not even the names are known:
    until the same batch is written again, or the gap is accepted."""
    below = folder(UNITS, commit.label)
    unit = Unit(uri=f"{below}/{commit.name}", content_hash="", failure=f"not all of {commit.label} is there: {why}")
    left = msgspec.structs.replace(commit, parts=(), shared=None, version=VERSION, tool=__version__)
    put(place, [left], below, encoded(UNITS, [UnitRow(unit, left.name, None)]))
    return left.path


def _why(commit: Commit, lost: Collection[str]) -> str:
    gone = (part for part in commit.parts if part.path in lost)
    return "; ".join(f"{part.rows:,} {part.table} were lost with {part.path}" for part in gone)


def _hit(commit: Commit, lost: Collection[str]) -> bool:
    return any(part.path in lost for part in commit.parts)


def _marked(left: Sequence[Commit], commits: Sequence[Commit], lost: Collection[str]) -> Fixed:
    """Lets units say what of them was lost: they have failed, with a content that nobody has seen."""
    why = {each.label: _why(each, lost) for each in commits if _hit(each, lost)}
    silent = {
        each.label
        for each in commits
        if each.version < _COUNTED_SINCE and any(part.path in lost and part.table == ISSUES for part in each.parts)
    }

    def marked(dataset: Dataset, units: pyarrow.Table) -> pyarrow.Table:
        import pyarrow as pa

        labels = set(units.column("label").to_pylist())
        held = {
            table: {
                (label, unit): count
                for label, unit, count in dataset.ask(
                    f"SELECT label, unit_id, count(*) FROM ({dataset.source(table, labels)}) GROUP BY ALL"
                ).rows
            }
            for table in ("kernels", "issues")
        }
        rows = units.to_pylist()
        for row in rows:
            owner = row["label"], row["unit_id"]
            short = any((row[table] or 0) > counts.get(owner, 0) for table, counts in held.items())
            if row["failure"] is None and row["label"] in why and (short or row["label"] in silent):
                row |= {"failure": f"not all of {row['uri']} is there: {why[row['label']]}", "content_hash": ""}
        return pa.Table.from_pylist(rows, schema=units.schema)

    return marked


_COUNTED_SINCE = 9
"""The version of the schema whose units say how many issues they have."""


def _move(place: Store, path: str) -> None:
    for data in place.read([path]):
        if data is not None:
            place.put(f"{QUARANTINE}/{path}", data)
            place.delete([path])


def _copies(place: Store, commits: Sequence[Commit]) -> Iterator[list[Commit]]:
    """Commits that stand in sound files of units and have no sound record, and that none replaces."""
    named = {part.path for each in commits for part in each.parts}
    replaced = {(each.label, name) for each in commits for name in each.replaces}
    there = {each.path for each in commits}
    for each in place.list(UNITS):
        if each.path in named or not each.path.endswith(".parquet"):
            continue
        data = place.read([each.path])[0]
        copy = None if data is None else _copy(data, each.path)
        if copy is None or copy[0].path in there or any((one.label, one.name) in replaced for one in copy):
            continue
        moment = datetime.now(UTC) if each.modified is None else datetime.fromtimestamp(each.modified, UTC)
        time = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        yield [msgspec.structs.replace(one, time=one.time or time) for one in copy]


def _copy(data: bytes, path: str) -> list[Commit] | None:
    """The commit that a file of units ends; ``None`` where the file is not sound, or ends none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        rows = file.read().num_rows
        commits = records.parsed(file.metadata.metadata[COPY.encode()], path)
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
        return None
    part = Part(path=path, table=UNITS, arch=None, rows=rows, size_bytes=len(data), xxh3=checksum(io.BytesIO(data)))
    return [msgspec.structs.replace(each, parts=(*each.parts, part)) for each in commits]
