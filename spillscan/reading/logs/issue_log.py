"""What one writer's log leaves open: what was not understood, what is missing, and which lines are in doubt.

Every gap of a log follows from it. Damage that shows itself in one place was done around it, too: whoever tears lines
writes in blocks, and pipes hold no more than 64 KiB, some thousand lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter

from msgspec.structs import replace

from spillscan.model import Hidden, Issue, Origin, Severity
from spillscan.reading.logs.messages import Torn

MOST_OF_A_CODE = 1000
"""How many issues of one code are kept; the rest is counted."""

NEIGHBOURHOOD_LINES = 1000
"""How far from a torn line nothing is certain."""

FIGURES: tuple[Hidden, ...] = ("registers", "stack", "shared")
ALL: tuple[Hidden, ...] = ("kernels", "spills", *FIGURES)

LONGEST_QUOTE = 160
_DIGITS = re.compile(r"\d+")
_COUNTED = ("unknown-line", "unattached-advisory", "unattached-setmaxnreg")


def quoted(text: str) -> str:
    """A line of the log in a message."""
    text = text.strip()
    return f"{text[:LONGEST_QUOTE]} …" if len(text) > LONGEST_QUOTE else text


class IssueLog:
    """Issues of one writer; of those that differ in numbers only, the first and a count; of very many, their number."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._found: dict[tuple[str, str], tuple[Issue, int]] = {}
        self._of_code: Counter[str] = Counter()
        self._left_out: dict[str, tuple[Issue, int]] = {}
        self._damaged: list[int] = []
        self._missing: list[int] = []

    def add(
        self,
        code: str,
        message: str,
        line: int,
        severity: Severity = "warning",
        *,
        hides: tuple[Hidden, ...] | None = None,
        symbol: str = "",
    ) -> None:
        """One more issue, seen on ``line``."""
        pattern = f"{symbol} {_DIGITS.sub('0', message)}" if code in _COUNTED else f"{line} {message}"
        issue, count = self._found.get((code, pattern), (None, 0))
        if issue is None:
            origin = Origin(input=self._input, line=line)
            issue = Issue(code=code, message=message, severity=severity, origin=origin, hides=hides, symbol=symbol)
            self._of_code[code] += 1
            if self._of_code[code] > MOST_OF_A_CODE:
                first, left_out = self._left_out.get(code, (issue, 0))
                self._left_out[code] = (first, left_out + 1)
                return
        self._found[code, pattern] = (issue, count + 1)

    def add_damage(self, message: str, line: int, *, hides: tuple[Hidden, ...] | None = None) -> None:
        """A line of which only pieces are there: what stands around it is in doubt."""
        self.add("torn-line", message, line, "error", hides=hides)
        self._damaged.append(line)

    def add_missing(
        self, message: str, line: int, *, hides: tuple[Hidden, ...] | None = None, symbol: str = ""
    ) -> None:
        """Lines are missing at ``line``."""
        self.add("lost-lines", message, line, "error", hides=hides, symbol=symbol)
        self.mark_doubtful(line)

    def add_pieces(self, message: Torn, line: int, *, at_beginning: bool) -> None:
        """Pieces of lines; those at the beginning of the input were cut off with what stood before."""
        text = quoted(message.text)
        if message.spilled:
            self.add("unread-spill-warning", f"a spill warning is incomplete: {text}", line, "error")
            self.mark_doubtful(line)
            if message.elided and not message.glued:
                return
        if not message.of_tool:
            self.add("unknown-line", f"metrics outside of a report: {text}", line, "error", hides=ALL)
            (self._missing if at_beginning else self._damaged).append(line)
        elif at_beginning and not message.glued:
            self.add_missing(f"not a whole line: {text}", line)
        else:
            self.add_damage(f"not a whole line: {text}", line)

    def mark_doubtful(self, line: int) -> None:
        """Lines are missing around ``line``, and an issue says so."""
        self._missing.append(line)

    @property
    def complete(self) -> bool:
        """Every line that must be there is there, and whole."""
        return not (self._damaged or self._missing)

    def doubts(self, *, interleaved: bool) -> Doubts:
        """The lines that are in doubt. Where several write at once, a lost line may be any writer's."""
        return Doubts(sorted(self._damaged + (self._missing if interleaved else [])))

    def issues(self) -> list[Issue]:
        """The issues in the order in which they were first seen."""
        kept = [
            issue if count == 1 else replace(issue, message=f"{issue.message} ({count} times)")
            for issue, count in self._found.values()
        ]
        return kept + [
            replace(issue, message=f"{count} more like this: {issue.message}")
            for issue, count in self._left_out.values()
        ]


class Doubts:
    """Lines around which nothing is certain."""

    def __init__(self, lines: list[int]) -> None:
        self._lines = lines

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __contains__(self, line: int) -> bool:
        at = bisect_left(self._lines, line - NEIGHBOURHOOD_LINES)
        return at < len(self._lines) and self._lines[at] <= line + NEIGHBOURHOOD_LINES
