"""Appending.

An append writes its parts first, each under a name that follows from the batch, then the record that makes them count.
Killed at any moment, it leaves a dataset that reads the same. The record stands a second time in the last file that is
written before it: the file of the units, so that a record that is lost can be restored.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from spillscan import __version__
from spillscan.history.dataset import schema
from spillscan.history.dataset.records import Commit, Part, document, to_bytes
from spillscan.history.dataset.schema import IssueRow, KernelRow, UnitRow
from spillscan.history.dataset.shapes import encode
from spillscan.history.dataset.store import (
    ISSUES,
    KERNELS,
    UNITS,
    Store,
    Unit,
    check_label,
    checksum,
    digest,
    folder,
    needed,
    store,
)
from spillscan.output.errors import UsageError

if TYPE_CHECKING:
    import pyarrow

    from spillscan.model import Build

LARGEST_PART_ROWS = 1 << 18
"""More rows become several files."""
GROUP_ROWS = 1 << 13
"""Rows of a row group: what is read to find one kernel."""
COPY = "spillscan.record"
"""Where the record of a commit stands a second time, in the footer of its file of units."""


def write(
    root: str, label: str, results: Sequence[tuple[Unit, Build | None]], meta: Mapping[str, str], begun: str
) -> str:
    """See :func:`spillscan.history.dataset.write_batch`; the name of the batch, empty where there is nothing in it."""
    check_label(label)
    meta = _checked(meta)
    distinct = {unit.id: (unit, None if build is None else build.named) for unit, build in results}
    if not distinct:
        return ""
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
        *write_rows(aim, "issues", folder(ISSUES, label), batch, issues),
    ]
    commit = Commit(
        name=batch, label=label, time=now(), first_time=begun, parts=tuple(parts), meta=meta, tool=__version__
    )
    rows = encoded("units", sorted(units, key=lambda row: row.unit.uri))
    put(aim, [commit], folder(UNITS, label), rows)
    return batch


def put(aim: Store, commits: Sequence[Commit], below: str, units: pyarrow.Table) -> None:
    """Write the units of a batch, or of several builds, and make it count."""
    name = commits[0].name
    for piece in pieces(units):
        copy = json.dumps(document([_untimed(each) for each in commits]))
        part = put_part(aim, "units", f"{below}/{name}", piece, about={COPY: copy})
        commits = [msgspec.structs.replace(each, parts=(*each.parts, part)) for each in commits]
    aim.put(commits[0].path, to_bytes(commits))


def _untimed(commit: Commit) -> Commit:
    """Of an append the times are left out: the same batch has the same files."""
    return commit if commit.replaces else msgspec.structs.replace(commit, time="", first_time="")


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
    aim: Store, table: str, folder: str, name: str, rows: Sequence[Any], arch: str | None = None
) -> Iterable[Part]:
    """The parts of some rows, in their order."""
    for start in range(0, len(rows), LARGEST_PART_ROWS):
        piece = encoded(table, rows[start : start + LARGEST_PART_ROWS])
        yield put_part(aim, table, f"{folder}/{name}", piece, arch)


def pieces(rows: pyarrow.Table) -> Iterator[pyarrow.Table]:
    """Rows as they go into files."""
    for start in range(0, rows.num_rows, LARGEST_PART_ROWS):
        yield rows.slice(start, LARGEST_PART_ROWS)


def encoded(table: str, rows: Sequence[Any]) -> pyarrow.Table:
    """Rows as Arrow has them, without what folders say."""
    import pyarrow as pa

    columns = [encode([field.get(row) for row in rows], field.shape) for field in schema.TABLES[table]]
    return pa.Table.from_arrays(columns, schema=schema.arrow_schema(table, folders=False))


def put_part(
    aim: Store,
    table: str,
    stem: str,
    rows: pyarrow.Table,
    arch: str | None = None,
    group: int = GROUP_ROWS,
    about: Mapping[str, str] | None = None,
) -> Part:
    """Write one Parquet file, with checksums of its pages, under a name that follows from its bytes: what a record
    names is never overwritten. Its columns are plain enough to need no second schema, Arrow's, half of a small file."""
    import pyarrow.parquet as pq

    said = {"spillscan.schema_version": str(schema.VERSION), "spillscan.table": table, **(about or {})}
    buffer = io.BytesIO()
    options = {"compression": "zstd", "store_schema": False, "write_page_checksum": True}
    with pq.ParquetWriter(buffer, rows.schema, **options) as writer:
        writer.write_table(rows, row_group_size=group)
        writer.add_key_value_metadata(said)
    data = buffer.getvalue()
    xxh3 = checksum(io.BytesIO(data))
    path = f"{stem}-{xxh3[:8]}.parquet"
    aim.put(path, data)
    return Part(path=path, table=table, arch=arch, rows=rows.num_rows, size_bytes=len(data), xxh3=xxh3)


def _checked(meta: Mapping[str, str]) -> dict[str, str]:
    if time := meta.get("time"):
        try:
            datetime.fromisoformat(time)
        except ValueError:
            raise UsageError(f"meta time={time!r} is not a date", "write it as 2026-03-01T12:00:00Z") from None
    return dict(sorted(meta.items()))
