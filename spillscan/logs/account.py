"""Issues of one input; of those that differ in numbers only, the first and a count; of very many, their number."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from spillscan.model import Issue, Origin, Severity

MOST_OF_A_CODE = 1000
"""How many issues of one code are kept; the rest is counted."""

_DIGITS = re.compile(r"\d+")
_COUNTED = ("unknown-line", "unattached-advisory")


class IssueLog:
    """Collects issues."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._found: dict[tuple[str, str], tuple[Issue, int]] = {}
        self._of_code: Counter[str] = Counter()
        self._left_out: dict[str, tuple[Issue, int]] = {}

    def add(self, code: str, message: str, line: int, severity: Severity = "warning") -> None:
        """One more issue, seen on ``line``."""
        pattern = _DIGITS.sub("0", message) if code in _COUNTED else f"{line} {message}"
        issue, count = self._found.get((code, pattern), (None, 0))
        if issue is None:
            issue = Issue(code=code, message=message, severity=severity, origin=Origin(input=self._input, line=line))
            self._of_code[code] += 1
            if self._of_code[code] > MOST_OF_A_CODE:
                first, left_out = self._left_out.get(code, (issue, 0))
                self._left_out[code] = (first, left_out + 1)
                return
        self._found[code, pattern] = (issue, count + 1)

    def all(self) -> list[Issue]:
        """The issues in the order in which they were first seen."""
        kept = [
            issue if count == 1 else replace(issue, message=f"{issue.message} ({count} times)")
            for issue, count in self._found.values()
        ]
        return kept + [
            replace(issue, message=f"{count} more like this: {issue.message}")
            for issue, count in self._left_out.values()
        ]
