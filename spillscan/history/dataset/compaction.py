"""Few large files instead of many small ones.

A compaction is an append that replaces: new parts, then one record that names them and the commits it replaces, then
their deletion. Killed at any moment, it leaves a dataset that reads the same.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from spillscan import __version__
from spillscan.history.dataset import schema
from spillscan.history.dataset.reading import Dataset
from spillscan.history.dataset.records import Commit, Part, current, load
from spillscan.history.dataset.store import COMMITS, DRAFT, QUARANTINE, Store, digest, folder
from spillscan.history.dataset.writing import encoded, pieces, put, put_part
from spillscan.output.errors import InputError
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    import pyarrow

SHARED_ROWS = 1 << 17
"""Builds share files up to so many rows: what is read to get one of them back."""
SHARED_GROUP_ROWS = 1 << 14
"""Rows of a row group of these: a kernel has few in each file, and there are many files."""
FEWEST_SHARING = 16
"""Fewer builds than this stay as they are: who audits each night does not write the last month anew each night."""
HOURS_UNTIL_DEAD = 24.0
"""A file that no commit names is of an append that may still commit, unless it is older than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction did."""

    labels: int = 0
    """Builds that were written anew."""
    files_before: int = 0
    """Files that were there."""
    files_after: int = 0
    """Files that are there now."""
    swept: int = 0
    """Files of killed appends that were deleted."""


def compact(dataset: Dataset, labels: Iterable[str] | None = None, hours: float = HOURS_UNTIL_DEAD) -> Compacted:
    """Write builds of more than one commit, or of an older schema, anew, and small ones into files that they share;
    delete what is surely dead.

    Not while one of the builds is being appended to: what is appended at the same time may have to be audited again.
    """
    place = dataset.place
    before = len(place.list(""))
    swept = _sweep(place, hours)
    wanted = set(dataset.labels if labels is None else labels)
    if strange := sorted(wanted - set(dataset.labels)):
        hint = "spillscan history dataset info lists them"
        raise InputError(f"{dataset.root} has no build {clip(printable(strange[0]), 60)}", hint)
    groups = list(_groups(dataset, wanted))
    for group in groups:
        rewrite(dataset, group)
    return Compacted(labels=sum(map(len, groups)), files_before=before, files_after=len(place.list("")), swept=swept)


_FILE_ROWS = 2_000
"""To open a file takes as long as to read some columns of so many rows."""
_PAYS = 2
"""A compaction pays where what there is takes so many times as long to read as what it leaves."""
_QUIET_SECONDS = 10
"""Builds that were appended to so lately may still be: an audit commits more often."""


def compact_where_it_pays(root: str, labels: Collection[str] = (), but: Collection[str] = ()) -> None:
    """Compact where that at least halves what it takes to read all. ``labels`` are known to be complete, those in
    ``but`` are not; of others the time says it."""
    dataset = Dataset.open(root)
    lately = datetime.now(UTC).timestamp() - _QUIET_SECONDS
    quiet = {each.label for each in dataset.builds if each.last_commit.timestamp() < lately} | set(labels)
    groups = list(_groups(dataset, quiet - set(but)))
    own = {label for group in groups for label in group}
    files = [{part.path for each in dataset.commits if each.label in own for part in each.parts}]
    files.append({part.path for each in dataset.commits for part in each.parts})
    kinds = len({(part.table, part.arch) for each in dataset.commits for part in each.parts})
    left = len(files[1]) - len(files[0]) + len(groups) * kinds
    rows = sum(each.rows(table) for each in dataset.commits for table in schema.TABLES)
    if len(files[1]) * _FILE_ROWS + rows > _PAYS * (left * _FILE_ROWS + rows):
        for group in groups:
            rewrite(dataset, group)


def _groups(dataset: Dataset, wanted: Set[str]) -> Iterator[list[str]]:
    """Builds that are to be written together, in the order of their time. What shares a file stays together; neighbours
    come to it while it is small and they are many."""
    held: dict[str, list[Commit]] = {}
    for each in dataset.commits:
        held.setdefault(each.label, []).append(each)
    units: dict[str, list[str]] = {}
    for label in dataset.labels:
        shared = [each.path for each in held[label] if each.shared is not None]
        if not dataset.mixed.isdisjoint(shared):
            continue
        units.setdefault(shared[0] if shared else f"{COMMITS}/{label}", []).append(label)
    together: list[list[str]] = []
    rows = 0
    for unit in units.values():
        if wanted.isdisjoint(unit):
            continue
        size = sum(each.rows(table) for label in unit for each in held[label] for table in schema.TABLES)
        if not together or rows + size > SHARED_ROWS:
            yield from _worth(together, held)
            together, rows = [], 0
        together.append(unit)
        rows += size
    yield from _worth(together, held)


def _worth(units: Sequence[list[str]], held: Mapping[str, Sequence[Commit]]) -> Iterator[list[str]]:
    """These units as one, where there are enough of them; else each that is not as it should be."""
    if sum(len(unit) == 1 for unit in units) >= FEWEST_SHARING:
        yield [label for unit in units for label in unit]
        return
    for unit in units:
        if any(len(held[label]) > 1 or held[label][0].version != schema.VERSION for label in unit):
            yield unit


Fixed = Callable[[Dataset, "pyarrow.Table"], "pyarrow.Table"]
"""What becomes of the units of a dataset."""


def rewrite(dataset: Dataset, labels: Sequence[str], fixed: Fixed | None = None) -> None:
    """One commit of one build, or one of several that share its files. ``fixed``: with other units."""
    own = set(labels)
    held = [each for each in dataset.commits if each.label in own]
    name = digest(
        "compaction", str(schema.VERSION), *(word for each in held for word in (each.label, each.name, each.time))
    )
    rows = {table: _living(dataset, table, labels, name) for table in schema.TABLES}
    if fixed is not None:
        rows["units"] = fixed(dataset, rows["units"])
    counts = {table: Counter(each.column("label").to_pylist()) for table, each in rows.items()}
    several = len(labels) > 1
    parts = tuple(
        part
        for table in ("kernels", "issues")
        for part in _parts(dataset.place, table, labels[0], name, rows[table], several=several)
    )
    commits = []
    for label in labels:
        mine = [each for each in held if each.label == label]
        meta: dict[str, str] = {}
        for each in mine:
            meta.update(each.meta)
        commits.append(
            Commit(
                name=name,
                label=label,
                time=mine[-1].time,
                first_time=min(each.first_time or each.time for each in mine),
                parts=parts,
                meta=meta,
                replaces={each.name: each.time for each in mine},
                shared={table: counts[table][label] for table in schema.TABLES} if several else None,
                tool=__version__,
            )
        )
    units = rows["units"] if several else rows["units"].drop_columns("label")
    put(dataset.place, commits, "units/several" if several else folder("units", labels[0]), units)
    _delete(dataset.place, held)


_ORDER = {
    "kernels": "canonical, arch, symbol, place, unit_id, position",
    "units": "place, uri",
    "issues": "place, unit_id, position",
}
"""Of the rows that a compaction writes; ``place``: that of the build. One kernel's builds stand one after the other:
who asks for it skips the rest, and what does not change from build to build takes no space."""


def _living(dataset: Dataset, table: str, labels: Sequence[str], name: str) -> pyarrow.Table:
    """The rows of some builds that count, as a commit of that name has them."""
    import pyarrow as pa

    rows = dataset.source(table, labels)
    old = {each.label for each in dataset.commits if each.label in labels and each.version < schema.WHOLE_SINCE}
    tables = {}
    if old and table == "kernels":  # figures that follow from others are computed anew
        held = dataset.rows("kernels", old)
        made = [schema.row_of(schema.kernel_of(row), row["unit_id"], name, row["position"]) for row in held]
        folders = {column: pa.array([row[column] for row in held], pa.string()) for column in ("label", "arch")}
        whole = encoded("kernels", made)
        for at, (column, values) in enumerate(folders.items()):
            whole = whole.add_column(at, column, values)
        tables["whole"] = whole
        rest = [label for label in labels if label not in old]
        rows = "SELECT * FROM whole" + (f" UNION ALL BY NAME {dataset.source(table, rest)}" if rest else "")
    return dataset.arrow(
        f"SELECT rows.* REPLACE (? AS commit) FROM ({rows}) AS rows JOIN"
        f" (SELECT unnest(?) AS label, generate_subscripts(?, 1) AS place) USING (label) ORDER BY {_ORDER[table]}",
        [name, list(labels), list(labels)],
        tables,
    ).cast(schema.arrow_schema(table, folders=True))


def _parts(place: Store, table: str, label: str, name: str, rows: pyarrow.Table, *, several: bool) -> Iterator[Part]:
    """The files of a table: those of one build in folders of its own, by arch; what several builds share says in
    columns what folders say of one."""
    import pyarrow.compute as pc

    if several:
        for piece in pieces(rows):
            yield put_part(place, table, f"{table}/several/{name}", piece, group=SHARED_GROUP_ROWS)
    elif table != "kernels":
        for piece in pieces(rows.drop_columns("label")):
            yield put_part(place, table, f"{folder(table, label)}/{name}", piece)
    else:
        column = rows.column("arch")
        for arch in pc.unique(column).to_pylist():
            mine = rows.filter(pc.is_null(column) if arch is None else pc.equal(column, arch))
            for piece in pieces(mine.drop_columns(["label", "arch"])):
                yield put_part(place, table, f"{folder(table, label, arch)}/{name}", piece, arch)


def _delete(place: Store, gone: Sequence[Commit]) -> None:
    """Records first: a file that no record names is harmless, a record whose files are gone is not. A record that was
    written again meanwhile keeps its files."""
    paths = sorted({each.path for each in gone})
    place.delete(paths)
    again = {path for path, data in zip(paths, place.read(paths), strict=True) if data is not None}
    place.delete(sorted({part.path for each in gone if each.path not in again for part in each.parts}))


def _sweep(place: Store, hours: float) -> int:
    """Delete commits that others replace, and files that no record names and that are old.

    Files are listed before the records are read: what is committed in between has a record then.
    """
    files = [
        each
        for each in place.list("")
        if (each.path.endswith(".parquet") or DRAFT in each.path) and not each.path.startswith(QUARANTINE)
    ]
    present, damaged = load(place, replaced=True)
    if damaged:  # their files may be sound
        return 0
    kept = current(present)
    living = {part.path for each in kept for part in each.parts}
    names = {each.path for each in kept}
    left = [each for each in present if each.path not in names]
    place.delete(sorted({each.path for each in left}))
    named = {part.path for each in left for part in each.parts} - living
    latest = time.time() - 3600 * hours
    dead = [
        each
        for each in files
        if each.path in named or (each.path not in living and each.modified is not None and each.modified < latest)
    ]
    if dead:  # a retry may have written one of them again meanwhile
        still = set(place.list(""))
        dead = [each for each in dead if each in still]
        place.delete([each.path for each in dead])
    return len(dead)
