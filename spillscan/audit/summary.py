"""What an audit came to, counted and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from spillscan.audit.messages import FileOutcome, State
from spillscan.model import Issue, Origin
from spillscan.occupancy.text import size
from spillscan.output.safe import printable

LONGEST = 300
"""Characters of one reason."""


@dataclass(slots=True, kw_only=True)
class Summary:
    """Figures of one audit."""

    files: Counter[State] = field(default_factory=Counter)
    """Files by what became of them."""
    kernels: int = 0
    """Entries that were read: not those of files that were in the dataset before."""
    spilling: int = 0
    """Those of them that spill."""
    read_bytes: int = 0
    """Size of the files that were read."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why files were skipped, and how many for each reason."""
    failed: list[FileOutcome] = field(default_factory=list)
    """Files that could not be read."""
    kept_kernels: int = 0
    """Kernels of the builds in the dataset, those of files that were there before included."""
    issues: list[Issue] = field(default_factory=list)
    """What was not understood of the files that were read, in this audit or an earlier one."""

    def count(self, outcome: FileOutcome) -> None:
        """Take in one outcome."""
        self.files[outcome.state] += 1
        if outcome.state == "read":
            self.kernels += outcome.kernels
            self.spilling += outcome.spilling
            self.read_bytes += outcome.size_bytes
        elif outcome.state == "skipped":
            self.reasons[outcome.reason] += 1
        elif outcome.state == "failed":
            self.failed.append(outcome)

    @property
    def understood(self) -> int:
        """Files whose records are in the dataset."""
        return self.files["read"] + self.files["present"]

    def text(self, rows: int | None = None) -> str:
        """A few lines; at most ``rows`` of the failed files. The same however many processes worked on it."""
        return "\n".join(self._lines(rows))

    def _lines(self, rows: int | None) -> Iterator[str]:
        spill = f" ({self.spilling:,} spill)" if self.spilling else ""
        yield f"{counted(self.files['read'])} read: {self.kernels:,} kernels{spill}, {size(self.read_bytes)}"
        if present := self.files["present"]:
            yield f"{counted(present)} finished before"
        if skipped := self.files["skipped"]:
            reasons = ", ".join(f"{count:,} {why}" for why, count in sorted(self.reasons.items(), key=_most_first))
            yield f"{counted(skipped)} skipped: {reasons}"
        if self.failed:
            yield f"{counted(len(self.failed))} failed:"
            failed = sorted(self.failed, key=lambda outcome: (outcome.label, outcome.uri))
            for outcome in failed[:rows]:
                named = outcome.reason if outcome.uri in outcome.reason else f"{outcome.uri}: {outcome.reason}"
                yield f"  {printable(named, LONGEST)}"
            if rows is not None and len(failed) > rows:
                yield f"  … {len(failed) - rows:,} more (--all shows them)"

        if kinds := Counter(issue.code for issue in self.issues if issue.hidden):
            listed = ", ".join(f"{count:,} {code}" for code, count in sorted(kinds.items(), key=_most_first))
            yield f"{kinds.total():,} hole{'' if kinds.total() == 1 else 's'}: {listed}"

    def unseen(self) -> Iterator[Issue]:
        """Why the audit may have missed something: it saw no kernel at all, could not read a file, or not all of it."""
        if not self.kept_kernels:
            yield Issue(code="no-kernel", message="no kernel was read", severity="error")
        for each in self.failed:
            origin = Origin(input=each.uri)
            yield Issue(code="unreadable", message=each.reason, severity="error", origin=origin)
        yield from self.issues


def _most_first(pair: tuple[str, int]) -> tuple[int, str]:
    return -pair[1], pair[0]


def counted(files: int) -> str:
    """``1 file``, ``2 files``."""
    return f"{files:,} file{'' if files == 1 else 's'}"
