"""Issues of one writer's log: unparsed messages, missing lines, and lines in doubt.

Every gap of a log derives from them. Visible damage in one place makes its neighbourhood doubtful: writers tear lines
in blocks, and pipes buffer at most 64 KiB, some thousand lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from spillscan.model import Hidden, Issue, Origin, Severity
from spillscan.reading import grammar
from spillscan.reading.logs.fragments import elided

MOST_OF_A_CODE = 1000
"""Most issues kept per code; the rest is counted."""

NEIGHBOURHOOD_LINES = 1000
"""Distance in lines from a torn line within which nothing is certain."""

METRICS: tuple[Hidden, ...] = ("registers", "stack", "shared")
ALL: tuple[Hidden, ...] = ("kernels", "spills", *METRICS)

LONGEST_QUOTE = 160
_DIGITS = re.compile(r"\d+")
_MORE = ""
"""Pattern of the issues beyond ``MOST_OF_A_CODE``."""
_COUNTED = ("unknown-line", "unattached-advisory", "unattached-setmaxnreg")


def quoted(text: str) -> str:
    """A line of the log, shortened for a message."""
    text = text.strip()
    return f"{text[:LONGEST_QUOTE]} …" if len(text) > LONGEST_QUOTE else text


class IssueLog:
    """Issues of one writer.

    Issues that differ only in numbers are merged into the first and a count. Beyond ``MOST_OF_A_CODE`` they are only
    counted.
    """

    def __init__(self, input_name: str) -> None:
        self.input = input_name
        self._kept: dict[tuple[str, str], tuple[Issue, int]] = {}
        self._of_code: Counter[str] = Counter()
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
        """Add an issue seen on ``line``."""
        pattern = f"{symbol} {_DIGITS.sub('0', message)}" if code in _COUNTED else f"{line} {message}"
        if self._of_code[code] >= MOST_OF_A_CODE and (code, pattern) not in self._kept:
            pattern = _MORE
        issue, count = self._kept.get((code, pattern), (None, 0))
        if issue is None:
            origin = Origin(input=self.input, line=line)
            issue = Issue(code=code, message=message, severity=severity, origin=origin, hides=hides, symbol=symbol)
            self._of_code[code] += 1
        self._kept[code, pattern] = (issue, count + 1)

    def add_damage(self, message: str, line: int) -> None:
        """Add a torn line, which puts its neighbourhood in doubt."""
        self.add("torn-line", message, line, "error")
        self._damaged.append(line)

    def add_missing(
        self, message: str, line: int, *, hides: tuple[Hidden, ...] | None = None, symbol: str = ""
    ) -> None:
        """Add lines that are missing at ``line``."""
        self.add("lost-lines", message, line, "error", hides=hides, symbol=symbol)
        self.mark_doubtful(line)

    def add_pieces(self, text: str, line: int, *, at_beginning: bool) -> None:
        """Add a line with pieces of lines. At the beginning of the input, they were cut off with earlier lines."""
        joined = len(grammar.text_line("_head", "ptxas").findall(text)) > 1
        if "Registers are spilled" in text:
            self.add("unread-spill-warning", f"a spill warning is cut off: {quoted(text)}", line, "error")
            self.mark_doubtful(line)
            if elided(text) is not None and not joined:
                return
        if "ptxas" not in text and "nvlink" not in text:
            self.add("unknown-line", f"incomplete line of a report: {quoted(text)}", line, "error", hides=ALL)
            (self._missing if at_beginning else self._damaged).append(line)
        elif at_beginning and not joined:
            self.add_missing(f"incomplete line: {quoted(text)}", line)
        else:
            self.add_damage(f"incomplete line: {quoted(text)}", line)

    def mark_doubtful(self, line: int) -> None:
        """Record that lines are missing around ``line`` and already reported."""
        self._missing.append(line)

    @property
    def complete(self) -> bool:
        """Whether no required line is missing or damaged."""
        return not (self._damaged or self._missing)

    def doubts(self, *, interleaved: bool) -> list[int]:
        """Lines in doubt. If several writers interleave, a lost line may belong to any of them."""
        return sorted(self._damaged + (self._missing if interleaved else []))

    def issues(self) -> Iterator[Issue]:
        """Issues, in order of first occurrence."""
        for (_, pattern), (issue, count) in self._kept.items():
            message = issue.message
            if pattern == _MORE:
                message = f"{count} more like this: {message}"
            elif count > 1:
                message = f"{message} ({count} times)"
            yield replace(issue, message=message)


def are_near(lines: Sequence[int], line: int) -> bool:
    """Whether ``line`` is near one of ``lines``, which are sorted."""
    at = bisect_left(lines, line - NEIGHBOURHOOD_LINES)
    return at < len(lines) and lines[at] <= line + NEIGHBOURHOOD_LINES
