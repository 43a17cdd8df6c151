"""Appending, and few large files instead of many small ones.

An append writes its parts first, each under a name that follows from the batch, then the record that makes them count.
A compaction is an append that replaces: new parts, then one record that names them and the commits it replaces, then
their deletion. Killed at any moment, it leaves a dataset that reads the same.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from spillscan import __version__
from spillscan.dataset import schema
from spillscan.dataset.builds import Commit, Part, current, load
from spillscan.dataset.reading import Dataset
from spillscan.dataset.schema import Field, IssueRow, KernelRow, UnitRow, encode
from spillscan.dataset.store import (
    DRAFT,
    ISSUES,
    KERNELS,
    UNITS,
    Store,
    Unit,
    check_label,
    digest,
    folder,
    needed,
    store,
)
from spillscan.errors import InputError, UsageError
from spillscan.output.safe import clip, printable

if TYPE_CHECKING:
    import pyarrow

    from spillscan.model import Build

LARGEST_PART_ROWS = 1 << 18
"""More rows become several files."""
GROUP_ROWS = 1 << 13
"""Rows of a row group: what is read to find one kernel."""


def write(root: str, label: str, results: Sequence[tuple[Unit, Build | None]], meta: Mapping[str, str]) -> None:
    """See :func:`spillscan.dataset.write_batch`."""
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


def put(aim: Store, commit: Commit) -> None:
    """Make a batch count."""
    aim.put(commit.path, commit.to_bytes())


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
    value: Callable[[Field, Any], Any] = lambda field, row: field.get(row),
) -> Iterable[Part]:
    """The parts of some rows, in their order."""
    fields = schema.TABLES[table]
    for number, start in enumerate(range(0, len(rows), LARGEST_PART_ROWS)):
        piece = rows[start : start + LARGEST_PART_ROWS]
        columns = [encode([value(field, row) for row in piece], field.shape) for field in fields]
        yield put_part(aim, table, f"{folder}/{name}{f'-{number}' if number else ''}.parquet", columns, arch)


def put_part(aim: Store, table: str, path: str, columns: list[pyarrow.Array], arch: str | None) -> Part:
    """Write one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {"spillscan.schema_version": str(schema.VERSION), "spillscan.table": table}
    rows = pa.Table.from_arrays(columns, schema=schema.arrow_schema(table, folders=False)).replace_schema_metadata(
        about
    )
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd", row_group_size=GROUP_ROWS)
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
    """Write builds of more than one commit, or of an older schema, anew; delete what is surely dead.

    Not while one of the builds is being appended to: what is appended at the same time may have to be audited again.
    """
    place = dataset.place
    before = len(place.list(""))
    swept = _sweep(place, hours)
    wanted = dataset.labels if labels is None else tuple(labels)
    done = [label for label in wanted if _rewrite(dataset, label)]
    return Compacted(labels=len(done), files_before=before, files_after=len(place.list("")), swept=swept)


def _rewrite(dataset: Dataset, label: str) -> bool:
    place = dataset.place
    held = [each for each in dataset.commits if each.label == label]
    if not held:
        raise InputError(
            f"{dataset.root} has no build {clip(printable(label), 60)}", "spillscan dataset info lists them"
        )
    if len(held) == 1 and held[0].version == schema.VERSION:
        return False
    name = digest("compaction", str(schema.VERSION), label, *(word for each in held for word in (each.name, each.time)))
    parts = [*_kernels(dataset, label, name), *_others(dataset, label, name)]
    meta: dict[str, str] = {}
    for each in held:
        meta.update(each.meta)
    whole = Commit(
        name=name,
        label=label,
        time=held[-1].time,
        first_time=min(each.first_time or each.time for each in held),
        parts=tuple(parts),
        meta=meta,
        replaces={each.name: each.time for each in held},
        tool=__version__,
    )
    put(place, whole)
    _delete(place, held)
    return True


def _kernels(dataset: Dataset, label: str, name: str) -> Iterator[Part]:
    """Arch by arch, so that no more than one is held at once."""
    held = (each for each in dataset.commits if each.label == label)
    arches = {part.arch for each in held for part in each.parts if part.table == "kernels"}
    for arch in sorted(arches, key=lambda each: each or ""):
        found = dataset.kernels_of(label, (arch,))
        yield from write_kernels(
            dataset.place, label, name, [schema.row_of(*each[:2], name, each[2]) for each in found]
        )


def _others(dataset: Dataset, label: str, name: str) -> Iterator[Part]:
    for table, key in (("units", "uri"), ("issues", "unit_id")):
        rows = sorted(dataset.rows(table, label), key=lambda row: (row[key], row.get("position", 0)))
        below = folder(table, label)
        yield from write_rows(
            dataset.place, table, below, name, [row | {"commit": name} for row in rows], None, _stored
        )


def _stored(field: Field, row: dict[str, Any]) -> Any:
    return row[field.name]


def _delete(place: Store, gone: Sequence[Commit]) -> None:
    """Records first: a file that no record names is harmless, a record whose files are gone is not."""
    place.delete([each.path for each in gone])
    place.delete([part.path for each in gone for part in each.parts])


def _sweep(place: Store, hours: float) -> int:
    """Delete commits that others replace, and files that no record names and that are old.

    Files are listed before the records are read: what is committed in between has a record then.
    """
    files = [each for each in place.list("") if each.path.endswith(".parquet") or DRAFT in each.path]
    present = load(place, replaced=True)
    kept = current(present)
    living = {part.path for each in kept for part in each.parts}
    left = [each for each in present if each not in kept]
    place.delete([each.path for each in left])
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
