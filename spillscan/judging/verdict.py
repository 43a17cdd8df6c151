"""Verdict of a gate: the only place where findings, gaps and a policy become an exit status.

1 if a finding fails the gate; else 2 if data that the gate checks may be missing and the policy does not accept that;
else 0. Pure.

A metric is known, or unknown, or 0 because a tool reported 0. Readers report everything that they could not process as
issues; ``model/gaps.py`` defines what each kind may hide, and each rule what it ``needs``. Every report shows findings
and gaps together, accepted ones too. An unexpected error is one line and status 2, never 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import Undecided, needed
from spillscan.model import Build, Change, Finding, Gap, Hidden, Issue, Level, at_least
from spillscan.model.symbols import natural
from spillscan.occupancy.devices import applicable_devices
from spillscan.output.nouns import count

if TYPE_CHECKING:
    from spillscan.judging.baseline.file import Identity

State = Literal["fixed", "unreported", "stale", "fewer", "removed", "unknown"]


class Unmatched(Struct, frozen=True, kw_only=True):
    """Kernel, or recorded finding, that only one of baseline and build has."""

    state: State
    """``fixed``: a finding that the kernel no longer has; ``unreported``: a finding that the input is too incomplete to
    check; ``stale``: a kernel that the build does not have under this name; ``fewer``: one that may be missing, since
    its arch has fewer kernels than recorded; ``removed``: one that is gone, since its unit was compiled without it;
    ``unknown``: a kernel of the build that is not recorded and has no open finding.
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
    """All findings with their state, accepted ones last."""
    unmatched: tuple[Unmatched, ...] = ()
    """Kernels and recorded findings that only one side has."""
    renamed: tuple[Change, ...] = ()
    """Recorded kernels that have another name now: their entries are stale."""
    undecided: tuple[Undecided, ...] = ()
    """Metrics that only one of baseline and build has, so that they may be worse."""

    @property
    def open(self) -> tuple[Finding, ...]:
        """Findings that are not accepted."""
        return tuple(finding for finding in self.findings if not finding.accepted)

    def of(self, state: str) -> tuple[Unmatched, ...]:
        """Unmatched kernels or findings of one state."""
        return tuple(each for each in self.unmatched if each.state == state)

    def counts(self) -> dict[str, int]:
        """Number of findings or entries per state."""
        states = Counter(str(finding.baseline_state) for finding in self.findings)
        names = ("new", "worse", "known", "better", "fixed", "stale", "suppressed")
        return {name: states[name] or len(self.of(name)) for name in names}


class Verdict(Struct, frozen=True, kw_only=True):
    """Result of a gate."""

    failing: tuple[Finding, ...]
    """Findings that fail the gate, most severe first."""
    gaps: tuple[Gap, ...]
    """Gaps in what the gate checks that are not accepted, in the order of the input."""
    accepted: tuple[Gap, ...]
    """Gaps that the policy accepts."""
    oversized: bool
    """Whether a file is larger than the policy allows."""
    fails: bool
    """Whether the gate can fail at all."""

    @property
    def status(self) -> int:
        """Exit status."""
        if not self.fails:
            return 0
        if self.failing or self.oversized:
            return 1
        return 2 if self.gaps else 0


def verdict(
    findings: Iterable[Finding],
    gaps: Iterable[Gap],
    policy: Policy,
    *,
    oversized: bool = False,
) -> Verdict:
    """Verdict by ``policy`` on the ``findings`` that no baseline accepts, and the ``gaps`` in what it checks."""
    decided = [policy.acceptance(gap) for gap in gaps]
    return Verdict(
        failing=tuple(finding for finding in findings if at_least(finding.severity, policy.fail_on)),
        gaps=tuple(gap for gap in decided if gap.accepted is None),
        accepted=tuple(gap for gap in decided if gap.accepted is not None),
        oversized=oversized,
        fails=policy.fail_on != "never",
    )


def gaps_of(build: Build, undecided: Iterable[Undecided], needed: frozenset[Hidden], policy: Policy) -> Iterator[Gap]:
    """Gaps of ``build`` that may hide what is ``needed``: its size, its issues, and undecided rules."""
    if build.kernels and policy.values.expect_kernels is not None:
        kernels = sum(kernel.role != "function" for kernel in build.kernels)
        if kernels < policy.values.expect_kernels:
            message = f"{count(kernels, 'kernel')}, expected at least {policy.values.expect_kernels:,}"
            yield Gap(code="fewer-kernels", message=message, hides=("kernels",))
    if build.kernels and policy.require_archs:
        from spillscan.builds import coverage

        yield from coverage.gaps(coverage.of_build(build), policy.require_archs)
    if "launch" in needed and policy.devices:
        yield from _devices_without_code(build, policy)
    yield from gaps_of_input(build, needed, strict=policy.strict)
    for each in undecided:
        if at_least(each.severity, policy.fail_on):
            yield _of_rule(each)
        elif each.rule.limits:  # a set limit is reported even if it fails nothing
            yield replace(_of_rule(each), accepted=f"severity below fail_on ({policy.fail_on})")


def _devices_without_code(build: Build, policy: Policy) -> Iterator[Gap]:
    """A gap if no device of the policy runs a kernel whose blocks can fail the gate; in comparisons, any kernel.

    PTX is not enough: its registers are unknown until the driver compiles it.
    """
    kernels = [kernel for kernel in build.kernels if kernel.role != "function"]
    groups = (some for terms, some in policy.by_terms(kernels) if "launch" in needed([terms], "build", policy.fail_on))
    archs = {kernel.key.arch for kernel in [*chain(*groups)] or kernels}
    if archs and not any(applicable_devices(arch, policy.devices) for arch in archs):
        found = " ".join(sorted(filter(None, archs), key=natural))
        message = f"no machine code to check on {', '.join(policy.devices)} (`devices` in the policy); found {found}"
        yield Gap(code="arch-required", message=message, hides=("launch",), names=policy.devices)


def gaps_of_input(build: Build, needed: frozenset[Hidden], *, strict: bool) -> Iterator[Gap]:
    """Gaps of the inputs of ``build``; ``strict``: everything that was not understood counts."""
    yield from gaps_of_issues(build.issues, needed, strict=strict)
    if not build.kernels:  # after the issues, which tell the cause
        yield Gap(code="no-kernel", message="the input contains no kernel", hides=("kernels",))


def gaps_of_issues(issues: Iterable[Issue], needed: frozenset[Hidden], *, strict: bool) -> Iterator[Gap]:
    """Issues that may hide what is ``needed``; ``strict``: everything that was not understood counts."""
    for issue in issues:
        counts = strict and issue.severity != "note"
        if counts or "kernels" in issue.hidden or not needed.isdisjoint(issue.hidden):
            yield Gap(code=issue.code, message=issue.message, hides=issue.hidden, origin=issue.origin)


def _of_rule(undecided: Undecided) -> Gap:
    kernel, needs = undecided.kernel, undecided.rule.needs
    what = "blocks" if "launch" in needs else needs[0]
    return Gap(
        code=f"unknown-{what}",
        message=undecided.reason,
        hides=needs,
        origin=kernel.origins[0] if kernel.origins else None,
        kernel=kernel,
    )
