"""Appending, and few large files instead of many small ones.

An append writes its parts first, each under a name that follows from the batch, then the record that makes them count.
A compaction is an append that replaces: new parts, then one record that names them and the commits it replaces, then
their deletion. Killed at any moment, it leaves a dataset that reads the same.
"""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from spillscan import __version__
from spillscan.history.dataset import links, schema
from spillscan.history.dataset.builds import Commit, Part, current, load, to_bytes
from spillscan.history.dataset.reading import Dataset, kernel_of
from spillscan.history.dataset.schema import IssueRow, KernelRow, UnitRow, encode
from spillscan.history.dataset.store import (
    COMMITS,
    DRAFT,
    ISSUES,
    KERNELS,
    LINKS,
    UNITS,
    Store,
    Unit,
    check_label,
    digest,
    folder,
    needed,
    store,
)
from spillscan.output.errors import InputError, UsageError
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    import pyarrow

    from spillscan.model import Build

LARGEST_PART_ROWS = 1 << 18
"""More rows become several files."""
GROUP_ROWS = 1 << 13
"""Rows of a row group: what is read to find one kernel."""
SHARED_ROWS = 1 << 17
"""Builds share files up to so many rows: what is read to get one of them back."""
SHARED_GROUP_ROWS = 1 << 14
"""Rows of a row group of these: a kernel has few in each file, and there are many files."""
FEWEST_SHARING = 16
"""Fewer builds than this stay as they are: who audits each night does not write the last month anew each night."""


def write(root: str, label: str, results: Sequence[tuple[Unit, Build | None]], meta: Mapping[str, str]) -> None:
    """See :func:`spillscan.history.dataset.write_batch`."""
    check_label(label)
    meta = _checked(meta)
    distinct = {unit.id: (unit, build) for unit, build in results}
    if not distinct:
        return
    with needed():
        import pyarrow.parquet  # noqa: F401 - before anything is written
    batch = batch_name(label, [unit for unit, _ in distinct.values()])
    aim = store(root)
    units = [UnitRow(unit, batch, build) for unit, build in distinct.values()]
    issues = [
        IssueRow(issue, unit_id, batch, position)
        for unit_id, (_, build) in distinct.items()
        if build is not None
        for position, issue in enumerate(build.issues)
    ]
    kernels = [
        schema.row_of(kernel, unit_id, batch, position)
        for unit_id, (_, build) in distinct.items()
        if build is not None
        for position, kernel in enumerate(build.kernels)
    ]
    parts = [
        *write_kernels(aim, label, batch, kernels),
        *write_rows(aim, "units", folder(UNITS, label), batch, sorted(units, key=lambda row: row.unit.uri)),
        *write_rows(aim, "issues", folder(ISSUES, label), batch, issues),
    ]
    put(aim, Commit(name=batch, label=label, time=now(), parts=tuple(parts), meta=meta, tool=__version__))


def put(aim: Store, *commits: Commit) -> None:
    """Make a batch, or what several builds share, count."""
    aim.put(commits[0].path, to_bytes(commits))


def now() -> str:
    """The time of a commit."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def batch_name(label: str, units: Iterable[Unit]) -> str:
    """The same for the same units of one build, read by the same spillscan."""
    read = sorted((unit.id, unit.failure or "") for unit in units)
    return digest(str(schema.VERSION), __version__, label, *(word for pair in read for word in pair))


def write_kernels(aim: Store, label: str, name: str, rows: list[KernelRow]) -> Iterable[Part]:
    """The parts of ``kernels``: files by arch, rows by canonical name."""
    rows.sort(key=_order)
    for arch, group in groupby(rows, key=lambda row: row.kernel.key.arch):
        yield from write_rows(aim, "kernels", folder(KERNELS, label, arch), name, list(group), arch)


def _order(row: KernelRow) -> tuple[Any, ...]:
    key = row.kernel.key
    return key.arch or "", key.arch is not None, row.canonical, key.symbol, row.unit_id, row.position


def write_rows(
    aim: Store,
    table: str,
    folder: str,
    name: str,
    rows: Sequence[Any],
    arch: str | None = None,
) -> Iterable[Part]:
    """The parts of some rows, in their order."""
    for number, start in enumerate(range(0, len(rows), LARGEST_PART_ROWS)):
        piece = encoded(table, rows[start : start + LARGEST_PART_ROWS])
        yield put_part(aim, table, f"{folder}/{_file(name, number)}", piece, arch)


def _file(name: str, number: int) -> str:
    return f"{name}{f'-{number}' if number else ''}.parquet"


def encoded(table: str, rows: Sequence[Any]) -> pyarrow.Table:
    """Rows as Arrow has them, without what folders say."""
    import pyarrow as pa

    columns = [encode([field.get(row) for row in rows], field.shape) for field in schema.TABLES[table]]
    return pa.Table.from_arrays(columns, schema=schema.arrow_schema(table, folders=False))


def put_part(aim: Store, table: str, path: str, rows: pyarrow.Table, arch: str | None, group: int = GROUP_ROWS) -> Part:
    """Write one Parquet file. Its columns are plain enough to need no second schema, Arrow's, half of a small file."""
    import pyarrow.parquet as pq

    about = {"spillscan.schema_version": str(schema.VERSION), "spillscan.table": table}
    buffer = io.BytesIO()
    pq.write_table(
        rows.replace_schema_metadata(about), buffer, compression="zstd", row_group_size=group, store_schema=False
    )
    data = buffer.getvalue()
    aim.put(path, data)
    return Part(path=path, table=table, arch=arch, rows=rows.num_rows, size_bytes=len(data))


def _checked(meta: Mapping[str, str]) -> dict[str, str]:
    if time := meta.get("time"):
        try:
            datetime.fromisoformat(time)
        except ValueError:
            raise UsageError(f"meta time={time!r} is no date", "write it as 2026-03-01T12:00:00Z") from None
    return dict(sorted(meta.items()))


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
        hint = "spillscan dataset info lists them"
        raise InputError(f"{dataset.root} has no build {clip(printable(strange[0]), 60)}", hint)
    groups = list(_groups(dataset, wanted))
    for group in groups:
        _rewrite(dataset, group)
    return Compacted(labels=sum(map(len, groups)), files_before=before, files_after=len(place.list("")), swept=swept)


def _groups(dataset: Dataset, wanted: set[str]) -> Iterator[list[str]]:
    """Builds that are to be written together, in the order of their time. What shares a file stays together; neighbours
    come to it while it is small and they are many."""
    held: dict[str, list[Commit]] = {}
    for each in dataset.commits:
        held.setdefault(each.label, []).append(each)
    units: dict[str, list[str]] = {}
    for label in dataset.labels:
        shared = [each.path for each in held[label] if each.shared is not None]
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


def _rewrite(dataset: Dataset, labels: Sequence[str]) -> None:
    """One commit of one build, or one of several that share its files."""
    own = set(labels)
    held = [each for each in dataset.commits if each.label in own]
    name = digest(
        "compaction", str(schema.VERSION), *(word for each in held for word in (each.label, each.name, each.time))
    )
    rows = {table: _living(dataset, table, labels, name) for table in schema.TABLES}
    before = links.neighbours(dataset) if len(labels) > 1 else {}
    parts = tuple(
        _one(dataset.place, labels[0], name, rows) if len(labels) == 1 else _several(dataset, name, rows, before)
    )
    counts = {table: Counter(each.column("label").to_pylist()) for table, each in rows.items()}
    commits = []
    latest = {each.label: each.time for each in dataset.commits}  # they stand in the order of time
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
                shared=None if len(labels) == 1 else {table: counts[table][label] for table in schema.TABLES},
                follows=(before[label], latest[before[label]]) if label in before else None,
                tool=__version__,
            )
        )
    put(dataset.place, *commits)
    _delete(dataset.place, held)


_ORDER = {
    "kernels": ("canonical", "arch", "symbol", "at", "unit_id", "position"),
    "units": ("at", "uri"),
    "issues": ("at", "unit_id", "position"),
}
"""Of the rows that a compaction writes; ``at``: the place of the build."""


def _living(dataset: Dataset, table: str, labels: Sequence[str], name: str) -> pyarrow.Table:
    """The rows of some builds that count, as a commit of that name has them: one kernel's builds one after the other,
    so that who asks for it skips the rest, and what does not change from build to build takes no space."""
    import pyarrow as pa
    import pyarrow.compute as pc

    places = {label: at for at, label in enumerate(labels)}
    old = {each.label for each in dataset.commits if each.label in places and each.version != schema.VERSION}
    pieces = [dataset.living(table, [label for label in labels if table != "kernels" or label not in old])]
    for label in labels if table == "kernels" else ():
        if label in old:  # figures that follow from others are computed anew
            held = dataset.rows("kernels", (label,))
            made = [schema.row_of(kernel_of(row), row["unit_id"], name, row["position"]) for row in held]
            piece = encoded(table, made).add_column(
                0, "arch", pa.array([row.kernel.key.arch for row in made], pa.string())
            )
            pieces.append(piece.add_column(0, "label", pa.array([label] * len(made), pa.string())))
    rows = pa.concat_tables(pieces)
    rows = rows.set_column(
        rows.schema.get_field_index("commit"), "commit", pa.array([name] * rows.num_rows, pa.string())
    )
    at = pa.array([places[label] for label in rows.column("label").to_pylist()], pa.int64())
    keys = [(key, "ascending") for key in _ORDER[table]]
    return rows.take(pc.sort_indices(rows.append_column("at", at).select(_ORDER[table]), sort_keys=keys))


def _one(aim: Store, label: str, name: str, rows: Mapping[str, pyarrow.Table]) -> Iterator[Part]:
    """The parts of one build, in folders of its own."""
    import pyarrow.compute as pc

    for table, every in rows.items():
        if table != "kernels":
            yield from _pieces(aim, table, folder(table, label), name, every.drop_columns("label"))
            continue
        column = every.column("arch")
        for arch in pc.unique(column).to_pylist():
            mine = every.filter(pc.is_null(column) if arch is None else pc.equal(column, arch))
            yield from _pieces(aim, table, folder(table, label, arch), name, mine.drop_columns(["label", "arch"]), arch)


def _several(
    dataset: Dataset, name: str, rows: Mapping[str, pyarrow.Table], before: Mapping[str, str]
) -> Iterator[Part]:
    """The parts of several builds, which say in columns what folders say of one; and what goes on under another name in
    each of them, ``before`` which another stands."""
    for table, every in rows.items():
        yield from _pieces(dataset.place, table, f"{table}/several", name, every, group=SHARED_GROUP_ROWS)
    labels = dict.fromkeys(rows["kernels"].column("label").to_pylist())
    now = Dataset(dataset.place, load(dataset.place))  # the first one's neighbour may have been written anew just now
    found = {
        after: some
        for (_, after), some in links.found(now, [(before[each], each) for each in labels if each in before])
    }
    if any(found.values()):
        yield from _pieces(dataset.place, LINKS, f"{LINKS}/several", name, links.to_table(found))


def _pieces(
    aim: Store,
    table: str,
    below: str,
    name: str,
    rows: pyarrow.Table,
    arch: str | None = None,
    group: int = GROUP_ROWS,
) -> Iterator[Part]:
    for number, start in enumerate(range(0, rows.num_rows, LARGEST_PART_ROWS)):
        yield put_part(aim, table, f"{below}/{_file(name, number)}", rows.slice(start, LARGEST_PART_ROWS), arch, group)


def _delete(place: Store, gone: Sequence[Commit]) -> None:
    """Records first: a file that no record names is harmless, a record whose files are gone is not."""
    place.delete(sorted({each.path for each in gone}))
    place.delete(sorted({part.path for each in gone for part in each.parts}))


def _sweep(place: Store, hours: float) -> int:
    """Delete commits that others replace, and files that no record names and that are old.

    Files are listed before the records are read: what is committed in between has a record then.
    """
    files = [each for each in place.list("") if each.path.endswith(".parquet") or DRAFT in each.path]
    present = load(place, replaced=True)
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
