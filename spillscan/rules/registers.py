"""Registers per thread: the commonest limit of occupancy."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Change, Finding, Kernel, Rule
from spillscan.policy import Terms
from spillscan.rules import finding

ALLOCATION_UNIT = 8
"""Registers per thread are allocated in eights on every compute capability from 3.0 to 12.1 (256 a warp)."""

REGISTERS = Rule(
    id="registers",
    severity="error",
    judges=("build", "change"),
    title="The kernel uses more registers than allowed, or takes more of them than before",
    means="Registers per thread, as ptxas counts them or, of relocatable code, as nvlink does. In a build they are "
    "held against a limit. Between two builds, a growth counts where it takes another allocation step: registers are "
    "given out in eights, so 25 and 32 cost the same, and 33 costs as much as 40.",
    matters="The registers of a block are its threads times this figure, and an SM has 65,536. They are the commonest "
    "limit of how many blocks are resident at once, and so of how well latency is hidden.",
    remedy="See what the step costs: `spillscan limiters` tells blocks per SM and the next step. To need fewer: "
    "smaller tiles, less unrolling, fewer values alive across loops, or a cap (`__launch_bounds__`, `__maxnreg__`, "
    "`-maxrregcount`). A cap that is too low makes the kernel spill: compare the spill bytes afterwards.",
    tuning="`max_registers` is the most that a kernel may use; by default there is no limit. Between two builds, "
    "growth up to `max_register_growth` (0 by default) is not reported.",
)
IN_STEP = Rule(
    id="registers-in-step",
    severity="note",
    judges=("change",),
    title="The kernel uses more registers than before, inside the same allocation step",
    means="Registers per thread grew, but no more are allocated: they are given out in eights, and the step that held "
    "the kernel before still holds it.",
    matters="It costs nothing now. The kernel is nearer to the next step, which `registers` reports as an error.",
    remedy="Nothing. If the kernel is the one that matters, see why it grew before the next change takes the step.",
    tuning="It is a note and fails a gate only under `fail_on: note`.",
)

RULES = (REGISTERS, IN_STEP)


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """A kernel with more registers than allowed."""
    registers, most = kernel.usage.registers, terms.limits.max_registers
    if most is not None and registers is not None and registers > most:
        yield finding(REGISTERS, f"uses {registers} registers, {most} allowed", kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose registers the log does not tell, or tells before the linker has its say."""
    if terms.limits.max_registers is None or kernel.role == "function":
        return None
    if kernel.usage.registers is None:
        return REGISTERS, "; ".join(kernel.reasons) or "the log does not say how many registers it uses"
    if kernel.final is False:
        return REGISTERS, "relocatable code: its registers are not final; give the link's log too (nvcc -Xnvlink -v)"
    return None


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """More registers: an error where they take another allocation step, a note where they do not."""
    if change.before is None or change.after is None:
        return
    before, after = change.before.usage.registers, change.after.usage.registers
    most = terms.limits.max_register_growth
    if before is None or after is None or most is None or after - before <= most:
        return
    message = f"registers {before} → {after} (+{after - before})"
    if _allocated(after) > _allocated(before):
        yield finding(REGISTERS, f"{message}: {_allocated(before)} → {_allocated(after)} allocated", change.after)
    else:
        yield finding(IN_STEP, f"{message}, inside the allocation step of {_allocated(after)}", change.after)


def _allocated(registers: int) -> int:
    return -(-registers // ALLOCATION_UNIT) * ALLOCATION_UNIT
