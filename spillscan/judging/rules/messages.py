"""Messages of ptxas about lost performance."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spillscan.judging.rules import Check, Terms, Violation
from spillscan.model import LOST_SETTING, Change, Kernel, Rule

WARNINGS = (
    "wgmma_serialized",
    "wgmma_wait_injected",
    "performance_loss",
    "min_blocks_out_of_range",
    "register_mismatch",
    "callee_scratch_register",
)
"""Kinds of messages, as named in the grammar, each of which is a warning."""


def _check(rule: Rule, kinds: Collection[str]) -> Check:
    """Check for messages of these kinds: one finding per kernel, with the first text of each kind."""

    def find(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
        return _violations(kernel, kinds)

    def find_change(change: Change, terms: Terms) -> Iterator[Violation]:
        """Messages that the older build does not have."""
        if change.after is None:
            return iter(())
        return _violations(change.after, kinds if change.before is None else {*kinds} & {*change.appeared})

    def measure(kernel: Kernel, terms: Terms) -> dict[str, int]:
        return {kind: number for kind in kinds if (number := len(_texts(kernel, kind)))}

    return Check(rule=rule, find=find, find_change=find_change, measure=measure)


def _violations(kernel: Kernel, kinds: Collection[str]) -> Iterator[Violation]:
    by_kind = {each.kind: _texts(kernel, each.kind) for each in kernel.advisories if each.kind in kinds}
    if by_kind:
        times = (f"{texts[0]} ({len(texts)} times)" if len(texts) > 1 else texts[0] for texts in by_kind.values())
        yield Violation(f"has a ptxas warning: {'; '.join(times)}")


def _texts(kernel: Kernel, kind: str) -> list[str]:
    return [each.text for each in kernel.advisories if each.kind == kind]


PTXAS = Rule("ptxas-warning", "warning")
CHECKS = (
    _check(PTXAS, WARNINGS),
    _check(Rule("setmaxnreg-ignored", "error", needs=("messages",)), (LOST_SETTING,)),
)
