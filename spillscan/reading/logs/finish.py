"""Records of one writer's kernels and device functions, made at the end of its log, and doubts about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter

from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Origin, Usage
from spillscan.output.nouns import count, listed
from spillscan.reading.logs.issue_log import METRICS, IssueLog, are_near, quoted
from spillscan.reading.logs.kernels import (
    NO_USAGE,
    Feature,
    PendingKernel,
    Report,
    Run,
    Section,
    first_line,
    prints_constant_banks,
)
from spillscan.reading.logs.link_lines import LinkLines
from spillscan.reading.logs.notes import Notes
from spillscan.reading.logs.steps import Step

_LACKS: dict[Feature, str] = {
    "arch": "its first line lacks the arch that others have",
    "indent": "the beginning of its stack line is missing",
    "name": "no 'Function properties' line names its stack",
    "stack": "no stack line before its 'Used N registers' line",
}
_MOST_QUOTED = 3
"""Most lines without a kernel's name that are quoted."""
_CROSSED = {
    "entry": "the properties of another function come before its 'Used N registers' line",
    "function": "its properties come before another kernel's 'Used N registers' line",
}


def finish(report: Report, issues: IssueLog, notes: Notes, linker: LinkLines, end_line: int) -> list[Kernel]:
    """Records of all kernels and functions, in line order, at the end of the log (``end_line``)."""
    if report.nameless:
        report.interleaved |= _settle_nameless(report, issues)
    _check_times(report, end_line, issues)
    _settle_doubts(report, issues)
    _settle_stacks(report.pending)
    report.advisories = notes.attach(report, linker)
    report.doubts = issues.doubts(interleaved=report.interleaved)
    apart = _may_be_relocatable(report)
    report.device_link &= apart
    if report.interleaved:
        archs = {run.kernels[0].key.arch for run in report.runs}
        report.archs_in_doubt = len(archs | {each.arch for each in report.pending if each.arch}) > 1
        report.linked = frozenset(linker.symbols)
    return _records(report, in_order=issues.complete and not (report.unended or report.interleaved or apart))


# ---- doubts ----------------------------------------------------------------------------------------------------


def _settle_doubts(report: Report, issues: IssueLog) -> None:
    """Settle doubts about each kernel at the end of the log: a kernel with one is ambiguous."""
    _note_clauses(report)
    one_writer = not (report.overlapped and issues.complete)
    for each in report.pending:
        if each.role == "entry" and each.usage.registers is not None and not each.reasons:
            _report_missing_clauses(each, issues)
        doubts = [(_LACKS[feature], feature == "stack") for feature in sorted(each.lacks & report.features)]
        if each.crossed and one_writer:
            doubts.append((_CROSSED[each.role], each.role == "entry"))
        for reason, of_usage in doubts:
            each.reasons += (reason,)
            issues.add_missing(f"{each.symbol}: {reason}", each.line, symbol=each.symbol)
            if of_usage:
                each.usage = NO_USAGE
            else:
                each.stack_in_doubt = True


def _note_clauses(report: Report) -> None:
    """Record what the registers lines of each section show of its release and its code."""
    pending, runs = report.pending, report.runs if report.pending else []
    usages = [(run.section, kernel.usage) for run in runs for kernel in run.kernels]
    usages += [(each.section, each.usage) for each in pending if each.usage.registers is not None and not each.reasons]
    for section, usage in usages:
        section.barriers |= 2 if usage.barriers is None else 1
        section.linked |= usage.cumulative_stack_bytes is not None


def _report_missing_clauses(pending: PendingKernel, issues: IssueLog) -> None:
    """Report missing clauses that the kernel's release and arch always print."""
    banks, section = prints_constant_banks(pending.arch), pending.section
    counted = section.headed and section.barriers == 3
    if (banks and pending.usage.constant_bytes is None) or (counted and pending.usage.barriers is None):
        pending.reasons += ("its 'Used N registers' line is cut",)
        what = f"parts of the 'Used N registers' line of {pending.symbol} are missing"
        issues.add_missing(what, pending.line, hides=METRICS, symbol=pending.symbol)


def _settle_stacks(kernels: Iterable[PendingKernel]) -> None:
    """Decide stack lines in doubt of same-named kernels that differ in arch or unit.

    They are certain only if all stack lines of the name are equal.
    """
    doubtful: dict[str, list[PendingKernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.stack_in_doubt:
            doubtful[kernel.symbol].append(kernel)
    for same_named in doubtful.values():
        alike = len({kernel.stack for kernel in same_named}) == 1
        for kernel in same_named:
            kernel.stack_in_doubt = not alike
            if not alike:
                kernel.reasons += ("same-named kernels were compiled at the same time",)


# Compile times: from 12.8 on each registers line is followed by one, before that none is.


def _check_times(report: Report, end_line: int, issues: IssueLog) -> None:
    """Report missing and stray compile times at the end of the log."""
    functions = [each.compile_ms for each in report.pending if each.role == "function"]
    timed = len(functions) - functions.count(None)
    if report.overlapped or (report.crossed and timed):
        timed = len(functions)
    if report.stray_times and report.compile_times > report.registers_lines + timed:
        issues.add_missing("a compile time follows no kernel: lines are missing", report.stray_times[0])
    if report.interleaved or not report.compile_times:
        return
    entries = [
        (first_line(kernel), run.section, kernel.compile_ms) for run in report.runs for kernel in run.kernels[-1:]
    ]
    entries += [(each.line, each.section, each.compile_ms) for each in report.pending if each.role == "entry"]
    entries.sort(key=lambda entry: entry[0])
    if entries and entries[-1][2] is None and report.compile_times == report.registers_lines - 1:
        what = "the log ends without the compile time of its last kernel; more kernels may be missing"
        issues.add("truncated", what, end_line, "error")
        return
    untimed: dict[int, bool] = {}  # whether the first kernel of a section has none
    for line, section, milliseconds in entries:
        if untimed.setdefault(id(section), milliseconds is None) is not (milliseconds is None):
            what = "some kernels of a compiler run have no compile time: lines are missing"
            issues.add_missing(what, line)
            return


# Records of unnamed kernels: excerpts, logs filtered by ``grep``, names that people left out.


def _settle_nameless(report: Report, issues: IssueLog) -> bool:
    """Add the kernels of nameless records to the report; return whether a stack line lost its name.

    A single compiler would name all kernels if it names one. A stack line and the registers line after it are joined
    into one kernel if all of them come in such pairs.
    """
    named = "name" in report.features and report.entries > 0
    pieces = [each for each in report.nameless if each.kernel.arch is None]
    forms = "".join("S" if each.kernel.usage is NO_USAGE else "U" for each in pieces)
    joined: set[int] = set()
    if "SS" not in forms and "UU" not in forms:
        for one, other in pairwise(pieces):
            if other.message == one.message + 1 and one.kernel.usage is NO_USAGE:
                other.kernel.stack, other.kernel.line = one.kernel.stack, one.kernel.line
                joined.add(id(one))
    records = [each for each in report.nameless if id(each) not in joined]
    shown = listed((f"'{quoted(each.text)}'" for each in records[:_MOST_QUOTED]), len(records) - _MOST_QUOTED)
    message = f"{count(len(records), 'report has', 'reports have')} no kernel name: {shown}"
    issues.add("unnamed-kernel", message, records[0].kernel.line, "error")
    lost = [each for each in pieces if named and each.message > 1]
    for each in lost:
        issues.mark_doubtful(each.kernel.line)
    report.pending += (each.kernel for each in records if each.kernel.arch is None)
    return "S" in forms and bool(lost)


# ---- records ----------------------------------------------------------------------------------------------------


def _records(report: Report, *, in_order: bool) -> list[Kernel]:
    """Records of all kernels and functions, in line order.

    ``in_order``: no line is missing, and callees follow their kernel.
    """
    whole = report.interleaved or report.units_in_doubt or report.device_link or report.doubts
    callees = _callees(report.pending) if in_order else {}
    made: list[Kernel] = []
    for each in sorted(report.every, key=attrgetter("line")):
        kernels = each.kernels if isinstance(each, Run) else [_record(each, report)]
        if callees:
            # Callees of another kernel would precede the next one.
            kernels[-1] = _with_callees(kernels[-1], callees.get(first_line(kernels[-1])))
        if whole or each.noted or each.section.notes or each.step.relocatable:
            kernels = [finished(kernel, each.section, each.step, report) for kernel in kernels]
        made += kernels
    return made


def _may_be_relocatable(report: Report) -> bool:
    """Whether the log may contain relocatable code whose compile commands it lacks.

    Device functions of relocatable code (-rdc, -dc) come first and have a compile time each, as in debug builds (-G)
    and with -Ofc max (measured, 11.8 to 13.5); those of other whole programs have none. If the order of lines proves
    nothing, the number of compile times decides. ptxas sums a kernel's stack over its callees only if it knows them
    (measured, 9.1 to 13.5).
    """
    if report.interleaved and report.compile_times:
        return report.compile_times > report.registers_lines
    return any(each.section.apart and not each.section.linked for each in report.every)


def _record(pending: PendingKernel, report: Report) -> Kernel:
    reasons, arch = pending.reasons, pending.arch
    if pending.role == "function":
        arch = None if report.archs_in_doubt else pending.section.arch
        if report.archs_in_doubt:
            reasons += ("interleaved output does not show for which arch it was compiled",)
    return Kernel(
        key=KernelKey(symbol=pending.symbol, arch=arch, unit=pending.step.unit),
        role=pending.role,
        usage=pending.all_values,
        confidence="ambiguous" if reasons else "certain",
        reasons=reasons,
        origins=(Origin(input=report.input, line=pending.line),),
        compile_ms=pending.compile_ms,
        source=pending.step.source,
    )


def finished(kernel: Kernel, section: Section, step: Step, report: Report) -> Kernel:
    """``kernel`` updated with facts about the whole input; unchanged if none applies."""
    changes: dict[str, object] = {}
    whole = section.linked and not report.interleaved
    relocatable = kernel.key.symbol in report.linked or (report.device_link and not whole)
    if step.relocatable or (step.relocatable is None and relocatable):
        changes["final"] = False
    if step.unit and (report.interleaved or (report.units_in_doubt and not step.buffered)):
        changes["key"] = replace(kernel.key, unit="")
        changes["source"] = ""
    if report.interleaved and kernel.compile_ms is not None:
        changes["compile_ms"] = None
    advisories = report.advisories.get(first_line(kernel), ())
    if section.notes and kernel.role == "entry":
        advisories += tuple(note.advisory for note, _ in section.notes)
    if advisories:
        changes["advisories"] = advisories
    if report.doubts and are_near(report.doubts, first_line(kernel)):
        changes["confidence"] = "ambiguous"
        changes["reasons"] = (*kernel.reasons, "lines near it are torn or missing")
        changes["compile_ms"] = None
    return replace(kernel, **changes) if changes else kernel


def _with_callees(kernel: Kernel, callees: tuple[int, int] | None) -> Kernel:
    """``kernel`` with its callees' spills added to its own; unchanged if either is unknown."""
    if callees is None or kernel.usage.spills is None:
        return kernel
    return replace(kernel, usage=_cumulative(kernel.usage, *callees))


@lru_cache(maxsize=4096)
def _cumulative(usage: Usage, stores: int, loads: int) -> Usage:
    """``usage`` with these bytes added to its own spills; equal values share one record."""
    own_stores, own_loads = usage.spills or (0, 0)
    return replace(
        usage,
        cumulative_spill_store_bytes=own_stores + stores,
        cumulative_spill_load_bytes=own_loads + loads,
    )


def _callees(pending: Iterable[PendingKernel]) -> dict[int, tuple[int, int]]:
    """Sum of callees' spills per kernel, if known for all of its callees.

    Whole programs list callees after their kernel; relocatable code and debug builds list them before all kernels of a
    module.
    """
    sums: dict[int, tuple[int, int] | None] = {}
    for each in pending:
        caller = each.caller_line
        if not caller or each.role != "function" or each.section.apart or each.step.relocatable:
            continue
        spills, before = each.spills, sums.get(caller, (0, 0))
        sums[caller] = None if spills is None or before is None else (before[0] + spills[0], before[1] + spills[1])
    return {caller: spills for caller, spills in sums.items() if spills is not None}
