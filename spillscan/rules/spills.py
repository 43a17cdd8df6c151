"""Register spills: values that the compiler had to keep in local memory."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Change, Finding, Kernel
from spillscan.policy import Limits
from spillscan.rules import finding


def findings(kernel: Kernel, limits: Limits) -> Iterator[Finding]:
    """A kernel or device function that spills more than allowed."""
    if kernel.spills is None:
        if any(advisory.kind == "spill_warning" for advisory in kernel.advisories):
            yield finding("spill", "error", "spills registers; the log does not say how much", kernel)
    elif sum(kernel.spills) > limits.max_spill_bytes:
        allowed = f", {limits.max_spill_bytes:,} B allowed" if limits.max_spill_bytes else ""
        yield finding("spill", "error", _figures(kernel) + allowed, kernel)


def undecided(kernel: Kernel, limits: Limits) -> str | None:
    """A kernel whose spills the log does not tell."""
    if kernel.spills is not None or kernel.final:
        return None
    return "; ".join(kernel.reasons) or "the log does not say whether it spills"


def regressions(change: Change) -> Iterator[Finding]:
    """More spill stores or more spill loads than before: a fall in one does not excuse a rise in the other."""
    if change.after is None:
        return
    after = change.after.usage
    now = after.spill_store_bytes or 0, after.spill_load_bytes or 0
    if change.before is None:
        if any(now):
            yield finding("spill", "error", f"is new and {_figures(change.after)}", change.after)
        return
    if change.before.usage.spills is None:
        return
    grown = [
        f"{what} {before:,} → {after:,} B (+{after - before:,})"
        for what, before, after in zip(("spill stores", "spill loads"), change.before.usage.spills, now, strict=True)
        if after > before
    ]
    if grown:
        yield finding("spill", "error", ", ".join(grown), change.after)


def measure(rule: str, kernel: Kernel) -> dict[str, int] | None:
    """Bytes of spill stores and of spill loads, each."""
    if rule != "spill" or kernel.spills is None:
        return None
    stores, loads = kernel.spills
    return {"stores": stores, "loads": loads}


def _figures(kernel: Kernel) -> str:
    stores, loads = kernel.spills or (0, 0)
    return f"spills: {stores:,} B stores, {loads:,} B loads per thread"
