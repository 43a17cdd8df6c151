"""Issues of one input; of those that differ in numbers only, the first and a count."""

from __future__ import annotations

import re
from dataclasses import replace

from spillscan.model import Issue, Origin, Severity

_DIGITS = re.compile(r"\d+")
_COUNTED = ("unknown-line", "unattached-advisory")


class IssueLog:
    """Collects issues."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._found: dict[tuple[str, str], tuple[Issue, int]] = {}

    def add(self, code: str, message: str, line: int, severity: Severity = "warning") -> None:
        """One more issue, seen on ``line``."""
        pattern = _DIGITS.sub("0", message) if code in _COUNTED else f"{line} {message}"
        issue, count = self._found.get((code, pattern), (None, 0))
        if issue is None:
            issue = Issue(code=code, message=message, severity=severity, origin=Origin(input=self._input, line=line))
        self._found[code, pattern] = (issue, count + 1)

    def all(self) -> list[Issue]:
        """The issues in the order in which they were first seen."""
        return [
            issue if count == 1 else replace(issue, message=f"{issue.message} ({count} times)")
            for issue, count in self._found.values()
        ]
