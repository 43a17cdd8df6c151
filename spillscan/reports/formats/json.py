"""Complete report for machines; that of a scan is a snapshot, which spillscan can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from spillscan import __version__
from spillscan.model import (
    BaselineState,
    Change,
    Delta,
    Effect,
    Evidence,
    Finding,
    Hidden,
    Kernel,
    Origin,
    Severity,
)
from spillscan.model.code import PortableCode
from spillscan.model.findings import CodeChange, CodeVerdict, Hunk
from spillscan.model.serialize import array, copied, issue_json, kernel_json, stats_json, text
from spillscan.model.snapshot import SCHEMA_VERSION, Count, IssueJson, KernelJson, StatsJson
from spillscan.output.records import harmless
from spillscan.output.terminal import Style
from spillscan.reports.report import ALL_KINDS, Report

if TYPE_CHECKING:
    from spillscan.judging.places import Tree
    from spillscan.judging.verdict import BaselineResult, Unmatched

FORMAT = "json"
HELP = "all data, one kernel per line; also an input"
KINDS = ALL_KINDS

Metrics = dict[str, tuple[Count | None, Count | None]]


class ChangeJson(msgspec.Struct):
    """Change of one kernel between two builds."""

    state: Literal["added", "removed", "changed", "renamed", "unknown", "recoded"]
    """unknown only in unsettled, recoded only in recoded, the others only in changes"""
    before: KernelJson | None
    """kernel in the base; null if it was added"""
    after: KernelJson | None
    """kernel in the head; null if it was removed"""
    metrics: Metrics
    """[before, after] of each metric that is known in both builds and differs; with several devices, the device in
    brackets: resident_blocks[H200]
    """
    unknown: Metrics
    """[before, after] of each metric that is known in only one build: neither equal nor different"""
    appeared: tuple[str, ...]
    """kinds of compiler messages that only the head has for the kernel"""
    vanished: tuple[str, ...]
    """kinds of compiler messages that only the base has for the kernel"""
    occupancy: tuple[Effect, ...]
    """residency per device; pairs are [before, after]"""
    evidence: Evidence | None
    """why the two are considered the same; null if before or after is null"""


class CodeChangeJson(msgspec.Struct):
    """Comparison of one kernel's machine code in two builds."""

    symbol: str
    """symbol in the head"""
    arch: str | None
    """arch of the kernel"""
    unit: str
    """unit of the kernel"""
    verdict: CodeVerdict
    """identical: equal instructions up to one renaming of registers, and equal referenced data and attributes"""
    reasons: tuple[str, ...]
    """what differs, or why the code was not compared, one line each"""
    hunks: tuple[Hunk, ...]
    """places where instructions differ, the deepest loop first"""
    text: tuple[str, ...]
    """diff of the instructions, if requested"""


class PlaceJson(msgspec.Struct):
    """A line of the source or of the input; a file if the line is unknown."""

    path: str
    """relative to the repository"""
    line: Count | None
    """1-based; null if only the file is known"""
    inlined: str | None
    """for code that was inlined at this line: its own source line"""
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] | None
    """share of the spill cost of spills or arrays (bytes × 10 per enclosing loop); null if not computed"""
    by_name: bool = False
    """whether the line is that of a kernel definition with this name, for lack of other information"""


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
    """place of the finding; for spills and arrays with line information, the three costliest source lines"""


class GapJson(msgspec.Struct):
    """Missing input that could hide a finding."""

    code: str
    hides: tuple[Hidden, ...]
    message: str
    symbol: str | None
    """the kernel, as the tool printed it; null if the gap is not about one kernel"""
    name: str | None
    arch: str | None
    unit: str | None
    origin: Origin | None
    accepted: str | None


class AcceptedJson(msgspec.Struct):
    """Baseline record without a counterpart in the build."""

    identity: str
    """the kernel's identity"""
    short_name: str
    """its short name, as recorded"""
    arch: str | None
    """its target architecture"""
    role: Literal["entry", "function"]
    """whether it is a kernel or a device function"""
    rule: str | None
    """the rule; null if only the kernel is recorded"""


class BaselineJson(msgspec.Struct):
    """Comparison of a build's findings with a baseline."""

    counts: dict[str, Count]
    """findings by state: new, worse, known, better, suppressed; records without one: fixed, stale"""
    fixed: tuple[AcceptedJson, ...]
    """recorded, but the kernel no longer has the finding"""
    unreported: tuple[AcceptedJson, ...]
    """recorded, but the input lacks what the rule needs"""
    stale: tuple[AcceptedJson, ...]
    """recorded, but the kernel no longer exists"""


class ReportJson(msgspec.Struct):
    """Output of scan, check and diff with -f json. A scan's output is a snapshot: an input of every command."""

    schema_version: Literal[1]
    """version of this schema"""
    tool_version: str
    """version of spillscan that wrote it"""
    issues: tuple[IssueJson, ...]
    """input that was not understood"""
    stats: StatsJson
    """amount of input read"""
    kernels: tuple[KernelJson, ...] = ()
    """scan, check: all kernels"""
    portable: tuple[PortableCode, ...] = ()
    """scan, check: PTX and LTO-IR not yet compiled to machine code; absent if there is none"""
    empty_units: tuple[str, ...] = ()
    """scan, check: compiled objects without kernels; absent if there are none"""
    changes: tuple[ChangeJson, ...] = ()
    """diff: kernels that differ, worst first"""
    unsettled: tuple[ChangeJson, ...] = ()
    """diff: pairs without a known difference, but with unknown values; state is unknown"""
    recoded: tuple[ChangeJson, ...] = ()
    """diff: pairs with equal metrics and different machine code; state is recoded"""
    toolkits: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """diff: toolkit versions that made the code of the base and of the head, as far as known"""
    code: tuple[CodeChangeJson, ...] = ()
    """diff --with code: kernels of both builds with different code, certain differences first"""
    findings: tuple[FindingJson, ...] = ()
    """check, diff: the findings"""
    gaps: tuple[GapJson, ...] = ()
    """check, diff: missing input that could hide a finding; accepted gaps last"""
    counted: bool = False
    """check: whether any input lists what the build was to compile; if not, a missing report goes unnoticed"""
    baseline: BaselineJson | None = None
    """comparison with the baseline, if there is one"""


def render(report: Report, style: Style) -> Iterator[bytes]:
    """Yield one JSON object in ASCII; see ``schema/build.schema.json``."""
    return (harmless(piece if isinstance(piece, bytes) else piece.encode()) for piece in _pieces(report))


def _pieces(report: Report) -> Iterator[str | bytes]:
    """Members of :class:`ReportJson` that a report of this kind has, one item per line."""
    yield f'{{"schema_version": {SCHEMA_VERSION},\n "tool_version": {text(__version__)},\n'
    if report.kind == "diff":
        yield from array("changes", map(_change, report.changes))
        yield from array("unsettled", map(_change, report.unsettled))
        yield from array("recoded", map(_change, report.recoded))
        if report.code_changes is not None:
            yield from array("code", map(_code_change, report.code_changes))
        yield f' "toolkits": {text(report.toolkits)},\n'
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
    before, after = (None if kernel is None else kernel_json(kernel) for kernel in (change.before, change.after))
    return copied(
        ChangeJson,
        change,
        before=before,
        after=after,
        metrics=_metrics(change.metrics),
        unknown=_metrics(change.unknown),
        occupancy=change.effects,
        evidence=change.evidence if before and after else None,
    )


def _code_change(change: CodeChange) -> CodeChangeJson:
    key = change.change.kernel.key
    return CodeChangeJson(key.symbol, key.arch, key.unit, change.verdict, change.reasons, change.hunks, change.text)


def _metrics(metrics: Iterable[Delta]) -> Metrics:
    return {name: (before, after) for name, before, after in metrics}


def _named(kernel: Kernel | None) -> dict[str, str | None]:
    if kernel is None:
        return dict.fromkeys(("symbol", "name", "arch", "unit"))
    return {"symbol": kernel.key.symbol, "name": kernel.name, "arch": kernel.key.arch, "unit": kernel.key.unit}


def _finding(finding: Finding, tree: Tree) -> FindingJson:
    from spillscan.judging.places import costliest, place_of
    from spillscan.reading.machine.spillmap import TOP

    places = costliest(finding, tree)[:TOP] or [place_of(finding, tree)]
    shown = tuple(copied(PlaceJson, place, inlined=place.inner or None) for place in places)
    return copied(FindingJson, finding, **_named(finding.kernel), places=shown)


def _baseline(result: BaselineResult) -> BaselineJson:
    states = ("fixed", "unreported", "stale")
    return BaselineJson(result.counts(), *(tuple(map(_accepted, result.of(each))) for each in states))


def _accepted(each: Unmatched) -> AcceptedJson:
    identity = each.identity
    role: Literal["entry", "function"] = "function" if identity.function else "entry"
    return AcceptedJson(identity.symbol, each.name, identity.arch, role, each.rule or None)
