"""The kernels and findings of a build by identity: what a baseline calls one kernel may have several copies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from spillscan.baseline.keys import identity_of
from spillscan.baseline.model import Figures, Identity
from spillscan.model import Finding, Kernel
from spillscan.policy import Policy
from spillscan.rules import measure

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


def told(rule: str, kernels: Sequence[Kernel], policy: Policy) -> list[Figures]:
    """What ``rule`` measures of each copy that tells it."""
    measured = (measure(rule, kernel, policy.terms_of(kernel)) for kernel in kernels)
    return [figures for figures in measured if figures is not None]
