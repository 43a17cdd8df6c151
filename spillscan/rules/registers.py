"""Registers per thread: the commonest limit of occupancy."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Change, Finding, Kernel
from spillscan.policy import Limits
from spillscan.rules import finding

ALLOCATION_UNIT = 8
"""Registers per thread are allocated in eights on every compute capability from 3.0 to 12.1 (256 a warp)."""


def findings(kernel: Kernel, limits: Limits) -> Iterator[Finding]:
    """A kernel with more registers than allowed."""
    registers = kernel.usage.registers
    if limits.max_registers is not None and registers is not None and registers > limits.max_registers:
        yield finding("registers", "error", f"uses {registers} registers, {limits.max_registers} allowed", kernel)


def undecided(kernel: Kernel, limits: Limits) -> str | None:
    """A kernel whose registers the log does not tell, or tells before the linker has its say."""
    if limits.max_registers is None or kernel.role == "function":
        return None
    if kernel.usage.registers is None:
        return "; ".join(kernel.reasons) or "the log does not say how many registers it uses"
    if kernel.final is False:
        return "relocatable code: its registers are not final; give the link's log too (nvcc -Xnvlink -v)"
    return None


def regressions(change: Change) -> Iterator[Finding]:
    """More registers: an error where they take another allocation step, a note where they do not."""
    if change.before is None or change.after is None:
        return
    before, after = change.before.usage.registers, change.after.usage.registers
    if before is None or after is None or after <= before:
        return
    message = f"registers {before} → {after} (+{after - before})"
    if _allocated(after) > _allocated(before):
        yield finding(
            "registers",
            "error",
            f"{message}: {_allocated(before)} → {_allocated(after)} allocated",
            change.after,
        )
    else:
        yield finding(
            "registers", "note", f"{message}, inside the allocation step of {_allocated(after)}", change.after
        )


def measure(rule: str, kernel: Kernel) -> dict[str, int] | None:
    """Registers, where they are final."""
    if rule != "registers" or kernel.usage.registers is None or kernel.final is False:
        return None
    return {"registers": kernel.usage.registers}


def _allocated(registers: int) -> int:
    return -(-registers // ALLOCATION_UNIT) * ALLOCATION_UNIT
