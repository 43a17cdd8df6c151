"""Spills to shared memory (CUDA 13, ``.pragma "enable_smem_spilling"``): no count of spill bytes holds them."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Change, Finding, Kernel
from spillscan.policy import Limits
from spillscan.rules import finding

RULE = "shared-spill"


def findings(kernel: Kernel, limits: Limits) -> Iterator[Finding]:
    """A note on a kernel whose annotated code spills to shared memory; without annotations nothing tells."""
    if kernel.sass is not None and kernel.sass.shared_spills:
        count = kernel.sass.shared_spills
        yield finding(RULE, "note", f"{count:,} spill instructions go to shared memory: in no count of bytes", kernel)


def regressions(change: Change) -> Iterator[Finding]:
    """A note where spills fall and shared memory grows: they may only have moved."""
    if change.before is None or change.after is None:
        return
    before, after = change.before.usage, change.after.usage
    if before.spill_bytes is None or after.spill_bytes is None or after.spill_bytes >= before.spill_bytes:
        return
    shared = (after.shared_bytes or 0) - (before.shared_bytes or 0)
    if shared > 0:
        message = (
            f"spills {before.spill_bytes:,} → {after.spill_bytes:,} B while shared memory grew by {shared:,} B: "
            "have they moved there?"
        )
        yield finding(RULE, "note", message, change.after)
