"""One module a family of rules, found by being there.

A module declares its ``RULES``: id, severity and documentation of each; a finding can only be made of one of them. It
has ``findings(kernel, limits)``: what is wrong with one kernel, and ``undecided(kernel, limits)``: why it cannot tell,
where the input leaves open what it must know. A module that judges changes has ``regressions(change)``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from functools import cache
from hashlib import blake2s
from importlib import import_module
from types import ModuleType

from spillscan.model import Build, Change, Finding, Kernel, Rule
from spillscan.policy import SEVERITIES, Limits


@cache
def families() -> tuple[ModuleType, ...]:
    """Every module of this folder, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}") for name in names)


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule that a module of this folder declares, by id in alphabetical order."""
    return {rule.id: rule for rule in sorted((r for f in families() for r in f.RULES), key=lambda rule: rule.id)}


def check(build: Build, limits: Limits) -> tuple[list[Finding], list[tuple[Kernel, str]]]:
    """(findings, most severe first; kernels on which a rule cannot decide, with the reason)."""
    found: list[Finding] = []
    undecided: list[tuple[Kernel, str]] = []
    for family in families():
        for kernel in build.kernels:
            mine = list(family.findings(kernel, limits)) if hasattr(family, "findings") else []
            found += mine
            reason = family.undecided(kernel, limits) if hasattr(family, "undecided") and not mine else None
            if reason:
                undecided.append((kernel, reason))
    return _sorted(found), undecided


def regressions(changes: list[Change]) -> list[Finding]:
    """What got worse, most severe first."""
    return _sorted([finding for family in families() for change in changes for finding in _regressions(family, change)])


def finding(rule: Rule, message: str, kernel: Kernel) -> Finding:
    """A finding at the kernel's own place, with a fingerprint that no line number changes."""
    identity = "\0".join((rule.id, kernel.key.symbol, kernel.key.arch or "", kernel.key.unit))
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        message=message,
        kernel=kernel,
        fingerprint=blake2s(identity.encode(), digest_size=16).hexdigest(),
        origin=kernel.origins[0] if kernel.origins else None,
    )


def _regressions(family: ModuleType, change: Change) -> Iterator[Finding]:
    if hasattr(family, "regressions"):
        yield from family.regressions(change)


def _sorted(found: list[Finding]) -> list[Finding]:
    def damage(finding: Finding) -> tuple[object, ...]:
        usage, key = finding.kernel.usage, finding.kernel.key
        rank = -SEVERITIES.index(finding.severity)
        return (
            rank,
            -(usage.spill_bytes or 0),
            -(usage.registers or 0),
            key.symbol,
            key.arch or "",
            key.unit,
            finding.rule,
        )

    return sorted(found, key=damage)
