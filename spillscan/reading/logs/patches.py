"""Patches that a log shows (``git diff``): what their lines quote was printed by no tool of this build."""

from __future__ import annotations

import re

_MARK = b"@@ -"
_HUNK = re.compile(rb"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_DIGITS = re.compile(rb"\d")
_LONGEST_PREFIX = 100
"""Bytes before a hunk's lines, such as a stage's name and time."""


class Patches:
    """Follows one log. A hunk says how many lines of both files follow, and each of them says whose it is: a line that
    does not ends it, so that nothing that a tool printed is hidden."""

    def __init__(self) -> None:
        self._prefix = b""
        self._old = self._new = 0
        """Lines of both files that are still to come."""

    def without(self, text: bytes) -> bytes:
        """``text``, whole lines, each line of a hunk blank."""
        if not (self._old or self._new or _MARK in text):
            return text
        lines = text.splitlines(keepends=True)
        return b"".join(b"\n" if self._quotes(line) and line.endswith(b"\n") else line for line in lines)

    def _quotes(self, line: bytes) -> bool:
        """Whether a line is a hunk's; a hunk's first line is looked at, too."""
        if self._old or self._new:
            before, mark = line[: len(self._prefix)], line[len(self._prefix) :].rstrip(b"\n")[:1] or b" "
            if _DIGITS.sub(b"0", before) == self._prefix and mark in b"+- \\":
                self._old = max(0, self._old - (mark in b"- "))
                self._new = max(0, self._new - (mark in b"+ "))
                return True
        self._old = self._new = 0
        if _MARK in line and (hunk := _HUNK.search(line, 0, 2 * _LONGEST_PREFIX)) and hunk.start() <= _LONGEST_PREFIX:
            self._prefix = _DIGITS.sub(b"0", line[: hunk.start()])
            self._old, self._new = (1 if each is None else int(each) for each in hunk.groups())
        return False
