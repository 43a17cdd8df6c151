"""Findings: made of a rule and a kernel, in order, each with a fingerprint of its own."""

from __future__ import annotations

from msgspec import structs

from spillscan.model import SEVERITIES, Finding, Kernel, Rule, Severity
from spillscan.naming.identity import canonical, digest, source_file


def finding(rule: Rule, message: str, kernel: Kernel, severity: Severity | None = None) -> Finding:
    """A finding at the kernel's own place, as severe as its rule unless another ``severity`` holds. Its fingerprint is
    of the rule and the identity that a baseline has for the kernel: no line number, checkout or object changes it."""
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
    """``found``, in its order; of findings that share a fingerprint (namesakes: hidden kernels of two files, lambdas of
    one function, a template in two objects) all but the first are numbered, since services keep one of several equals.

    Which is the first depends on neither the damage nor on hashes of paths: files, objects, then the names decide.
    """
    namesakes: dict[str, list[Finding]] = {}
    for each in found:
        namesakes.setdefault(each.fingerprint, []).append(each)
    if len(namesakes) == len(found):
        return found
    numbered = {
        id(each): structs.replace(each, fingerprint=f"{each.fingerprint}:{number}")
        for group in namesakes.values()
        for number, each in enumerate(sorted(group, key=_place), 1)
        if number > 1
    }
    return [numbered.get(id(each), each) for each in found]


def _place(finding: Finding) -> tuple[object, ...]:
    symbol, origin = finding.kernel.key.symbol, finding.origin
    first = (origin.input, origin.line or 0) if origin else ("", 0)
    return source_file(symbol), finding.kernel.source, finding.kernel.key.unit, len(symbol), symbol, *first


def worst_first(found: list[Finding]) -> list[Finding]:
    """Most severe, most spilled bytes, most registers first; then by names."""

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
