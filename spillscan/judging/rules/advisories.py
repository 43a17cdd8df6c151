"""What the compiler itself says costs performance."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spillscan.judging.rules import Terms, finding
from spillscan.model import Change, Finding, Kernel, Rule

_LOSSES = ("setmaxnreg-ignored",)
"""What costs so much that it is an error."""

RULES = tuple(
    Rule(
        id=name,
        severity="error" if name in _LOSSES else "warning",
        judges=("build", "change"),
        needs=("messages",) if name in _LOSSES else (),
    )
    for name in (
        "wgmma-serialized",
        "wgmma-wait-injected",
        "setmaxnreg-ignored",
        "performance-loss",
        "min-blocks-out-of-range",
        "register-mismatch",
        "callee-scratch-register",
    )
)
"""One rule a kind of advisory that is worth a warning; the grammar names the kinds, with underscores."""

COSTLY = {rule.id.replace("-", "_"): rule for rule in RULES}
"""Rule by kind of advisory."""


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """One warning a kind, with the first text and how often it came."""
    yield from _of_kinds(kernel, {advisory.kind for advisory in kernel.advisories})


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """What the compiler did not say of this kernel before."""
    if change.before is None and change.after is not None:
        yield from findings(change.after, terms)
    elif change.after is not None and change.appeared:
        yield from _of_kinds(change.after, set(change.appeared))


def _of_kinds(kernel: Kernel, kinds: Collection[str]) -> Iterator[Finding]:
    for kind, rule in COSTLY.items() if kinds else ():
        texts = [advisory.text for advisory in kernel.advisories if advisory.kind == kind and kind in kinds]
        if texts:
            more = f" ({len(texts)} times)" if len(texts) > 1 else ""
            yield finding(rule, f"ptxas: {texts[0]}{more}", kernel)


def measure(rule: str, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """How often ptxas said it."""
    kind = rule.replace("-", "_")
    if kind not in COSTLY:
        return None
    return {"times": sum(advisory.kind == kind for advisory in kernel.advisories)}
