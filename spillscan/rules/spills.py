"""Register spills: values that the compiler had to keep in local memory."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Change, Finding, Kernel, Rule
from spillscan.policy import Terms
from spillscan.rules import finding

SPILL = Rule(
    id="spill",
    severity="error",
    judges=("build", "change"),
    title="The kernel spills registers to local memory",
    means="The kernel needs more values at once than it may hold in registers, so the compiler stores some to local "
    "memory and loads them back. The figures are bytes per thread, each spill instruction counted once, as ptxas "
    "prints them (`-Xptxas -v`) or, where only a dump was read, as the machine code shows. Between two builds, spill "
    "stores and spill loads are compared each: a fall in one does not excuse a rise in the other. A stack frame alone "
    "is no spill.",
    matters="Every spill is a memory instruction that the source does not ask for. Local memory is cached in L1, where"
    " it competes with the kernel's own data, and spills in an inner loop run once an iteration and thread.",
    remedy="Find where it hurts first: `spillscan show KERNEL DUMP` tells loops and source lines. Then give the kernel"
    " more registers (raise `-maxrregcount` or `__maxnreg__`, ask for fewer blocks in `__launch_bounds__`, use a "
    "smaller block), or let it keep fewer values alive: smaller tiles, less unrolling, recomputing what is cheap, "
    'splitting the kernel. From CUDA 13 on, ptxas can spill to shared memory (`.pragma "enable_smem_spilling"`).',
    tuning="`max_spill_bytes` is how many bytes of stores and loads together a kernel may spill, and "
    "`max_spill_growth_bytes` by how many either may grow between two builds; both are 0 by default.",
)

RULES = (SPILL,)


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """A kernel or device function that spills more than allowed."""
    most = terms.limits.max_spill_bytes
    if most is None:
        return
    if kernel.spills is None:
        if any(advisory.kind == "spill_warning" for advisory in kernel.advisories):
            yield finding(SPILL, "spills registers; the log does not say how much", kernel)
    elif sum(kernel.spills) > most:
        allowed = f", {most:,} B allowed" if most else ""
        yield finding(SPILL, _figures(kernel) + allowed, kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose spills the log does not tell."""
    if kernel.spills is not None or kernel.final or terms.limits.max_spill_bytes is None:
        return None
    return SPILL, "; ".join(kernel.reasons) or "the log does not say whether it spills"


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """More spill stores or more spill loads than before: a fall in one does not excuse a rise in the other."""
    most = terms.limits.max_spill_growth_bytes
    if change.after is None or most is None:
        return
    after = change.after.usage
    now = after.spill_store_bytes or 0, after.spill_load_bytes or 0
    if change.before is None:
        if max(now) > most:
            yield finding(SPILL, f"is new and {_figures(change.after)}", change.after)
        return
    if change.before.usage.spills is None:
        return
    grown = [
        f"{what} {before:,} → {after:,} B (+{after - before:,})"
        for what, before, after in zip(("spill stores", "spill loads"), change.before.usage.spills, now, strict=True)
        if after - before > most
    ]
    if grown:
        yield finding(SPILL, ", ".join(grown), change.after)


def _figures(kernel: Kernel) -> str:
    stores, loads = kernel.spills or (0, 0)
    return f"spills: {stores:,} B stores, {loads:,} B loads per thread"
