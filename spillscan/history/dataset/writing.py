"""Append batches to a dataset.

An append first writes its parts, under names derived from the batch, then the record that makes them valid. If killed
at any moment, the dataset still reads the same.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from spillscan import __version__
from spillscan.history.dataset import schema
from spillscan.history.dataset.records import Commit, Part, to_bytes
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
)
from spillscan.output.errors import UsageError

if TYPE_CHECKING:
    import pyarrow

    from spillscan.model import Build

LARGEST_PART_ROWS = 1 << 18
"""Maximum rows per file; more become several files."""
GROUP_ROWS = 1 << 13
"""Rows per row group, the amount read to find one kernel."""


def write(
    root: str, label: str, results: Sequence[tuple[Unit, Build | None]], meta: Mapping[str, str], begun: str
) -> None:
    """See :func:`spillscan.history.dataset.write_batch`."""
    check_label(label)
    meta = checked(meta)
    distinct = {unit.id: (unit, None if build is None else build.named) for unit, build in results}
    if not distinct:
        return
    with needed():
        import pyarrow.parquet  # noqa: F401 - fail before anything is written
    batch = batch_name(label, [unit for unit, _ in distinct.values()])
    aim = Store(root)
    units = [schema.unit_row(unit, build, batch) for unit, build in distinct.values()]
    built = [(unit_id, build) for unit_id, (_, build) in distinct.items() if build is not None]
    issues = [
        schema.issue_row(issue, unit, batch, at) for unit, build in built for at, issue in enumerate(build.issues)
    ]
    kernels = [
        schema.kernel_row(kernel, unit, batch, at) for unit, build in built for at, kernel in enumerate(build.kernels)
    ]
    kernels.sort(key=lambda row: (row.canonical, row.arch or "", row.symbol, row.unit_id, row.position))
    parts = [
        *_put_rows(aim, "kernels", folder(KERNELS, label), batch, kernels),
        *_put_rows(aim, "issues", folder(ISSUES, label), batch, issues),
    ]
    commit = Commit(
        name=batch, label=label, time=now(), first_time=begun, parts=tuple(parts), meta=meta, tool=__version__
    )
    put(aim, commit, schema.encoded("units", sorted(units, key=lambda row: row.uri)))


def put(aim: Store, commit: Commit, units: pyarrow.Table) -> None:
    """Write the units of a batch, then its record, which makes it valid."""
    below = folder(UNITS, commit.label)
    parts = [put_part(aim, "units", f"{below}/{commit.name}", piece) for piece in pieces(units)]
    aim.put(commit.path, to_bytes(msgspec.structs.replace(commit, parts=(*commit.parts, *parts))))


def now() -> str:
    """Current time, as stored in a commit."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def batch_name(label: str, units: Iterable[Unit]) -> str:
    """Name of a batch: the same for the same units of one build and version of spillscan."""
    read = sorted((unit.id, unit.failure or "") for unit in units)
    return digest(str(schema.VERSION), __version__, label, *(word for pair in read for word in pair))


def _put_rows(aim: Store, table: str, folder: str, name: str, rows: Sequence[Any]) -> Iterator[Part]:
    for start in range(0, len(rows), LARGEST_PART_ROWS):
        yield put_part(aim, table, f"{folder}/{name}", schema.encoded(table, rows[start : start + LARGEST_PART_ROWS]))


def pieces(rows: pyarrow.Table) -> Iterator[pyarrow.Table]:
    """Rows split into pieces of one file each."""
    for start in range(0, rows.num_rows, LARGEST_PART_ROWS):
        yield rows.slice(start, LARGEST_PART_ROWS)


def put_part(aim: Store, table: str, stem: str, rows: pyarrow.Table) -> Part:
    """Write one Parquet file with page checksums, under a name derived from its bytes.

    So files that a record names are never overwritten. Arrow's own schema is left out: the columns are simple, and it
    would be half of a small file.
    """
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    options = {"compression": "zstd", "store_schema": False, "write_page_checksum": True}
    with pq.ParquetWriter(buffer, rows.schema, **options) as writer:
        writer.write_table(rows, row_group_size=GROUP_ROWS)
        writer.add_key_value_metadata({"spillscan.schema_version": str(schema.VERSION), "spillscan.table": table})
    data = buffer.getvalue()
    digits = checksum(io.BytesIO(data))
    path = f"{stem}-{digits[:8]}.parquet"
    aim.put(path, data)
    return Part(path=path, table=table, rows=rows.num_rows, size_bytes=len(data), sha256=digits)


def checked(meta: Mapping[str, str]) -> dict[str, str]:
    """``meta`` in the order of its keys. Raises UsageError if its time is not a date."""
    if time := meta.get("time"):
        try:
            datetime.fromisoformat(time)
        except ValueError:
            raise UsageError(f"--meta time={time!r} is not a date", "write a date like 2026-03-01T12:00:00Z") from None
    return dict(sorted(meta.items()))
