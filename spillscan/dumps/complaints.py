"""What in a dump was not understood, as issues: a line that is unknown is shown, very many are counted."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.dumps import terminals
from spillscan.model import Issue, Origin, Severity
from spillscan.model.code import Outcome

SHOWN = 20
"""Unknown lines that get a message of their own."""

_CHARACTERS = 120
"""Of a line that a message shows."""


class Complaints:
    """Makes the issues of one dump; ``outcome`` counts."""

    def __init__(self, origin: str, form: str, outcome: Outcome) -> None:
        self._input = origin
        self._form = form
        self._outcome = outcome

    def origin(self, line: int | None) -> Origin:
        """A place in the dump."""
        return Origin(input=self._input, line=line, format=self._form)

    def unknown_line(self, text: bytes, line: int) -> Issue | None:
        """A line that no rule describes; ``None`` where there were too many to show."""
        shown = ascii(text.rstrip().decode("utf-8", "backslashreplace"))[1:-1][:_CHARACTERS]
        if terminals.line("diagnostic", self._form).match(text):
            return self._issue("tool-message", f"the dump holds a message of its tool: {shown}", line)
        self._outcome.unknown_lines += 1
        if self._outcome.unknown_lines > SHOWN:
            return None
        return self._issue("unknown-line", f"not a line of a dump: {shown}", line)

    def truncated(self, symbol: str, line: int) -> Issue:
        """A function without an end."""
        return self._issue("truncated", f"the listing of {symbol} breaks off: its figures are too low", line, "error")

    def summary(self) -> Iterator[Issue]:
        """What is said once, at the end."""
        if self._outcome.undecodable_bytes:
            count = self._outcome.undecodable_bytes
            yield self._issue("undecodable", f"{count} bytes of the dump are not ASCII; cuobjdump writes nothing else")
        if self._outcome.unknown_lines > SHOWN:
            yield self._issue(
                "unknown-line",
                f"{self._outcome.unknown_lines} lines of the dump are not understood; {SHOWN} are shown",
            )

    def _issue(self, code: str, message: str, line: int | None = None, severity: Severity = "warning") -> Issue:
        return Issue(code=code, message=message, severity=severity, origin=self.origin(line))
