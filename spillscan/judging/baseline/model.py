"""What a baseline holds, and what it calls a kernel: its canonical identity.

A baseline calls one what may be several: a kernel may have copies in several translation units.
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
"""(name, value) by name: what a rule measured of one kernel; greater is worse."""

Copies = tuple[Figures, ...]
"""Figures of each copy of one kernel (it may stand in several translation units), greatest first; where all copies are
equal there is one, whatever their number."""


KEPT_FIGURES = ("registers", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "shared_bytes", "barriers")
"""What is kept of every kernel: the figures that decide spills and residency."""
KEPT_OF_LAUNCH = ("threads_per_block", "dynamic_shared_bytes")
"""What is kept of a launch: with it and the figures the blocks per SM are known."""
LARGEST_BLOCK = 1024
"""Threads."""


class Identity(NamedTuple):
    """A kernel of one arch, whatever checkout or translation unit it was compiled in."""

    symbol: str
    """Canonical symbol, shortened where it is very long (:func:`spillscan.judging.baseline.model.identity_of`)."""
    arch: str | None
    """``None`` where the log does not say."""
    function: bool = False
    """Whether it is a device function."""


class KnownKernel(Struct, frozen=True, kw_only=True):
    """What is recorded of one kernel of one arch."""

    name: str
    """Short name, for people."""
    recorded: dict[str, Copies] = {}
    """Accepted figures by rule; empty for a kernel that is only known."""
    figures: Copies = ()
    """What its copies took, by field of :class:`~spillscan.model.Usage`; empty where an older release wrote it."""
    launch: Figures = ()
    """Its launch, by field of :class:`~spillscan.model.Launch`; empty where it was not known."""
    unit: str = ""
    """The unit that it was compiled in (:attr:`spillscan.model.units.Unit.name`); empty where that was not known, or
    its copies are of several."""


class Baseline(Struct, frozen=True, kw_only=True):
    """A baseline file's content."""

    entries: dict[Identity, KnownKernel] = {}
    """Every known kernel, and device functions with findings."""
    toolkits: tuple[str, ...] = ()
    """Releases of the compilers that made what was recorded last: ``13.0.88``; empty if unknown."""
    limits: dict[str, int] = {}
    """Limits on all kernels under which it was written, by name."""


# ---- identity -------------------------------------------------------------------------------------------------------

LONGEST_SYMBOL = 200
"""Longer symbols (CUTLASS has them of thousands of characters) become their beginning and a digest of the whole."""
KEPT = 150
"""Characters of a long symbol that are kept, so that a family's kernels still stand together."""


class Accepted(Struct, frozen=True, kw_only=True):
    """A finding that the baseline records and the build does not have."""

    identity: Identity
    """What the baseline calls the kernel."""
    name: str
    """Its short name, as recorded."""
    rule: str
    """The rule; empty for a kernel of which nothing else is recorded."""
    severity: Level = "error"
    """How severe a finding of it would be."""


class BaselineResult(Struct, frozen=True, kw_only=True):
    """What a build's findings are to a baseline."""

    findings: tuple[Finding, ...]
    """All of them, each with its state, those that fail a gate first."""
    fixed: tuple[Accepted, ...] = ()
    """Recorded, and the kernel no longer has the finding."""
    unreported: tuple[Accepted, ...] = ()
    """Recorded, and the input does not say what the rule must know: neither fixed nor there."""
    stale: tuple[Accepted, ...] = ()
    """Entries whose kernel the build does not have."""
    fewer: tuple[Accepted, ...] = ()
    """Known kernels that the build does not have, of archs with fewer kernels than the baseline knows."""
    removed: tuple[Accepted, ...] = ()
    """Those of them whose unit was compiled, and reported whole: they are gone."""
    renamed: tuple[Change, ...] = ()
    """Recorded kernels that go on under another name: their entries are stale."""
    unknown: tuple[Accepted, ...] = ()
    """Kernels of the build that are recorded under no name."""
    undecided: tuple[Undecided, ...] = ()
    """Recorded figures that the input does not report, so that they may be worse."""

    unheld: int = 0
    """Kernels whose growth of registers the user limits, and of which no registers are recorded."""

    @property
    def open(self) -> tuple[Finding, ...]:
        """The findings that nothing excuses."""
        return tuple(finding for finding in self.findings if not finding.excused)

    def counts(self) -> dict[str, int]:
        """How many there are of each state."""
        states = Counter(finding.baseline_state for finding in self.findings)
        named = {state: states[state] for state in ("new", "worse", "known", "better")}
        rest = {"fixed": len(self.fixed), "stale": len(self.stale), "suppressed": states["suppressed"]}
        return named | rest


def identity_of(kernel: Kernel) -> Identity:
    """The identity of ``kernel``: equal in every checkout, and in every translation unit that has a copy of it."""
    return Identity(shortened(canonical(kernel.key.symbol)), kernel.key.arch, kernel.role == "function")


def shortened(symbol: str) -> str:
    """``symbol``, or its beginning, ``~`` and a digest of all of it (64 bits) where it is very long."""
    if len(symbol) <= LONGEST_SYMBOL:
        return symbol
    return f"{symbol[:KEPT]}~{digest(symbol, 8)}"


def key_of(identity: Identity) -> tuple[str, str, bool]:
    """The order of entries."""
    return identity.symbol, identity.arch or "", identity.function


# ---- kernels and findings of a build --------------------------------------------------------------------------------

Groups = dict[Identity, list[Kernel]]


def by_identity(kernels: Iterable[Kernel]) -> Groups:
    """Every kernel of the build, under its identity."""
    groups: Groups = defaultdict(list)
    for kernel in kernels:
        groups[identity_of(kernel)].append(kernel)
    return dict(groups)


def by_rule(findings: Iterable[Finding]) -> dict[tuple[Identity, str], list[Finding]]:
    """The findings of one rule on one kernel, in their order."""
    groups: dict[tuple[Identity, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[identity_of(finding.kernel), finding.rule].append(finding)
    return dict(groups)


def measured(rule: str, kernels: Sequence[Kernel], policy: Policy) -> list[Figures]:
    """What ``rule`` measures of each copy whose figures are known."""
    figures = (measure(rule, kernel, policy.terms_of(kernel)) for kernel in kernels)
    return [each for each in figures if each is not None]
