"""Findings: a rule and a kernel each, with a unique fingerprint, in order."""

from __future__ import annotations

from msgspec import structs

from spillscan.model import SEVERITIES, Finding, Kernel, Rule, Severity
from spillscan.model.build import damage
from spillscan.naming.symbol import canonical, digest, source_file


def finding(rule: Rule, message: str, kernel: Kernel, severity: Severity | None = None) -> Finding:
    """Finding at the kernel's own place.
    The fingerprint hashes the rule and the kernel's identity in a baseline: no line number, checkout or object changes
    it.
    """
    role = "function" if kernel.role == "function" else ""
    identity = "\0".join((rule.id, canonical(kernel.key.symbol), kernel.key.arch or "", role))
    return Finding(
        rule=rule.id,
        severity=severity or rule.severity,
        message=message,
        kernel=kernel,
        fingerprint=digest(identity, 16),
        origin=kernel.origins[0] if kernel.origins else None,
    )


def distinct(found: list[Finding]) -> list[Finding]:
    """``found`` with unique fingerprints, in the same order.
    Findings that share a fingerprint (same-named kernels: hidden kernels of two files, lambdas of one function, a
    template in two objects) are numbered from the second on, because services keep one of several equal ones. The
    numbers follow files, objects, then names, not damage or hashes of paths.
    """
    alike: dict[str, list[Finding]] = {}
    for each in found:
        alike.setdefault(each.fingerprint, []).append(each)
    if len(alike) == len(found):
        return found
    numbered = {
        id(each): structs.replace(each, fingerprint=f"{each.fingerprint}:{number}")
        for group in alike.values()
        for number, each in enumerate(sorted(group, key=_place), 1)
        if number > 1
    }
    return [numbered.get(id(each), each) for each in found]


def _place(finding: Finding) -> tuple[object, ...]:
    symbol, origin = finding.kernel.key.symbol, finding.origin
    first = (origin.input, origin.line or 0) if origin else ("", 0)
    return source_file(symbol), finding.kernel.source, finding.kernel.key.unit, len(symbol), symbol, *first


def worst_first(found: list[Finding]) -> list[Finding]:
    """Findings by severity, then as kernels in all tables: by spills and registers, worst first; then by rule."""
    return sorted(found, key=lambda each: (-SEVERITIES.index(each.severity), *damage(each.kernel), each.rule))
