"""What the machine code shows of local memory: spills inside loops, local arrays, and counts that do not agree."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Finding, Kernel
from spillscan.policy import Limits
from spillscan.rules import finding


def findings(kernel: Kernel, limits: Limits) -> Iterator[Finding]:
    """Warnings on spills in loops and on disagreement with the log; a note on local arrays."""
    if kernel.sass is None:
        return
    local = kernel.sass.local
    if local.spills_in_loops:
        depths = ", ".join(f"{count} at depth {depth}" for depth, count in local.spills_in_loops.items())
        yield finding("spill-in-loop", "warning", f"spill instructions inside loops: {depths}", kernel)
    arrays = local.of("array")
    if arrays.accesses:
        message = f"local arrays: {arrays.stores} stores ({arrays.store_bytes:,} B), {arrays.loads} loads"
        yield finding("local-array", "note", f"{message} ({arrays.load_bytes:,} B) per thread", kernel)
    told = kernel.usage.spills
    if told is not None and kernel.role == "entry" and kernel.confidence == "certain":
        shown = (local.own_spill.store_bytes, local.own_spill.load_bytes)
        if shown != told:
            message = (
                f"the log counts {told[0]} B spill stores and {told[1]} B loads, the code {shown[0]} B and {shown[1]} B"
            )
            yield finding("spill-mismatch", "warning", message, kernel)


def measure(rule: str, kernel: Kernel) -> dict[str, int] | None:
    """Spill instructions in loops of each depth or deeper; bytes that local arrays move."""
    if kernel.sass is None:
        return None
    local = kernel.sass.local
    if rule == "spill-in-loop":
        looping = local.spills_in_loops
        depths = range(1, max(looping, default=1) + 1)
        return {f"depth-{least}": sum(n for depth, n in looping.items() if depth >= least) for least in depths}
    if rule == "local-array":
        arrays = local.of("array")
        return {"stores": arrays.store_bytes, "loads": arrays.load_bytes}
    return None
