"""Baseline: kernels and findings that a team accepted are recorded, and only new or worse ones fail.

Pure: text in, text out; ``commands/_baseline.py`` opens files and calls git. ``file`` has the lines of a baseline,
``comparing`` compares a build with it and sets the state of each finding, and ``recording`` creates and prunes it.

A recorded kernel is a kernel: it is paired with the build's kernels and compared as by ``diff``. A finding is known if
the paired record has one of the same rule, with values that are not exceeded.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from spillscan.model import Change, Finding, Level

if TYPE_CHECKING:
    from spillscan.judging.baseline.file import Identity
    from spillscan.judging.rules import Undecided

State = Literal["fixed", "unreported", "stale", "fewer", "removed", "unknown"]


class Unmatched(Struct, frozen=True, kw_only=True):
    """Kernel, or recorded finding, that only one of baseline and build has."""

    state: State
    """``fixed``: a finding that the kernel no longer has; ``unreported``: a finding that the input is too incomplete to
    check; ``stale``: a kernel that the build does not have under this name; ``fewer``: one that may be missing, since
    its arch has fewer kernels than recorded; ``removed``: one that is gone, since its unit was compiled without it;
    ``unknown``: a kernel of the build that is not recorded.
    """
    identity: Identity
    """Identity of the kernel."""
    name: str
    """Short name of the kernel."""
    rule: str = ""
    """Rule of the finding; empty for a kernel without recorded findings."""
    severity: Level = "error"
    """Severity that the finding would have."""


class BaselineResult(Struct, frozen=True, kw_only=True):
    """Comparison of a build and its findings with a baseline."""

    findings: tuple[Finding, ...]
    """All findings with their state, excused ones last."""
    unmatched: tuple[Unmatched, ...] = ()
    """Kernels and recorded findings that only one side has."""
    renamed: tuple[Change, ...] = ()
    """Recorded kernels that have another name now: their entries are stale."""
    undecided: tuple[Undecided, ...] = ()
    """Metrics that only one of baseline and build has, so that they may be worse."""

    @property
    def open(self) -> tuple[Finding, ...]:
        """Findings that are not excused."""
        return tuple(finding for finding in self.findings if not finding.excused)

    def of(self, state: str) -> tuple[Unmatched, ...]:
        """Unmatched kernels or findings of one state."""
        return tuple(each for each in self.unmatched if each.state == state)

    def counts(self) -> dict[str, int]:
        """Number of findings or entries per state."""
        states = Counter(str(finding.baseline_state) for finding in self.findings)
        names = ("new", "worse", "known", "better", "fixed", "stale", "suppressed")
        return {name: states[name] or len(self.of(name)) for name in names}
