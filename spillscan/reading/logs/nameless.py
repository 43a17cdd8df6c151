"""Records whose kernel no line names: excerpts, logs that went through ``grep``, names that people left out."""

from __future__ import annotations

from itertools import pairwise

from msgspec import Struct

from spillscan.output.nouns import count, listed
from spillscan.reading.logs.issue_log import IssueLog, quoted
from spillscan.reading.logs.pending import NO_USAGE, PendingKernel

MOST_QUOTED = 3
"""So many lines without a kernel's name are quoted."""


class Nameless(Struct):
    """One record."""

    kernel: PendingKernel
    text: str
    """Its line."""
    message: int
    """Its place among the writer's messages."""


class NamelessRecords:
    """Those of one writer, in the order of the log."""

    def __init__(self) -> None:
        self._records: list[Nameless] = []

    def add(self, kernel: PendingKernel, text: str, message: int) -> None:
        """One more, which the line ``text`` begins."""
        self._records.append(Nameless(kernel, text, message))

    def settle(self, pending: list[PendingKernel], issues: IssueLog, *, named: bool) -> bool:
        """The log has ended: ``pending`` grows by them. ``named``: other kernels of the log have names. Whether a stack
        line has lost its name among them, which one compiler alone does not do.

        A stack line and the registers line behind it are one kernel's if all of them stand so.
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
