"""Everything, for machines; of a scan it is a snapshot that spillscan reads again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from spillscan import __version__
from spillscan.judging.compare.figures import figures
from spillscan.judging.compare.matrix import KernelRow, Matrix
from spillscan.judging.places import Tree, heaviest, place_of
from spillscan.model import (
    BaselineState,
    Change,
    Confidence,
    Effect,
    EvidenceKind,
    Finding,
    Hidden,
    Kernel,
    Metric,
    Origin,
    Role,
    Severity,
)
from spillscan.model.code import PortableCode
from spillscan.model.findings import CodeChange, CodeVerdict, Hunk
from spillscan.model.serialize import array, copied, issue_json, kernel_json, stats_json, text
from spillscan.model.snapshot import SCHEMA_VERSION, Count, IssueJson, KernelJson, StatsJson
from spillscan.output.records import harmless
from spillscan.output.terminal import Style
from spillscan.reading.machine.spillmap import TOP
from spillscan.reports.report import ALL_KINDS, Report

if TYPE_CHECKING:
    from spillscan.judging.baseline.model import Accepted, BaselineResult

FORMAT = "json"
HELP = "everything, one kernel a line; itself readable as input"
KINDS = (*ALL_KINDS, "matrix")

Metrics = dict[str, tuple[Count | None, Count | None]]


class MessagesJson(msgspec.Struct):
    """Kinds of compiler messages that one build alone has for the kernel."""

    appeared: tuple[str, ...]
    """in the newer build"""
    vanished: tuple[str, ...]
    """in the older build"""


class EvidenceJson(msgspec.Struct):
    """Why two kernels are taken for one."""

    kind: EvidenceKind
    """identity: equal names, whatever checkout or toolkit wrote them; substitution: a rule that explains all kernels of
    a function; stated: by renamed in the policy or --rename"""
    rule: str
    """the substitution, flash → fa3; empty without"""
    explains: Count
    """how many names the substitution explains"""


class ChangeJson(msgspec.Struct):
    """What became of one kernel between two builds."""

    state: Literal["added", "removed", "changed", "renamed", "unknown", "recoded"]
    """unknown stands in unsettled only, recoded in recoded only, the others in changes only"""
    before: KernelJson | None
    """in the base; null where it was added"""
    after: KernelJson | None
    """in the head; null where it was removed"""
    metrics: Metrics
    """[before, after] of each figure that is known of both builds and that differs; several devices in brackets:
    resident_blocks[H200]"""
    unknown: Metrics
    """[before, after] of each figure that is known of one build alone: neither equal nor different"""
    messages: MessagesJson
    """kinds of compiler messages that one build alone has for the kernel"""
    occupancy: tuple[Effect, ...]
    """residency by device; pairs are [before, after]"""
    evidence: EvidenceJson | None = None
    """why the two are taken for one; null where one of them is"""


class CodeChangeJson(msgspec.Struct):
    """Machine code of one kernel in two builds, compared."""

    symbol: str
    """in the head"""
    arch: str | None
    """as that of the kernel"""
    unit: str
    """as that of the kernel"""
    verdict: CodeVerdict
    """identical: equal instructions up to one renaming of registers, and equal data and attributes referred to"""
    reasons: tuple[str, ...]
    """what differs, or why it was not compared, one line each"""
    hunks: tuple[Hunk, ...]
    """where instructions differ, the deepest loop first"""
    text: tuple[str, ...]
    """diff of the instructions, if asked for"""


class PlaceJson(msgspec.Struct):
    """A line of the source, or of the input; a file where its line is not known."""

    path: str
    """relative to the repository"""
    line: Count | None
    """1-based; null: only the file is known"""
    inlined: str | None
    """of code that was inlined here: the line itself"""
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] | None
    """of the weight of the spills or arrays: bytes, ten times as many for each loop around them; null: not weighed"""
    by_name: bool = False
    """whether the line is where a source defines a kernel of that name, since nothing else says where it stands"""


class FindingJson(msgspec.Struct):
    """A rule's verdict on one kernel or change."""

    rule: str
    severity: Severity
    message: str
    symbol: str
    name: str
    arch: str | None
    unit: str
    fingerprint: str
    origin: Origin | None
    baseline_state: BaselineState | None
    suppression: str | None
    places: tuple[PlaceJson, ...] = ()
    """where it stands; of spills and arrays with line information the three heaviest source lines"""


class GapJson(msgspec.Struct):
    """What may be hidden of what the rules judge."""

    code: str
    hides: tuple[Hidden, ...]
    message: str
    symbol: str | None
    """the kernel, as the tool printed it; null: of no one kernel"""
    name: str | None
    arch: str | None
    unit: str | None
    origin: Origin | None
    accepted: str | None


class CountsJson(msgspec.Struct):
    """How many findings are in each state."""

    new: Count
    """not recorded"""
    worse: Count
    """worse than recorded"""
    known: Count
    """as recorded"""
    better: Count
    """better than recorded"""
    fixed: Count
    """recorded, and no longer there"""
    stale: Count
    """recorded of kernels that are no longer there"""
    suppressed: Count
    """excused by hand"""


class AcceptedJson(msgspec.Struct):
    """What a baseline records and the build does not have."""

    identity: str
    """the kernel's identity"""
    short_name: str
    """its short name, as recorded"""
    arch: str | None
    """its compilation target"""
    role: Literal["entry", "function"]
    """what it is"""
    rule: str | None
    """the rule; null for a kernel of which nothing else is recorded"""


class BaselineJson(msgspec.Struct):
    """What a build's findings are to a baseline."""

    counts: CountsJson
    """findings by state"""
    fixed: tuple[AcceptedJson, ...]
    """recorded, and the kernel no longer has the finding"""
    unreported: tuple[AcceptedJson, ...]
    """recorded, and the input does not say what the rule must know"""
    stale: tuple[AcceptedJson, ...]
    """recorded, and the kernel is no longer there"""


class ColumnJson(msgspec.Struct):
    """Where the cells of a column were compiled."""

    build: Count
    """place in builds"""
    arch: str | None
    """by arch: the target"""


class CellJson(msgspec.Struct):
    """One kernel's record in one column."""

    symbol: str
    arch: str | None
    confidence: Confidence
    final: bool | None
    metrics: dict[str, Count | None]
    """every figure by name"""


class RowJson(msgspec.Struct):
    """One kernel of a matrix."""

    symbol: str
    """in the latest build that has it"""
    name: str
    short_name: str
    unit: str
    role: Role
    cells: tuple[CellJson | None, ...]
    """one a column; null where that build has no such kernel"""


class ReportJson(msgspec.Struct):
    """What scan, check and diff write with -f json. A scan's is a snapshot: an input of every command."""

    schema_version: Literal[1]
    """of this schema"""
    tool_version: str
    """the spillscan that wrote it"""
    issues: tuple[IssueJson, ...]
    """what was not understood"""
    stats: StatsJson
    """how much was read"""
    kernels: tuple[KernelJson, ...] = ()
    """of a scan or check: all kernels"""
    portable: tuple[PortableCode, ...] = ()
    """of a scan or check: PTX and LTO-IR, of which machine code is still to be made; absent where there is none"""
    empty_units: tuple[str, ...] = ()
    """of a scan or check: objects that were compiled, and that hold no kernel; absent where there is none"""
    changes: tuple[ChangeJson, ...] = ()
    """of a diff: kernels that differ, worst first"""
    unsettled: tuple[ChangeJson, ...] = ()
    """of a diff: pairs in which nothing is known to differ, but not all is known of both; state is unknown"""
    recoded: tuple[ChangeJson, ...] = ()
    """of a diff: pairs of equal figures and other machine code; state is recoded"""
    toolkits: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """of a diff: versions of the toolkits that made the code of the base and of the head, as far as it says"""
    code: tuple[CodeChangeJson, ...] = ()
    """of a diff --with code: kernels of both builds with other code, what surely differs first"""
    builds: tuple[str, ...] = ()
    """of a matrix: what the builds are called"""
    columns: tuple[ColumnJson, ...] = ()
    """of a matrix: where the cells of each row were compiled"""
    rows: tuple[RowJson, ...] = ()
    """of a matrix: one kernel each"""
    findings: tuple[FindingJson, ...] = ()
    """of check and diff"""
    gaps: tuple[GapJson, ...] = ()
    """of check and diff: what may be hidden of what the rules judge; accepted ones last"""
    counted: bool = False
    """of a check: whether any input says what the build was to compile; else a unit whose report is lost is not
    missed"""
    baseline: BaselineJson | None = None
    """where there is a baseline"""


def render(report: Report, style: Style) -> Iterator[bytes]:
    """One JSON object in ASCII; see ``schema/build.schema.json``."""
    return (harmless(piece if isinstance(piece, bytes) else piece.encode()) for piece in _pieces(report))


def _pieces(report: Report) -> Iterator[str | bytes]:
    """The members of :class:`ReportJson` that a report of its kind has, one item a line."""
    yield f'{{"schema_version": {SCHEMA_VERSION},\n "tool_version": {text(__version__)},\n'
    if report.kind == "diff":
        yield from array("changes", map(_change, report.changes))
        yield from array("unsettled", map(_change, report.unsettled))
        yield from array("recoded", map(_change, report.recoded))
        if report.code_changes is not None:
            yield from array("code", map(_code_change, report.code_changes))
        yield f' "toolkits": {text(report.toolkits)},\n'
    elif report.matrix is not None:
        yield from _matrix(report.matrix)
    else:
        yield from array("kernels", map(kernel_json, report.build.kernels))
        if report.build.portable:
            yield from array("portable", report.build.portable)
        if report.build.empty_units:
            yield from array("empty_units", report.build.empty_units)
    if report.kind != "scan":
        yield from array("findings", (_finding(finding, report.tree) for finding in report.findings))
        gaps = (*report.gaps, *report.accepted)
        yield from array("gaps", (copied(GapJson, each, **_named(each.kernel)) for each in gaps))
    if report.kind == "check":
        yield f' "counted": {text(bool(report.build.units))},\n'
    if report.baseline is not None:
        yield f' "baseline": {text(_baseline(report.baseline))},\n'
    yield from array("issues", map(issue_json, report.build.issues))
    yield f' "stats": {text(stats_json(report.build))}}}\n'


def _change(change: Change) -> ChangeJson:
    assert change.state != "equal"
    before, after = (None if kernel is None else kernel_json(kernel) for kernel in (change.before, change.after))
    return ChangeJson(
        change.state,
        before,
        after,
        _metrics(change.metrics),
        _metrics(change.unknown),
        MessagesJson(change.appeared, change.vanished),
        change.effects,
        None if before is None or after is None else EvidenceJson(*msgspec.structs.astuple(change.evidence)),
    )


def _code_change(found: CodeChange) -> CodeChangeJson:
    key = found.change.kernel.key
    return CodeChangeJson(key.symbol, key.arch, key.unit, found.verdict, found.reasons, found.hunks, found.text)


def _metrics(metrics: Iterable[Metric]) -> Metrics:
    return {name: (before, after) for name, before, after in metrics}


def _matrix(matrix: Matrix) -> Iterator[str | bytes]:
    yield f' "builds": {text(matrix.builds)},\n'
    yield f' "columns": {text([ColumnJson(column.build, column.arch) for column in matrix.columns])},\n'
    yield from array("rows", (_row(matrix, row) for row in matrix.rows))


def _row(matrix: Matrix, row: KernelRow) -> RowJson:
    kernel = row.kernel
    return RowJson(
        kernel.key.symbol,
        kernel.name,
        kernel.short_name,
        kernel.key.unit,
        kernel.role,
        tuple(None if cell is None else _cell(matrix, cell) for cell in row.cells),
    )


def _cell(matrix: Matrix, kernel: Kernel) -> CellJson:
    more = {name: matrix.value(kernel, name) for name in ("constant_bytes", "resident_blocks")}
    return CellJson(kernel.key.symbol, kernel.key.arch, kernel.confidence, kernel.final, figures(kernel) | more)


def _named(kernel: Kernel | None) -> dict[str, str | None]:
    if kernel is None:
        return dict.fromkeys(("symbol", "name", "arch", "unit"))
    return {"symbol": kernel.key.symbol, "name": kernel.name, "arch": kernel.key.arch, "unit": kernel.key.unit}


def _finding(finding: Finding, tree: Tree) -> FindingJson:
    places = heaviest(finding, tree)[:TOP] or [place_of(finding, tree)]
    shown = tuple(copied(PlaceJson, place, inlined=place.inner or None) for place in places)
    return copied(FindingJson, finding, **_named(finding.kernel), places=shown)


def _baseline(result: BaselineResult) -> BaselineJson:
    fixed, unreported, stale = (tuple(map(_accepted, each)) for each in (result.fixed, result.unreported, result.stale))
    return BaselineJson(CountsJson(**result.counts()), fixed, unreported, stale)


def _accepted(each: Accepted) -> AcceptedJson:
    identity = each.identity
    role: Literal["entry", "function"] = "function" if identity.function else "entry"
    return AcceptedJson(identity.symbol, each.name, identity.arch, role, each.rule or None)
