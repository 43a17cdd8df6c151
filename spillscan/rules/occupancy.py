"""Resident blocks: what registers, shared memory and barriers together cost at the known launch."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Change, Effect, Finding, Rule
from spillscan.rules import Terms, finding

LOST = Rule(
    id="blocks-lost",
    severity="error",
    judges=("change",),
    needs=("registers", "shared", "launch"),
)
BARRIERS = Rule(
    id="barrier-growth",
    severity="note",
    judges=("change",),
    needs=("registers", "shared", "launch"),
)

RULES = (LOST, BARRIERS)


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """Lost blocks, all devices in one finding; more barriers."""
    if change.before is None or change.after is None:
        return
    lost = [text for effect in change.effects if (text := _loss(effect))]
    if lost:
        yield finding(LOST, "; ".join(lost), change.after)
    before, after = change.before.usage.barriers, change.after.usage.barriers
    if ("barriers", before, after) in change.metrics and (after or 0) > (before or 0):
        yield finding(BARRIERS, f"barriers {before} → {after}", change.after)


def _loss(effect: Effect) -> str:
    if effect.blocks is None or effect.blocks[1] >= effect.blocks[0]:
        return ""
    before, after = effect.blocks
    dynamic = f" and {effect.dynamic_shared_bytes:,} B dynamic shared memory" if effect.dynamic_shared_bytes else ""
    bounds = " (its launch bounds)" if effect.launch_source == "bounds" else ""
    at = f"{effect.threads_per_block} threads{bounds}{dynamic}"
    what = f"blocks per SM {before} → {after} on {effect.device} at {at}"
    by = " and ".join(name.replace("_", " ") for name in effect.limiters[1])
    return f"{what}: cannot launch" if after == 0 else f"{what}, limited by {by}"
