"""Appending: parts first, each under a name that follows from the batch, then the record that makes them count."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from spillscan import __version__
from spillscan.dataset import schema
from spillscan.dataset import store as names
from spillscan.dataset.builds import Commit, Part
from spillscan.dataset.schema import Field, IssueRow, KernelRow, UnitRow, encode
from spillscan.dataset.store import Store, Unit, digest, needed, store
from spillscan.errors import UsageError

if TYPE_CHECKING:
    import pyarrow

    from spillscan.model import Build

LARGEST_PART_ROWS = 1 << 18
"""More rows become several files."""
GROUP_ROWS = 1 << 13
"""Rows of a row group: what is read to find one kernel."""


def write(root: str, label: str, results: Sequence[tuple[Unit, Build | None]], meta: Mapping[str, str]) -> None:
    """See :func:`spillscan.dataset.write_batch`."""
    names.check_label(label)
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
        *write_rows(aim, "units", names.folder(names.UNITS, label), batch, sorted(units, key=lambda row: row.unit.uri)),
        *write_rows(aim, "issues", names.folder(names.ISSUES, label), batch, issues),
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
        yield from write_rows(aim, "kernels", names.folder(names.KERNELS, label, arch), name, list(group), arch)


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
