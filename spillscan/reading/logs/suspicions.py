"""Doubts about kernels of a log, decided at its end."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from spillscan.output.nouns import count, listed
from spillscan.reading.logs.issue_log import METRICS, IssueLog, quoted
from spillscan.reading.logs.messages import Stack
from spillscan.reading.logs.pending import (
    NO_USAGE,
    PendingKernel,
    Run,
    Section,
    Suspicion,
    first_line,
    prints_constant_banks,
)

_REASONS: dict[Suspicion, str] = {
    "foreign": "the properties of another function come before its 'Used N registers' line",
    "misplaced": "its properties come before another kernel's 'Used N registers' line",
    "bare": "no stack line before its 'Used N registers' line",
    "nameless": "no 'Function properties' line names its stack",
    "unindented": "its stack line has lost its beginning",
}


class Seen(Struct):
    """Facts seen so far in one writer's log."""

    messages: int = 0
    """Number of compiler and linker messages."""
    entries: int = 0
    """Number of lines that begin a kernel."""
    names: bool = False
    """Whether a line names the function of the next stack line."""
    stack_lines: bool = False
    """Whether an indented stack line was seen."""
    registers_lines: int = 0
    """Number of ``Used N registers`` lines."""
    compile_times: int = 0
    """Number of ``Compile time = N ms`` lines."""
    with_arch: bool = False
    """Whether a kernel's first line names its arch."""
    without_abi: bool = False
    """Whether a module has no ABI, hence no stack lines."""
    interleaved: bool = False
    """Whether several compilers wrote at once."""
    crossed: bool = False
    """Whether output is interleaved by evidence other than compile times that follow no kernel."""
    overlapped: bool = False
    """Whether a kernel began while another was open."""


def doubt_stack(kernel: PendingKernel, stack: Stack, missing: bool) -> None:
    """Record doubts about a stack line; ``missing``: the previous properties lack theirs, unless it is this one."""
    if not stack.indented:
        kernel.suspicions |= {"unindented"}
    if missing:
        kernel.reasons += ("a stack line was lost before its own",)
        kernel.stack_in_doubt = True


def judge(pending: PendingKernel, seen: Seen, issues: IssueLog, *, complete: bool) -> None:
    """Decide the suspicions about a kernel at the end of the log; ``complete``: no line is missing."""
    entry = pending.role == "entry"
    if entry and pending.usage.registers is not None and not pending.reasons:
        _demand_clauses(pending, issues)
    if entry and pending.symbol and pending.arch is None and seen.with_arch:
        pending.reasons += ("the line that begins it names no arch, as others do",)
        issues.add_missing(f"no arch follows {pending.symbol}", pending.line)
    for suspicion in sorted(pending.suspicions):
        if not _stands(suspicion, seen, complete):
            continue
        pending.reasons += (_REASONS[suspicion],)
        issues.add_missing(f"{pending.symbol}: {_REASONS[suspicion]}", pending.line, symbol=pending.symbol)
        if suspicion in ("foreign", "bare"):
            pending.usage = NO_USAGE
        else:
            pending.stack_in_doubt = True


def _stands(suspicion: Suspicion, seen: Seen, complete: bool) -> bool:
    match suspicion:
        case "foreign" | "misplaced":
            return not (seen.overlapped and complete)
        case "bare":
            return seen.stack_lines or seen.names
        case "nameless":
            return seen.names
        case "unindented":
            return seen.stack_lines


def _demand_clauses(pending: PendingKernel, issues: IssueLog) -> None:
    """Report missing clauses that the kernel's release and arch always print."""
    banks, section = prints_constant_banks(pending.arch), pending.section
    counted = section.headed and section.barriers == 3
    if (banks and pending.usage.constant_bytes is None) or (counted and pending.usage.barriers is None):
        pending.reasons += ("its 'Used N registers' line is cut",)
        what = f"parts of the 'Used N registers' line of {pending.symbol} are missing"
        issues.add_missing(what, pending.line, hides=METRICS, symbol=pending.symbol)


class CompileTimes:
    """Compile times of one writer that are missing or misplaced.

    From 12.8 on each registers line is followed by one, before that none is.
    """

    def __init__(self, issues: IssueLog) -> None:
        self._issues = issues
        self.stray: list[int] = []
        """Lines of compile times that follow no kernel."""
        self._half: list[int] = []
        """Lines of kernels that differ from others of their run in having a compile time or none."""

    def of_kernel(self, section: Section, compile_ms: float | None, line: int) -> None:
        """Check a kernel's compile time on ``line``: either all kernels of a ptxas run have one, or none."""
        before, section.times = section.times, section.times | (2 if compile_ms is None else 1)
        if before != section.times == 3:
            self._half.append(line)

    def count(self, pending: list[PendingKernel], seen: Seen) -> None:
        """Report a stray compile time at the end of the log, if there are more of them than lines that need one."""
        functions = [each.compile_ms for each in pending if each.role == "function"]
        timed = len(functions) - functions.count(None)
        if seen.overlapped or (seen.crossed and timed):
            timed = len(functions)
        if self.stray and seen.compile_times > seen.registers_lines + timed:
            self._issues.add_missing("a compile time is no kernel's: its lines are missing", self.stray[0])

    def demand(self, runs: list[Run], pending: list[PendingKernel], seen: Seen, end_line: int) -> None:
        """Report missing compile times at the end of a log that is not interleaved.

        If only the last kernel has none, the log was cut after its registers line.
        """
        last: tuple[int, float | None] = (0, 0)
        if runs:
            kernel = runs[-1].kernels[-1]
            last = first_line(kernel), kernel.compile_ms
        for each in pending:
            if each.role == "entry":
                self.of_kernel(each.section, each.compile_ms, each.line)
                last = max(last, (each.line, each.compile_ms), key=lambda pair: pair[0])
        if last[1] is None and seen.compile_times == seen.registers_lines - 1:
            what = "the log ends before the compile time of its last kernel, and possibly before other kernels"
            self._issues.add("truncated", what, end_line, "error")
        elif self._half:
            what = "kernels of one compiler's run lack compile times that others have: lines are missing"
            self._issues.add_missing(what, self._half[0])


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


class NamelessRecords:
    """Nameless records of one writer, in log order."""

    def __init__(self) -> None:
        self._records: list[Nameless] = []

    def add(self, kernel: PendingKernel, text: str, message: int) -> None:
        """Add a record that begins with the line ``text``."""
        self._records.append(Nameless(kernel, text, message))

    def settle(self, pending: list[PendingKernel], issues: IssueLog, *, named: bool) -> bool:
        """Add the records to ``pending`` at the end of the log. Returns whether a stack line lost its name.

        ``named``: other kernels of the log have names; a single compiler would then name all. A stack line and the
        registers line after it are joined into one kernel if all of them come in such pairs.
        """
        if not self._records:
            return False
        pieces = [each for each in self._records if each.kernel.arch is None]
        forms = "".join("S" if each.kernel.usage is NO_USAGE else "U" for each in pieces)
        joined: set[int] = set()
        if "SS" not in forms and "UU" not in forms:
            for one, other in pairwise(pieces):
                if other.message == one.message + 1 and one.kernel.usage is NO_USAGE:
                    other.kernel.stack, other.kernel.line = one.kernel.stack, one.kernel.line
                    joined.add(id(one))
        records = [each for each in self._records if id(each) not in joined]
        pending += [each.kernel for each in records if each.kernel.arch is None]
        shown = listed((f"'{quoted(each.text)}'" for each in records[:MOST_QUOTED]), len(records) - MOST_QUOTED)
        message = f"{count(len(records), 'record has', 'records have')} no kernel name: {shown}"
        issues.add("unnamed-kernel", message, self._records[0].kernel.line, "error")
        lost = [each for each in pieces if named and each.message > 1]
        for each in lost:
            issues.mark_doubtful(each.kernel.line)
        return "S" in forms and bool(lost)
