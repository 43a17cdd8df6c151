"""What compile times show: from 12.8 on each registers line has one behind it, before that none has."""

from __future__ import annotations

from spillscan.reading.logs.issue_log import IssueLog
from spillscan.reading.logs.pending import PendingKernel, Run, Section, first_line
from spillscan.reading.logs.suspicions import Seen


class CompileTimes:
    """Those of one writer that are not where they are to be."""

    def __init__(self, issues: IssueLog) -> None:
        self._issues = issues
        self.stray: list[int] = []
        """Lines of those that follow no kernel."""
        self._half: list[int] = []
        """Lines of kernels that have one, or none, unlike others of the same run."""

    def of_kernel(self, section: Section, compile_ms: float | None, line: int) -> None:
        """A kernel on ``line`` has this compile time: in one compiler's run all have, or none."""
        before, section.times = section.times, section.times | (2 if compile_ms is None else 1)
        if before != section.times == 3:
            self._half.append(line)

    def count(self, pending: list[PendingKernel], seen: Seen) -> None:
        """The log has ended: are there more than there are lines that have one?"""
        functions = [each.compile_ms for each in pending if each.role == "function"]
        timed = len(functions) - functions.count(None)
        if seen.overlapped or (seen.crossed and timed):
            timed = len(functions)
        if self.stray and seen.compile_times > seen.registers_lines + timed:
            self._issues.add_missing("a compile time is no kernel's: its lines are missing", self.stray[0])

    def demand(self, runs: list[Run], pending: list[PendingKernel], seen: Seen, end_line: int) -> None:
        """The log of one compiler after the other has ended, on ``end_line``: where the last kernel alone has none, it
        was cut behind that one's registers line."""
        last: tuple[int, float | None] = (0, 0)
        if runs:
            kernel = runs[-1].kernels[-1]
            last = first_line(kernel), kernel.compile_ms
        for each in pending:
            if each.role == "entry":
                self.of_kernel(each.section, each.compile_ms, each.line)
                last = max(last, (each.line, each.compile_ms), key=lambda pair: pair[0])
        if last[1] is None and seen.compile_times == seen.registers_lines - 1:
            what = "the log ends before the compile time of its last kernel, and perhaps before other kernels"
            self._issues.add("truncated", what, end_line, "error")
        elif self._half:
            what = "kernels of one compiler's run lack compile times that others have: lines are missing"
            self._issues.add_missing(what, self._half[0])
