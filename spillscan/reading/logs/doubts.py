"""Doubts about the kernels of one writer's log, decided at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct

from spillscan.output.nouns import count, listed
from spillscan.reading.logs.issue_log import METRICS, IssueLog, quoted
from spillscan.reading.logs.kernels import NO_USAGE, Feature, PendingKernel, Report, first_line, prints_constant_banks

_LACKS: dict[Feature, str] = {
    "arch": "its first line lacks the arch that others have",
    "indent": "the beginning of its stack line is missing",
    "name": "no 'Function properties' line names its stack",
    "stack": "no stack line before its 'Used N registers' line",
}
_CROSSED = {
    "entry": "the properties of another function come before its 'Used N registers' line",
    "function": "its properties come before another kernel's 'Used N registers' line",
}


def judge(report: Report, issues: IssueLog) -> None:
    """Decide the doubts about each kernel at the end of the log."""
    _note_clauses(report)
    one_writer = not (report.overlapped and issues.complete)
    for each in report.pending:
        if each.role == "entry" and each.usage.registers is not None and not each.reasons:
            _demand_clauses(each, issues)
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


def _demand_clauses(pending: PendingKernel, issues: IssueLog) -> None:
    """Report missing clauses that the kernel's release and arch always print."""
    banks, section = prints_constant_banks(pending.arch), pending.section
    counted = section.headed and section.barriers == 3
    if (banks and pending.usage.constant_bytes is None) or (counted and pending.usage.barriers is None):
        pending.reasons += ("its 'Used N registers' line is cut",)
        what = f"parts of the 'Used N registers' line of {pending.symbol} are missing"
        issues.add_missing(what, pending.line, hides=METRICS, symbol=pending.symbol)


def settle_stacks(kernels: Iterable[PendingKernel]) -> None:
    """Decide stack lines in doubt of same-named kernels that differ in arch or unit.

    They are certain only if all stack lines of the name are equal.
    """
    doubtful: dict[str, list[PendingKernel]] = defaultdict(list)
    for kernel in kernels:
        if kernel.stack_in_doubt:
            doubtful[kernel.symbol].append(kernel)
    for namesakes in doubtful.values():
        alike = len({kernel.stack for kernel in namesakes}) == 1
        for kernel in namesakes:
            kernel.stack_in_doubt = not alike
            if not alike:
                kernel.reasons += ("same-named kernels were compiled at the same time",)


# Compile times: from 12.8 on each registers line is followed by one, before that none is.


def demand_times(report: Report, end_line: int, issues: IssueLog) -> None:
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
        what = "the log ends before the compile time of its last kernel, and possibly before other kernels"
        issues.add("truncated", what, end_line, "error")
        return
    untimed: dict[int, bool] = {}  # whether the first kernel of a section has none
    for line, section, milliseconds in entries:
        if untimed.setdefault(id(section), milliseconds is None) is not (milliseconds is None):
            what = "some kernels of a compiler run have no compile time: lines are missing"
            issues.add_missing(what, line)
            return


# Records of unnamed kernels: excerpts, logs filtered by ``grep``, names that people left out.

MOST_QUOTED = 3
"""Most lines without a kernel's name that are quoted."""


class Nameless(Struct):
    """One record without a kernel's name."""

    kernel: PendingKernel
    text: str
    """First line of the record."""
    message: int
    """Position among the writer's messages."""


def settle_nameless(records: list[Nameless], issues: IssueLog, *, named: bool) -> tuple[list[PendingKernel], bool]:
    """Kernels of the nameless records at the end of the log, and whether a stack line lost its name.

    ``named``: other kernels of the log have names; a single compiler would then name all. A stack line and the
    registers line after it are joined into one kernel if all of them come in such pairs.
    """
    pieces = [each for each in records if each.kernel.arch is None]
    forms = "".join("S" if each.kernel.usage is NO_USAGE else "U" for each in pieces)
    joined: set[int] = set()
    if "SS" not in forms and "UU" not in forms:
        for one, other in pairwise(pieces):
            if other.message == one.message + 1 and one.kernel.usage is NO_USAGE:
                other.kernel.stack, other.kernel.line = one.kernel.stack, one.kernel.line
                joined.add(id(one))
    records = [each for each in records if id(each) not in joined]
    shown = listed((f"'{quoted(each.text)}'" for each in records[:MOST_QUOTED]), len(records) - MOST_QUOTED)
    message = f"{count(len(records), 'record has', 'records have')} no kernel name: {shown}"
    issues.add("unnamed-kernel", message, records[0].kernel.line, "error")
    lost = [each for each in pieces if named and each.message > 1]
    for each in lost:
        issues.mark_doubtful(each.kernel.line)
    return [each.kernel for each in records if each.kernel.arch is None], "S" in forms and bool(lost)
