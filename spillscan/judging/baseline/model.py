"""Content of a baseline, and the canonical identity of kernels.

One identity may stand for several kernels: copies in several translation units.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from spillscan.judging.policy import Policy
from spillscan.judging.rules import Undecided, measure
from spillscan.model import Change, Finding, Kernel, Level
from spillscan.naming.identity import canonical, digest

Figures = tuple[tuple[str, int], ...]
"""Values that a rule measured of one kernel, as (name, value) sorted by name; greater is worse."""

Copies = tuple[Figures, ...]
"""Figures of each copy of one kernel (from several translation units), greatest first.

There is a single entry if all copies are equal.
"""


KEPT_FIGURES = ("registers", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "shared_bytes", "barriers")
"""Metrics recorded of every kernel: those that decide spills and residency."""
KEPT_OF_LAUNCH = ("threads_per_block", "dynamic_shared_bytes")
"""Launch fields that are recorded: with them and the metrics, the blocks per SM are known."""
LARGEST_BLOCK = 1024
"""Threads of the largest block."""


class Identity(NamedTuple):
    """Kernel of one arch, independent of checkout and translation unit."""

    symbol: str
    """Canonical symbol, shortened if it is very long (:func:`spillscan.judging.baseline.model.identity_of`)."""
    arch: str | None
    """``None`` if the log does not name it."""
    function: bool = False
    """Whether it is a device function."""


class KnownKernel(Struct, frozen=True, kw_only=True):
    """Record of one kernel of one arch."""

    name: str
    """Short name, for people."""
    recorded: dict[str, Copies] = {}
    """Accepted figures by rule; empty for a kernel without findings."""
    figures: Copies = ()
    """Metrics of its copies, by field of :class:`~spillscan.model.Usage`; empty if an older release wrote it."""
    launch: Figures = ()
    """Its launch, by field of :class:`~spillscan.model.Launch`; empty if unknown."""
    unit: str = ""
    """Unit that compiled it (:attr:`spillscan.model.units.Unit.name`); empty if unknown or not the same in all."""


class Baseline(Struct, frozen=True, kw_only=True):
    """Content of a baseline file."""

    entries: dict[Identity, KnownKernel] = {}
    """Every known kernel, and device functions with findings."""
    toolkits: tuple[str, ...] = ()
    """Compiler releases of the latest recording: ``13.0.88``; empty if unknown."""
    limits: dict[str, int] = {}
    """Limits on all kernels at the time of writing, by name."""


# ---- identity -------------------------------------------------------------------------------------------------------

LONGEST_SYMBOL = 200
"""Longer symbols (CUTLASS has some of thousands of characters) are replaced by their start and a digest."""
KEPT = 150
"""Characters kept of a long symbol, so that a family's kernels stay next to each other."""


class Accepted(Struct, frozen=True, kw_only=True):
    """Recorded finding that the build does not have."""

    identity: Identity
    """Identity of the kernel in the baseline."""
    name: str
    """Short name of the kernel, as recorded."""
    rule: str
    """The rule; empty for a kernel without recorded findings."""
    severity: Level = "error"
    """Severity that a finding of the rule would have."""


class BaselineResult(Struct, frozen=True, kw_only=True):
    """Comparison of a build's findings with a baseline."""

    findings: tuple[Finding, ...]
    """All findings with their state, excused ones last."""
    fixed: tuple[Accepted, ...] = ()
    """Recorded findings that the kernel no longer has."""
    unreported: tuple[Accepted, ...] = ()
    """Recorded findings that the input is too incomplete to check: neither fixed nor present."""
    stale: tuple[Accepted, ...] = ()
    """Entries of kernels that the build does not have."""
    fewer: tuple[Accepted, ...] = ()
    """Recorded kernels that the build does not have, of archs with fewer kernels than recorded."""
    removed: tuple[Accepted, ...] = ()
    """Recorded kernels that are gone: their unit was compiled, and reported completely."""
    renamed: tuple[Change, ...] = ()
    """Recorded kernels that have another name now: their entries are stale."""
    unknown: tuple[Accepted, ...] = ()
    """Kernels of the build that are not recorded."""
    undecided: tuple[Undecided, ...] = ()
    """Recorded figures that the input does not report, so that they may be worse."""

    unheld: int = 0
    """Kernels whose register growth the user limits, but whose registers are not recorded."""

    @property
    def open(self) -> tuple[Finding, ...]:
        """Findings that are not excused."""
        return tuple(finding for finding in self.findings if not finding.excused)

    def counts(self) -> dict[str, int]:
        """Number of findings or entries per state."""
        states = Counter(finding.baseline_state for finding in self.findings)
        named = {state: states[state] for state in ("new", "worse", "known", "better")}
        rest = {"fixed": len(self.fixed), "stale": len(self.stale), "suppressed": states["suppressed"]}
        return named | rest


def identity_of(kernel: Kernel) -> Identity:
    """Identity of ``kernel``, equal in every checkout and every translation unit that has a copy of it."""
    return Identity(shortened(canonical(kernel.key.symbol)), kernel.key.arch, kernel.role == "function")


def shortened(symbol: str) -> str:
    """``symbol``, or if it is very long its start, ``~`` and a 64-bit digest of the whole."""
    if len(symbol) <= LONGEST_SYMBOL:
        return symbol
    return f"{symbol[:KEPT]}~{digest(symbol, 8)}"


def key_of(identity: Identity) -> tuple[str, str, bool]:
    """Sort key of entries."""
    return identity.symbol, identity.arch or "", identity.function


# ---- kernels and findings of a build --------------------------------------------------------------------------------

Groups = dict[Identity, list[Kernel]]


def by_identity(kernels: Iterable[Kernel]) -> Groups:
    """Kernels of the build by identity."""
    groups: Groups = defaultdict(list)
    for kernel in kernels:
        groups[identity_of(kernel)].append(kernel)
    return dict(groups)


def by_rule(findings: Iterable[Finding]) -> dict[tuple[Identity, str], list[Finding]]:
    """Findings by kernel identity and rule, in their order."""
    groups: dict[tuple[Identity, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[identity_of(finding.kernel), finding.rule].append(finding)
    return dict(groups)


def measured(rule: str, kernels: Sequence[Kernel], policy: Policy) -> list[Figures]:
    """Values that ``rule`` measures of each copy, for copies with known values."""
    figures = (measure(rule, kernel, policy.terms_of(kernel)) for kernel in kernels)
    return [each for each in figures if each is not None]
