"""What the compiler itself says costs performance."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Finding, Kernel
from spillscan.policy import Limits
from spillscan.rules import finding

COSTLY = (
    "wgmma_serialized",
    "wgmma_wait_injected",
    "performance_loss",
    "setmaxnreg_ignored",
    "min_blocks_out_of_range",
    "register_mismatch",
    "callee_scratch_register",
)
"""Kinds of advisories (named by the grammar's rules) that are worth a warning."""


def findings(kernel: Kernel, limits: Limits) -> Iterator[Finding]:
    """One warning a kind, with the first text and how often it came."""
    for kind in COSTLY:
        texts = [advisory.text for advisory in kernel.advisories if advisory.kind == kind]
        if texts:
            more = f" ({len(texts)} times)" if len(texts) > 1 else ""
            yield finding(kind.replace("_", "-"), "warning", f"ptxas: {texts[0]}{more}", kernel)


def measure(rule: str, kernel: Kernel) -> dict[str, int] | None:
    """How often ptxas said it."""
    kind = rule.replace("-", "_")
    if kind not in COSTLY:
        return None
    return {"times": sum(advisory.kind == kind for advisory in kernel.advisories)}
