"""Tables of a dataset. Each row is a struct, from which Arrow's schema and the documentation are generated.

The column ``kernel`` contains the whole record (``scan -f json``); the other columns are for queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from spillscan.model import Build, Issue, Kernel, Launch, LaunchBounds, Origin
from spillscan.model.metrics import STORED, Metric
from spillscan.model.serialize import kernel_text, text
from spillscan.model.usage import NUMBERS
from spillscan.naming.same_named import configuration
from spillscan.naming.symbol import canonical

if TYPE_CHECKING:
    import pyarrow

    from spillscan.history.dataset.store import Unit

VERSION = 3
"""Version of these tables; a dataset of another version is refused."""


class Launched(Struct, frozen=True):
    """Launch of a kernel, as far as known."""

    launch_bounds: LaunchBounds | None
    dynamic_shared: bool | None
    launch: Launch | None
    configuration: tuple[tuple[str, str], ...]


def _column(name: str, kind: Any, about: str) -> tuple[str, Any]:
    return name, Annotated[kind, Meta(description=about)]


_METRICS: tuple[Metric, ...] = STORED
KernelRow: Any = msgspec.defstruct(
    "KernelRow",
    [
        _column("canonical", str, "symbol without parts that depend on checkout or toolkit"),
        _column("arch", str | None, "arch, such as `sm_90a`"),
        _column("symbol", str, "symbol as printed"),
        _column("name", str, "full demangled name"),
        _column("short_name", str, "name without scopes, template arguments and parameters"),
        _column("object", str, "object file, else source file, named in the input"),
        _column("source", str, "source file, if the input names it"),
        _column("role", str, "`entry`, `function` (device function) or `unknown`"),
        _column("confidence", str, "`certain` or `ambiguous` (as for interleaved output)"),
        _column(
            "final",
            bool | None,
            "`false` before and `true` after the link, for code known to be relocatable; else null",
        ),
        *(_column(each.name, int | None, each.about) for each in _METRICS),
        _column("compile_ms", float | None, "compile time in ms, as printed"),
        _column("variant", str | None, "JSON: autotuning configuration, or required block size"),
        _column("launched", str, "JSON: `launch_bounds`, `dynamic_shared`, `launch`, `configuration`"),
        _column("kernel", str, "JSON: whole record, as in `scan -f json`"),
        _column("unit_id", str, "`unit_id` in `units`"),
        _column("position", int, "row number within the unit"),
        _column("commit", str, "ID of the write that stored the row (not a git commit)"),
    ],
)
"""One kernel; the rows of a file are ordered by ``canonical``."""


class UnitRow(Struct):
    """One unit and its reading."""

    unit_id: Annotated[str, Meta(description="hash of `uri` and content")]
    uri: Annotated[str, Meta(description="path or URL")]
    content_hash: Annotated[str, Meta(description="hash of the content")]
    size_bytes: Annotated[int | None, Meta(description="size of the file")]
    failure: Annotated[str | None, Meta(description="why reading failed")]
    store_tag: Annotated[str | None, Meta(description="ETag in the object store")]
    kernels: Annotated[int | None, Meta(description="kernels and device functions")]
    inputs: Annotated[int | None, Meta(description="inputs read")]
    lines: Annotated[int | None, Meta(description="lines read")]
    bytes: Annotated[int | None, Meta(description="bytes read")]
    recognised_lines: Annotated[int | None, Meta(description="lines understood")]
    unknown_lines: Annotated[int | None, Meta(description="lines not understood")]
    unknown_clauses: Annotated[int | None, Meta(description="parts of ptxas lines not understood")]
    commit: Annotated[str, Meta(description="as in `kernels`")]


class IssueRow(Struct):
    """One issue."""

    code: Annotated[str, Meta(description="kind, such as `truncated`")]
    severity: Annotated[str, Meta(description="`error`, `warning` or `note`")]
    message: Annotated[str, Meta(description="the problem")]
    input: Annotated[str | None, Meta(description="name of the input")]
    line: Annotated[int | None, Meta(description="line number")]
    format: Annotated[str | None, Meta(description="format of the input")]
    hides: Annotated[
        tuple[str, ...] | None,
        Meta(description="data that may be missing, such as `spills` (null: as usual for this `code`)"),
    ]
    symbol: Annotated[str, Meta(description="symbol of its kernel, if any")]
    unit_id: Annotated[str, Meta(description="`unit_id` in `units`")]
    position: Annotated[int, Meta(description="row number within the unit")]
    commit: Annotated[str, Meta(description="as in `kernels`")]


TABLES: dict[str, Any] = {"kernels": KernelRow, "units": UnitRow, "issues": IssueRow}


class Column(NamedTuple):
    """One column of a table."""

    name: str
    kind: Any
    """``str``, ``int``, ``float``, ``bool``, or ``tuple`` of strings; each may be null."""
    about: str


@lru_cache
def columns(table: str) -> tuple[Column, ...]:
    """Columns of a table, except ``label``, which is in the path."""
    result = []
    for name, hint in get_type_hints(TABLES[table], include_extras=True).items():
        kind, meta = get_args(hint)
        if get_origin(kind) in (UnionType, Union):
            kind = next(each for each in get_args(kind) if each is not type(None))
        result.append(Column(name, get_origin(kind) or kind, meta.description))
    return tuple(result)


def arrow_schema(table: str, *, label: bool) -> pyarrow.Schema:
    """Arrow schema of a table, with or without ``label``."""
    import pyarrow as pa

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), tuple: pa.list_(pa.string())}
    fields = [pa.field("label", pa.string())] * label
    return pa.schema([*fields, *(pa.field(each.name, kinds[each.kind]) for each in columns(table))])


_LARGEST = 2**63 - 1


def encoded(table: str, rows: Sequence[Any]) -> pyarrow.Table:
    """Arrow table of ``rows``."""
    import pyarrow as pa

    schema = arrow_schema(table, label=False)
    arrays = []
    for field in schema:
        values = [getattr(row, field.name) for row in rows]
        try:
            arrays.append(pa.array(values, field.type))
        except UnicodeEncodeError:  # lone surrogates, as in file names
            arrays.append(pa.array([None if each is None else storable(each) for each in values], field.type))
        except OverflowError:  # only from damaged input
            known = [each if each is None or abs(each) <= _LARGEST else None for each in values]
            arrays.append(pa.array(known, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def storable(words: str) -> str:
    """``words`` with lone surrogates escaped, so that UTF-8 can encode them."""
    return words.encode("utf-8", "backslashreplace").decode()


def kernel_row(kernel: Kernel, unit_id: str, commit: str, position: int) -> Any:
    """Row of a kernel."""
    chosen = configuration(kernel)
    launched = Launched(kernel.launch_bounds, kernel.dynamic_shared, kernel.launch, kernel.configuration)
    return KernelRow(
        canonical=canonical(kernel.key.symbol),
        arch=kernel.key.arch,
        symbol=kernel.key.symbol,
        name=kernel.name,
        short_name=kernel.short_name,
        object=kernel.key.unit,
        source=kernel.source,
        role=kernel.role,
        confidence=kernel.confidence,
        final=kernel.final,
        **{each.name: value(each, kernel) for each in _METRICS},
        compile_ms=kernel.compile_ms,
        variant=None if chosen is None else text(chosen),
        launched=text(launched),
        kernel=kernel_text(kernel),
        unit_id=unit_id,
        position=position,
        commit=commit,
    )


def value(metric: Metric, kernel: Kernel) -> int | None:
    """Stored value of a metric."""
    if metric.name in NUMBERS:
        amount: int | None = getattr(kernel.usage, metric.name)
        return amount
    assert metric.get is not None
    value: int | None = metric.get(kernel)
    return value


def unit_row(unit: Unit, build: Build | None, commit: str) -> UnitRow:
    """Row of a unit."""
    stats = {} if build is None else msgspec.structs.asdict(build.stats)
    names = ("inputs", "lines", "bytes", "recognised_lines", "unknown_lines", "unknown_clauses")
    return UnitRow(
        unit_id=unit.id,
        uri=unit.uri,
        content_hash=unit.content_hash,
        size_bytes=unit.size_bytes,
        failure=unit.failure,
        store_tag=unit.store_tag,
        kernels=None if build is None else len(build.kernels),
        commit=commit,
        **{name: stats.get(name) for name in names},
    )


def issue_row(issue: Issue, unit_id: str, commit: str, position: int) -> IssueRow:
    """Row of an issue."""
    origin = issue.origin
    return IssueRow(
        code=issue.code,
        severity=issue.severity,
        message=issue.message,
        input=None if origin is None else origin.input,
        line=None if origin is None else origin.line,
        format=None if origin is None else origin.format,
        hides=issue.hides,
        symbol=issue.symbol,
        unit_id=unit_id,
        position=position,
        commit=commit,
    )


def issue_of(row: dict[str, Any]) -> Issue:
    """Issue of a row."""
    known = row["input"] is not None
    return Issue(
        code=row["code"],
        severity=row["severity"],
        message=row["message"],
        origin=Origin(input=row["input"], line=row["line"], format=row["format"]) if known else None,
        hides=None if row["hides"] is None else tuple(row["hides"]),
        symbol=row["symbol"],
    )


@lru_cache(maxsize=1 << 12)
def launched_of(words: str) -> Launched:
    """Launch of a stored kernel."""
    return msgspec.json.decode(words, type=Launched)


@lru_cache(maxsize=1 << 12)
def settings_of(variant: str | None) -> tuple[tuple[str, str], ...]:
    """Tuned configuration of a stored kernel; empty if it has none."""
    chosen = msgspec.json.decode(variant) if variant else None
    return tuple((name, value) for name, value in chosen) if isinstance(chosen, list) else ()
