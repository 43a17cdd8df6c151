"""The columns of a dataset, each stated once, as shapes that are laid out in Arrow and read back.

Versions only add columns: what is there never changes its meaning, and records within columns (``sass``) keep their
fields for good. ``docs/nightly.md`` lists the columns from here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from spillscan.history.dataset.shapes import Field, Many, Record, Shape, arrow_type
from spillscan.model import Advisory, Issue, Kernel, KernelKey, Launch, LaunchBounds, Origin, Stats, Usage
from spillscan.model.code import (
    Group,
    LivePeak,
    LocalTraffic,
    Maker,
    Operands,
    SassStats,
    SourceLine,
    Traffic,
    WarpRole,
    WeighedLine,
)
from spillscan.model.figures import KEPT
from spillscan.model.usage import NUMBERS, PRINTED, Figure
from spillscan.naming.identity import canonical

if TYPE_CHECKING:
    import pyarrow

    from spillscan.history.dataset.store import Unit
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


def _record(
    make: Callable[..., Any], gets: Mapping[str, Callable[[Any], Any]] | None = None, **shapes: Shape
) -> Record:
    """A record of the model by the names of its fields; ``gets``: those that are no attribute."""
    found = gets or {}
    fields = tuple(Field(name, shape, found.get(name, attrgetter(name))) for name, shape in shapes.items())
    return Record(fields, lambda *values: make(**dict(zip(shapes, values, strict=True))))


def _tuple(**shapes: Shape) -> Record:
    """The fields of a tuple, in its order."""
    fields = tuple(Field(name, shape, itemgetter(at)) for at, (name, shape) in enumerate(shapes.items()))
    return Record(fields, lambda *values: values)


_LINES = Many(_tuple(file="text", line="whole"))
PAIRS = Many(_tuple(name="text", value="text"))
"""Names and their values, in their order."""
_ORIGIN = _record(Origin, input="text", line="whole", format="text")
_ADVISORY = _record(Advisory, kind="text", text="text", severity="text", code="text", location="text")
_BOUNDS = _record(LaunchBounds, max_threads="whole", required_threads="whole")
_LAUNCH = _record(
    Launch,
    threads_per_block="whole",
    dynamic_shared_bytes="whole",
    max_dynamic_shared_bytes="whole",
    carveout_percent="whole",
    cluster_blocks="whole",
    source="text",
)
_TRAFFIC = _record(Traffic, stores="whole", loads="whole", store_bytes="whole", load_bytes="whole")
_MAKER = _record(Maker, tool="text", version="text", options="text")
_OPCODE = _tuple(opcode="text", count="whole")
_ROLE = _record(WarpRole, address="whole", registers="whole", follows="flag", spill=_TRAFFIC, local=_TRAFFIC)
_LOCAL = Record(
    (
        Field("class", "text", lambda item: item[0].kind),
        Field("store", "flag", lambda item: item[0].store),
        Field("bytes", "whole", lambda item: item[0].bytes),
        Field("depth", "whole", lambda item: item[0].depth),
        Field("inner", "flag", lambda item: item[0].inner),
        Field("count", "whole", itemgetter(1)),
    ),
    lambda *values: (Group(*values[:5]), values[5]),
)
_OPERANDS = _record(
    Operands,
    highest_register="whole",
    highest_uniform_register="whole",
    highest_predicate="whole",
    bank_conflicts=Many(_tuple(depth="whole", instructions="whole")),
    flops="whole",
    global_bytes="whole",
    shared_bytes="whole",
)


def _inlined(line: SourceLine | None) -> list[tuple[str, int]] | None:
    """A line and the lines that it was inlined at, innermost first."""
    if line is None:
        return None
    found = []
    while line is not None:
        found.append((line.file, line.line))
        line = line.inlined_at
    return found


def _line(chain: tuple[tuple[str, int], ...] | None) -> SourceLine | None:
    line = None
    for file, number in reversed(chain or ()):
        line = SourceLine(file=file, line=number, inlined_at=line)
    return line


_WEIGHED = _record(
    lambda source, **rest: WeighedLine(source=_line(source) or SourceLine(file="", line=0), **rest),
    {"source": lambda line: _inlined(line.source)},
    kind="text",
    source=_LINES,
    accesses="whole",
    bytes="whole",
    depth="whole",
    weight="whole",
    share="real",
)
_PEAK = _record(
    lambda source, **rest: LivePeak(source=_line(source), **rest),
    {"source": lambda peak: _inlined(peak.source)},
    registers="whole",
    address="whole",
    line="whole",
    source=_LINES,
)


def _stats(
    local: tuple[tuple[Group, int], ...], frame: Traffic | None, flow: Any, evidence: Any, **rest: Any
) -> SassStats:
    return SassStats(local=LocalTraffic(kept=local or None, evidence=evidence, flow=flow, frame=frame), **rest)


_SASS = _record(
    _stats,
    {
        "local": lambda sass: list(sass.local.groups.items()),
        "live_peak": lambda sass: None if sass.live_peak is None or sass.live_peak.at_least else sass.live_peak,
        "frame": attrgetter("local.frame"),
        "flow": attrgetter("local.flow"),
        "evidence": attrgetter("local.evidence"),
    },
    instructions="whole",
    code_bytes="whole",
    opcodes=Many(_OPCODE),
    local=Many(_LOCAL),
    frame=_TRAFFIC,
    flow="text",
    evidence="text",
    shared_spills="whole",
    registers="whole",
    operands=_OPERANDS,
    live_peak=_PEAK,
    origin=_ORIGIN,
)


def _column(name: str, shape: Shape, path: str, about: str, since: int | None = 1) -> Field:
    return Field(name, shape, attrgetter(path), about, since or 1)


def _of_kernel(name: str, shape: Shape, path: str, about: str, since: int | None = 1) -> Field:
    return _column(name, shape, f"kernel.{path}", about, since)


def _of_build(name: str, get: Callable[[Build], int], about: str, since: int = 1) -> Field:
    return Field(name, "whole", lambda row: None if row.build is None else get(row.build), about, since)


_SHAPES: dict[str, Shape] = {"number": "whole", "keyed": Many(_tuple(bank="whole", bytes="whole"))}


def _derived(figure: Figure) -> Field:
    """A column that is computed from others, so that a question need not."""
    get = figure.get
    assert get is not None
    return Field(figure.name, "whole", lambda row: get(row.kernel), figure.about, figure.since or 1)


def _reached(name: str, shape: Shape, way: str, path: str, about: str, since: int) -> Field:
    """A column of what a kernel may lack: ``path`` from what stands at ``way``, null where that is not known."""
    owner, value = attrgetter(f"kernel.{way}"), attrgetter(path)
    return Field(name, shape, lambda row: None if (found := owner(row)) is None else value(found), about, since)


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
    _of_kernel("source", "text", "source", "source file that the build step compiles; empty where no line says"),
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
    _reached("maker", _MAKER, "sass", "maker", "what made its cubin, where that is known", 3),
    _of_kernel(
        "dynamic_shared",
        "flag",
        "dynamic_shared",
        "whether its code declares shared memory whose size each launch gives; null: not known",
        5,
    ),
    _of_kernel("launch", _LAUNCH, "launch", "how it is launched, as its compiler wrote beside its code", 5),
    _of_kernel(
        "configuration", PAIRS, "configuration", "what it was tuned for, as its compiler wrote beside its code", 5
    ),
    _of_kernel("caller", "text", "caller", "of a device function: the symbol of the kernel whose copy it is", 10),
    _reached(
        "cluster_blocks", "whole", "launch_bounds", "cluster_blocks", "blocks per cluster, by its launch bounds", 5
    ),
    _reached(
        *("roles", Many(_ROLE), "sass", "roles"),
        "code that runs with registers of its own (`setmaxnreg`): the start, then by registers",
        5,
    ),
    _reached(
        *("digest", "text", "sass", "digest"),
        "stands for its machine code: the same where that is the same byte for byte",
        5,
    ),
    _reached(
        *("lines", Many(_WEIGHED), "sass", "local.lines"),
        "source lines of its accesses to local memory, the heaviest first: bytes, tenfold for each loop",
        6,
    ),
    _reached(*("register_cap", "whole", "sass", "register_cap"), "registers that ptxas was allowed; 255: all", 11),
)
"""Of ``kernels``, besides ``label`` and ``arch``, which are folders."""


_READ = {
    "inputs": "inputs read",
    "lines": "lines read",
    "bytes": "bytes read: of text after decompression, of a binary or an archive as stored",
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
    *(_of_build(name, attrgetter(f"stats.{name}"), _READ[name]) for name in Stats.__struct_fields__),
    _column("commit", "text", "commit", "the commit that wrote it"),
    _column("store_tag", "text", "unit.store_tag", "what its store calls this content; null where it does not", 3),
    _of_build("issues", lambda build: len(build.issues), "issues of it", 9),
)
"""Of ``units``, besides ``label``."""

ISSUES: tuple[Field, ...] = (
    _column("code", "text", "issue.code", "stable name: `unknown-line`, `truncated` …"),
    _column("severity", "text", "issue.severity", "`error`, `warning` or `note`"),
    _column("message", "text", "issue.message", "one line"),
    _column("origin", _ORIGIN, "issue.origin", "where it was seen"),
    _column("unit_id", "text", "unit_id", "the unit that it was read from"),
    _column("position", "whole", "position", "its place among the issues of its unit, from 0"),
    _column("commit", "text", "commit", "the commit that wrote it"),
    _column("hides", Many("text"), "issue.hides", "what it may hide from a gate; null: what its kind says", 4),
    _column("symbol", "text", "issue.symbol", "the kernel that it is about; empty: the whole input", 4),
)
"""Of ``issues``, besides ``label``."""

TABLES = {"kernels": KERNELS, "units": UNITS, "issues": ISSUES}
VERSION = 11
"""Of the schema that this spillscan writes; it reads this and all before. 7 lets several builds share files, 8 kept
beside them what goes on under another name, which is no longer read, 9 has digests of all files."""
WHOLE_SINCE = 6
"""The last version that brought columns of ``kernels`` that follow from others."""


def row_of(kernel: Kernel, unit_id: str, commit: str, position: int) -> KernelRow:
    """A kernel as a row."""
    return KernelRow(kernel, unit_id, commit, position, canonical(kernel.key.symbol))


def kernel_of(row: dict[str, Any]) -> Kernel:
    """A kernel as a row holds it."""
    return Kernel(
        key=KernelKey(symbol=row["symbol"], arch=row["arch"], unit=row["object"] or ""),
        role=row["role"],
        usage=Usage(
            **{name: row[name] for name in NUMBERS},
            constant_bytes=row["constant_bytes"],
            unknown_clauses=row["unknown_clauses"] or (),
        ),
        confidence=row["confidence"],
        reasons=row["reasons"] or (),
        final=row["final"],
        advisories=row["advisories"] or (),
        origins=row["origins"] or (),
        compile_ms=row["compile_ms"],
        source=row["source"] or "",
        sass=None
        if row["sass"] is None
        else replace(
            row["sass"],
            local=replace(row["sass"].local, kept_lines=row["lines"] or ()),
            maker=row["maker"],
            roles=row["roles"] or (),
            digest=row["digest"],
            register_cap=row["register_cap"],
        ),
        launch_bounds=row["launch_bounds"] and replace(row["launch_bounds"], cluster_blocks=row["cluster_blocks"]),
        dynamic_shared=row["dynamic_shared"],
        launch=row["launch"],
        configuration=row["configuration"] or (),
        caller=row["caller"] or "",
    )


def arrow_schema(table: str, *, folders: bool) -> pyarrow.Schema:
    """The columns of a table; with ``folders`` also those that are folders."""
    import pyarrow as pa

    also = ([("label", "text")] + ([("arch", "text")] if table == "kernels" else [])) if folders else []
    fields = [pa.field(name, arrow_type(shape)) for name, shape in also]  # type: ignore[arg-type]
    fields += [pa.field(field.name, arrow_type(field.shape)) for field in TABLES[table]]
    return pa.schema(fields)
