"""Makes a baseline of what a build has (``write``), and takes out of one what no longer is (``prune``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from spillscan.baseline.file import PREAMBLE
from spillscan.baseline.judging import BaselineResult, apply, as_copies, compare
from spillscan.baseline.model import (
    Baseline,
    Copies,
    Identity,
    KnownKernel,
    by_identity,
    by_rule,
    identity_of,
    measured,
)
from spillscan.baseline.ratchet import lowered, recorded
from spillscan.identity import canonical
from spillscan.model import Build, Finding, Kernel
from spillscan.naming import alone
from spillscan.policy import Policy

EMPTY = Baseline(preamble=PREAMBLE)
"""What a first ``write`` begins with."""

LONGEST_NAME = 80
"""Characters of a kernel's name in a baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A new baseline, and what it leaves out."""

    baseline: Baseline
    """To be written."""
    before: BaselineResult
    """What the old one made of the build."""
    undecided: tuple[Kernel, ...] = ()
    """Kernels of which the input does not say what a rule must know: not recorded, neither as clean nor otherwise."""
    unmeasured: tuple[Finding, ...] = ()
    """Findings without figures, which no later one can be held against: not recorded."""
    kept: tuple[Identity, ...] = ()
    """Entries of kernels that the build does not have."""


def record(
    build: Build,
    findings: Iterable[Finding],
    undecided: Iterable[Kernel],
    old: Baseline,
    policy: Policy,
    today: date,
) -> Recording:
    """``old`` with all kernels and findings of ``build`` as they are now.

    Kept as they stand: the preamble, entries of kernels that the build does not have, and figures that the input
    does not give. Findings that a suppression of ``old`` excuses are not recorded: when it expires, they are new.
    """
    groups = by_identity(build.kernels)
    before = apply(findings, build, old, policy, today)
    found = by_rule(finding for finding in before.findings if finding.baseline_state != "suppressed")
    rules: dict[Identity, list[str]] = {}
    for identity, rule in found:
        rules.setdefault(identity, []).append(rule)
    unsure = {identity_of(kernel): kernel for kernel in undecided}
    entries = dict(old.entries)
    unmeasured: list[Finding] = []
    for identity, kernels in groups.items():
        known = entries.pop(identity, None)
        accepted = _unknown(known, kernels, policy)
        for rule in rules.get(identity, ()):
            figures = measured(rule, kernels, policy)
            if figures:
                accepted[rule] = as_copies(figures)
            if len(figures) < len(kernels):
                unmeasured += [f for f in found[identity, rule] if not measured(rule, [f.kernel], policy)]
        if accepted or (identity not in unsure and not identity.function):
            copies, launch = recorded(kernels, known, policy)
            name = _name(identity, kernels)
            entries[identity] = KnownKernel(name=name, recorded=accepted, figures=copies, launch=launch)
        elif identity in old.entries and not identity.function:
            entries[identity] = old.entries[identity]
    return Recording(
        baseline=replace(old, entries=entries),
        before=before,
        undecided=tuple(kernel for identity, kernel in unsure.items() if identity not in rules),
        unmeasured=tuple(unmeasured),
        kept=tuple(identity for identity in old.entries if identity not in groups),
    )


def prune(
    build: Build,
    findings: Iterable[Finding],
    old: Baseline,
    policy: Policy,
    today: date,
    archs: Iterable[str] = (),
) -> Baseline:
    """``old`` without what is gone: kernels that ``build`` does not have (of ``archs`` alone, if any), figures of
    findings that are fixed, and the excess of figures that got better. Nothing is added and nothing raised."""
    groups = by_identity(build.kernels)
    scope = set(archs)
    result = apply(findings, build, old, policy, today)
    fixed = {(each.identity, each.rule) for each in result.fixed}
    entries = {}
    for identity, entry in old.entries.items():
        if identity in groups:
            left = {rule: copies for rule, copies in entry.recorded.items() if (identity, rule) not in fixed}
            left = {rule: _lowered(rule, copies, groups[identity], policy) for rule, copies in left.items()}
            if left or not identity.function:
                copies = lowered(groups[identity], entry.figures) if entry.figures else ()
                entries[identity] = replace(entry, recorded=left, figures=copies)
        elif scope and identity.arch not in scope:
            entries[identity] = entry
    return replace(old, entries=entries)


def _unknown(entry: KnownKernel | None, kernels: list[Kernel], policy: Policy) -> dict[str, Copies]:
    """What was recorded of figures that are not known of these kernels."""
    recorded = entry.recorded if entry else {}
    return {rule: copies for rule, copies in recorded.items() if not measured(rule, kernels, policy)}


def _lowered(rule: str, copies: Copies, kernels: list[Kernel], policy: Policy) -> Copies:
    """The present figures, unless one of them is worse than recorded, or not known."""
    figures = measured(rule, kernels, policy)
    if len(figures) < len(kernels) or any(limit is None for limit in compare(figures, copies)):
        return copies
    return as_copies(figures)


def _name(identity: Identity, kernels: list[Kernel]) -> str:
    """The name for tables, cut; of the canonical symbol, so that it is the same in every checkout."""
    name = min(alone(canonical(kernel.key.symbol)) for kernel in kernels)
    cut = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return cut if cut.strip() else identity.symbol[:LONGEST_NAME]
