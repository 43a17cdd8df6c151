"""What the compiler itself says costs performance."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spillscan.judging.rules._declared import Family, Measure, Said, Terms
from spillscan.model import LOST_SETTING, Change, Kernel, Rule

_KINDS = (
    "wgmma_serialized",
    "wgmma_wait_injected",
    LOST_SETTING,
    "performance_loss",
    "min_blocks_out_of_range",
    "register_mismatch",
    "callee_scratch_register",
)

COSTLY = {
    kind: Rule(
        kind.replace("_", "-"),
        "error" if kind == LOST_SETTING else "warning",
        ("build", "change"),
        ("messages",) if kind == LOST_SETTING else (),
    )
    for kind in _KINDS
}
"""One rule a kind of message that is worth a warning, by kind; the grammar names the kinds. Settings of registers that
are lost cost so much that they are an error."""


def findings(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    """One warning a kind, with the first text and how often it came."""
    yield from _of_kinds(kernel, {advisory.kind for advisory in kernel.advisories})


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """What the compiler did not say of this kernel before."""
    if change.before is None:
        yield from findings(change.kernel, terms)
    elif change.after is not None:
        yield from _of_kinds(change.after, change.appeared)


def _of_kinds(kernel: Kernel, kinds: Collection[str]) -> Iterator[Said]:
    for kind, rule in COSTLY.items() if kinds else ():
        texts = [advisory.text for advisory in kernel.advisories if advisory.kind == kind and kind in kinds]
        if texts:
            more = f" ({len(texts)} times)" if len(texts) > 1 else ""
            yield rule, f"gets a message from ptxas: {texts[0]}{more}"


def _times(kind: str) -> Measure:
    """How often ptxas said it."""
    return lambda kernel, terms: {"times": sum(advisory.kind == kind for advisory in kernel.advisories)}


FAMILIES = (
    Family(
        rules=tuple(COSTLY.values()),
        findings=findings,
        regressions=regressions,
        measures={rule: _times(kind) for kind, rule in COSTLY.items()},
    ),
)
