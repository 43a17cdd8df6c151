"""The columns of a dataset, each stated once. Versions only add columns: what is there never changes its meaning.

``docs/dataset.md`` lists them from here. Records within columns (``sass``) keep their fields for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from spillscan.dataset.shape import Field, Many, Record, Scalar, Shape, arrow_type
from spillscan.identity import canonical
from spillscan.model import Advisory, Issue, Kernel, LaunchBounds, Origin, Stats
from spillscan.model.code import Group, LivePeak, LocalTraffic, Maker, Operands, SassStats, SourceLine, Traffic
from spillscan.model.figures import KEPT
from spillscan.model.usage import NUMBERS, PRINTED, Figure

if TYPE_CHECKING:
    import pyarrow

    from spillscan.dataset.unit import Unit
    from spillscan.model import Build


class KernelRow(NamedTuple):
    """One kernel, and where it belongs."""

    kernel: Kernel
    unit_id: str
    commit: str
    position: int
    canonical: str


class UnitRow(NamedTuple):
    """One unit, and what was read of it."""

    unit: Unit
    commit: str
    build: Build | None


class IssueRow(NamedTuple):
    """One issue, and where it belongs."""

    issue: Issue
    unit_id: str
    commit: str
    position: int


def _plain(names: Iterable[str], shape: Scalar) -> tuple[Field, ...]:
    return tuple(Field(name=name, shape=shape, get=attrgetter(name)) for name in names)


def _pair(names: tuple[str, str], make: Any = lambda *pair: pair) -> Record:
    fields = tuple(Field(name=name, shape="whole", get=itemgetter(at)) for at, name in enumerate(names))
    return Record(fields, make)


_ORIGIN = Record(
    (*_plain(("input",), "text"), *_plain(("line",), "whole"), *_plain(("format",), "text")),
    lambda input, line, format: Origin(input=input, line=line, format=format),
)
_ADVISORY = Record(
    _plain(("kind", "text", "severity", "code", "location"), "text"),
    lambda kind, text, severity, code, location: Advisory(
        kind=kind, text=text, severity=severity, code=code, location=location
    ),
)
_BOUNDS = Record(
    _plain(("max_threads", "required_threads"), "whole"),
    lambda most, required: LaunchBounds(max_threads=most, required_threads=required),
)
_TRAFFIC = Record(
    _plain(("stores", "loads", "store_bytes", "load_bytes"), "whole"),
    lambda stores, loads, stored, loaded: Traffic(stores=stores, loads=loads, store_bytes=stored, load_bytes=loaded),
)
_OPCODE = Record(
    (
        Field(name="opcode", shape="text", get=itemgetter(0)),
        Field(name="count", shape="whole", get=itemgetter(1)),
    ),
    lambda opcode, count: (opcode, count),
)
_LOCAL = Record(
    (
        Field(name="class", shape="text", get=lambda item: item[0].kind),
        Field(name="store", shape="flag", get=lambda item: item[0].store),
        Field(name="bytes", shape="whole", get=lambda item: item[0].bytes),
        Field(name="depth", shape="whole", get=lambda item: item[0].depth),
        Field(name="inner", shape="flag", get=lambda item: item[0].inner),
        Field(name="count", shape="whole", get=itemgetter(1)),
    ),
    lambda kind, store, size, depth, inner, count: (Group(kind, store, size, depth, inner), count),
)
_OPERANDS = Record(
    (
        *_plain(("highest_register", "highest_uniform_register", "highest_predicate"), "whole"),
        Field(
            name="bank_conflicts",
            shape=Many(_pair(("depth", "instructions"))),
            get=attrgetter("bank_conflicts"),
        ),
        *_plain(("flops", "global_bytes", "shared_bytes"), "whole"),
    ),
    lambda register, uniform, predicate, conflicts, flops, global_bytes, shared_bytes: Operands(
        highest_register=register,
        highest_uniform_register=uniform,
        highest_predicate=predicate,
        bank_conflicts=conflicts,
        flops=flops,
        global_bytes=global_bytes,
        shared_bytes=shared_bytes,
    ),
)


def _inlined(line: SourceLine | None) -> list[SourceLine] | None:
    """A line and the lines that it was inlined at, innermost first."""
    if line is None:
        return None
    found = []
    while line is not None:
        found.append(line)
        line = line.inlined_at
    return found


def _line(chain: tuple[tuple[str, int], ...] | None) -> SourceLine | None:
    line = None
    for file, number in reversed(chain or ()):
        line = SourceLine(file=file, line=number, inlined_at=line)
    return line


_PEAK = Record(
    (
        *_plain(("registers", "address", "line"), "whole"),
        Field(
            name="source",
            shape=Many(Record((*_plain(("file",), "text"), *_plain(("line",), "whole")), lambda *pair: pair)),
            get=lambda peak: _inlined(peak.source),
        ),
    ),
    lambda registers, address, line, source: LivePeak(
        registers=registers, address=address, line=line, source=_line(source)
    ),
)


def _stats(
    instructions: int,
    code_bytes: int,
    opcodes: tuple[tuple[str, int], ...],
    local: tuple[tuple[Group, int], ...],
    frame: Traffic | None,
    flow: Any,
    evidence: Any,
    shared_spills: int | None,
    registers: int | None,
    operands: Operands | None,
    live_peak: LivePeak | None,
    origin: Origin | None,
) -> SassStats:
    return SassStats(
        instructions=instructions,
        code_bytes=code_bytes,
        opcodes=opcodes,
        local=LocalTraffic(kept=local or None, evidence=evidence, flow=flow, frame=frame),
        shared_spills=shared_spills,
        registers=registers,
        operands=operands,
        live_peak=live_peak,
        origin=origin,
    )


_SASS = Record(
    (
        *_plain(("instructions", "code_bytes"), "whole"),
        Field(name="opcodes", shape=Many(_OPCODE), get=attrgetter("opcodes")),
        Field(name="local", shape=Many(_LOCAL), get=lambda sass: list(sass.local.groups.items())),
        Field(name="frame", shape=_TRAFFIC, get=lambda sass: sass.local.frame),
        Field(name="flow", shape="text", get=lambda sass: sass.local.flow),
        Field(name="evidence", shape="text", get=lambda sass: sass.local.evidence),
        *_plain(("shared_spills", "registers"), "whole"),
        Field(name="operands", shape=_OPERANDS, get=attrgetter("operands")),
        Field(name="live_peak", shape=_PEAK, get=attrgetter("live_peak")),
        Field(name="origin", shape=_ORIGIN, get=attrgetter("origin")),
    ),
    _stats,
)


_MAKER = Record(
    _plain(("tool", "version", "options"), "text"),
    lambda tool, version, options: Maker(tool=tool, version=version, options=options),
)


def _column(name: str, shape: Shape, path: str, about: str, since: int | None = 1) -> Field:
    return Field(name=name, shape=shape, get=attrgetter(path), about=about, since=since or 1)


def _of_kernel(name: str, shape: Shape, path: str, about: str, since: int | None = 1) -> Field:
    return _column(name, shape, f"kernel.{path}", about, since)


def _of_build(name: str, get: Callable[[Build], int], about: str) -> Field:
    return Field(name=name, shape="whole", get=lambda row: None if row.build is None else get(row.build), about=about)


_SHAPES: dict[str, Shape] = {"number": "whole", "banks": Many(_pair(("bank", "bytes")))}


def _derived(figure: Figure) -> Field:
    """A column that is computed from others, so that a question need not."""
    get = figure.get
    assert get is not None
    return Field(
        name=figure.name, shape="whole", get=lambda row: get(row.kernel), about=figure.about, since=figure.since or 1
    )


KERNELS: tuple[Field, ...] = (
    _column(
        "canonical",
        "text",
        "canonical",
        "symbol without what a checkout, toolkit or list of archs puts into it; the rows of a file are in its order",
    ),
    _of_kernel("symbol", "text", "key.symbol", "symbol as the tool printed it"),
    _of_kernel("name", "text", "name", "full demangled name"),
    _of_kernel("short_name", "text", "short_name", "base name: no namespaces, template arguments, parameters"),
    _of_kernel("object", "text", "key.unit", "object or source of the build step; empty where the log does not say"),
    _of_kernel("source", "text", "source", "source file that the build step compiles; empty where no line tells"),
    _of_kernel("role", "text", "role", "`entry`, `function` (device function) or `unknown`"),
    _of_kernel("confidence", "text", "confidence", "`certain`, or `ambiguous` where output was torn apart"),
    _of_kernel("reasons", Many("text"), "reasons", "why it is ambiguous"),
    _of_kernel(
        "final",
        "flag",
        "final",
        "false: relocatable code before the link; true: linked; null: nothing says that it is relocatable",
    ),
    *(
        _of_kernel(each.name, _SHAPES[each.kind], f"usage.{each.name}", each.about, each.since)
        for each in sorted(PRINTED, key=lambda each: each.kind != "number")
    ),
    _of_kernel(
        "unknown_clauses",
        Many("text"),
        "usage.unknown_clauses",
        "what the compiler printed and this version did not know",
    ),
    _of_kernel("compile_ms", "real", "compile_ms", "compile time as printed"),
    _of_kernel("launch_bounds", _BOUNDS, "launch_bounds", "of its binary"),
    _of_kernel("advisories", Many(_ADVISORY), "advisories", "what the compiler said besides figures"),
    _of_kernel("origins", Many(_ORIGIN), "origins", "where it was read"),
    _of_kernel("sass", _SASS, "sass", "figures of its machine code"),
    _column("unit_id", "text", "unit_id", "the unit that it was read from"),
    _column("position", "whole", "position", "its place among the kernels of its unit, from 0"),
    _column("commit", "text", "commit", "the commit that wrote it"),
    *(_derived(each) for each in KEPT if each.name not in NUMBERS),
    Field(
        name="maker",
        shape=_MAKER,
        get=lambda row: None if row.kernel.sass is None else row.kernel.sass.maker,
        about="what made its cubin, where that tells",
        since=3,
    ),
)
"""Of ``kernels``, besides ``label`` and ``arch``, which are folders."""


_READ = {
    "inputs": "inputs read",
    "lines": "lines read",
    "bytes": "bytes read, after decompression",
    "recognised_lines": "lines that a grammar rule describes",
    "unknown_lines": "lines of a known tool that none describes",
    "unknown_clauses": "clauses of known lines that none describes",
}

UNITS: tuple[Field, ...] = (
    _column("unit_id", "text", "unit.id", "16 digits of uri and content"),
    _column("uri", "text", "unit.uri", "path or URL"),
    _column("content_hash", "text", "unit.content_hash", "hash of its bytes; empty where they could not be fetched"),
    _column("size_bytes", "whole", "unit.size_bytes", "bytes as stored"),
    _column("failure", "text", "unit.failure", "why it could not be read; null where it was"),
    _of_build("kernels", lambda build: len(build.kernels), "kernels and device functions in it"),
    *(_of_build(name, attrgetter(f"stats.{name}"), _READ[name]) for name in Stats.__dataclass_fields__),
    _column("commit", "text", "commit", "the commit that wrote it"),
    _column("store_tag", "text", "unit.store_tag", "what its store calls this content; null where it does not", 3),
)
"""Of ``units``, besides ``label``."""

ISSUES: tuple[Field, ...] = (
    _column("code", "text", "issue.code", "stable name: `unknown-line`, `truncated` …"),
    _column("severity", "text", "issue.severity", "`error`, `warning` or `note`"),
    _column("message", "text", "issue.message", "one line"),
    Field(name="origin", shape=_ORIGIN, get=attrgetter("issue.origin"), about="where it was seen"),
    _column("unit_id", "text", "unit_id", "the unit that it was read from"),
    _column("position", "whole", "position", "its place among the issues of its unit, from 0"),
    _column("commit", "text", "commit", "the commit that wrote it"),
)
"""Of ``issues``, besides ``label``."""

TABLES = {"kernels": KERNELS, "units": UNITS, "issues": ISSUES}
VERSION = max(field.since for fields in TABLES.values() for field in fields)
"""Of the schema that this spillscan writes; it reads this and all before."""


def row_of(kernel: Kernel, unit_id: str, commit: str, position: int) -> KernelRow:
    """A kernel as a row."""
    return KernelRow(kernel, unit_id, commit, position, canonical(kernel.key.symbol))


def arrow_schema(table: str, *, folders: bool) -> pyarrow.Schema:
    """The columns of a table; with ``folders`` also those that its folders tell."""
    import pyarrow as pa

    told = ([("label", "text")] + ([("arch", "text")] if table == "kernels" else [])) if folders else []
    fields = [pa.field(name, arrow_type(shape)) for name, shape in told]  # type: ignore[arg-type]
    fields += [pa.field(field.name, arrow_type(field.shape)) for field in TABLES[table]]
    return pa.schema(fields)
