"""nvlink's report lines: properties name a kernel, and the next registers line has its final values."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from spillscan.model import LinkRecord, Origin
from spillscan.reading.logs.issue_log import ALL, METRICS, IssueLog, quoted
from spillscan.reading.logs.messages import LinkProperties, LinkUsed


class LinkLines:
    """nvlink's lines from one writer, in log order."""

    def __init__(self, input_name: str, issues: IssueLog) -> None:
        self._input = input_name
        self._issues = issues
        self.records: list[LinkRecord] = []
        self.symbols: set[str] = set()
        """All symbols that nvlink names."""
        self.named: LinkProperties | None = None
        """Properties whose registers line was not read."""
        self._line = 0
        self._missing = False  # whether a registers line is missing, unless the next one is it

    def properties(self, message: LinkProperties, line: int) -> None:
        """Record a kernel's name."""
        if self.named is not None:
            self.interrupt()
            self._missing = True
        self.named, self._line = message, line
        self.symbols.add(message.symbol)

    def used(self, message: LinkUsed, line: int, text: str) -> None:
        """Record the kernel's values, read from ``text``."""
        named, self.named = self.named, None
        missing, self._missing = self._missing, False
        if named is None or missing or message.cut:
            what = f"an nvlink line is incomplete, or the line with its kernel name is missing: {quoted(text)}"
            hides = ALL if named is None else METRICS
            self._issues.add("unnamed-kernel", what, line, "error", hides=hides)
            return
        origin = Origin(input=self._input, line=line, format="nvlink")
        self.records.append(LinkRecord(named.symbol, named.arch, message.usage, origin))

    def forget_stacks(self, symbols: Collection[str]) -> None:
        """Drop the stack size of these kernels, which cannot be determined."""
        if symbols:
            self.records = [
                replace(each, usage=replace(each.usage, stack_bytes=None)) if each.symbol in symbols else each
                for each in self.records
            ]

    def interrupt(self) -> None:
        """Report the missing registers line if something else follows the properties."""
        if self.named is not None:
            what = f"no 'used N registers' line follows nvlink's 'Function properties' of {self.named.symbol}"
            self._issues.add("lost-lines", what, self._line, "error", hides=METRICS, symbol=self.named.symbol)
            self.named = None
