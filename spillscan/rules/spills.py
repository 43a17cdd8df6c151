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
    before = change.before.usage if change.before else None
    stores, loads = (
        (after.spill_store_bytes or 0) - ((before.spill_store_bytes or 0) if before else 0),
        (after.spill_load_bytes or 0) - ((before.spill_load_bytes or 0) if before else 0),
    )
    if stores <= 0 and loads <= 0:
        return
    if before is None:
        yield finding("spill", "error", f"is new and {_figures(change.after)}", change.after)
        return
    if before.spill_bytes is None:
        return
    grown = [
        f"{what} {was:,} → {now:,} B (+{now - was:,})"
        for what, was, now in (
            ("spill stores", before.spill_store_bytes or 0, after.spill_store_bytes or 0),
            ("spill loads", before.spill_load_bytes or 0, after.spill_load_bytes or 0),
        )
        if now > was
    ]
    yield finding("spill", "error", ", ".join(grown), change.after)


def _figures(kernel: Kernel) -> str:
    stores, loads = kernel.spills or (0, 0)
    return f"spills: {stores:,} B stores, {loads:,} B loads per thread"
