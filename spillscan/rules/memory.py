"""Stack and shared memory held against their limits."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.model import Finding, Kernel, Rule
from spillscan.policy import Terms
from spillscan.rules import finding

STACK = Rule(
    id="stack",
    severity="error",
    judges=("build",),
    title="The kernel's stack is larger than allowed",
    means="Bytes of local memory that a thread's stack takes: over the whole call tree where ptxas prints the "
    "cumulative stack size (12.4 and later), else the kernel's own frame. Local arrays, spills and call frames stand "
    "there.",
    matters="The driver reserves the largest stack for every thread that the GPU can hold at once: 1 KB a thread is "
    "hundreds of megabytes on a large GPU. And what stands on the stack is read and written through local memory.",
    remedy="Local arrays: make their indices constants, or move them to shared memory. Call frames: inline. Recursion:"
    " bound it. Spills: see `spillscan explain spill`.",
    tuning="`max_stack_bytes` is the most that a kernel may have; by default there is no limit.",
)
SHARED = Rule(
    id="shared",
    severity="error",
    judges=("build",),
    title="The kernel's blocks take more shared memory than allowed",
    means="Bytes of shared memory per block, without the driver's own reserve: the static memory that ptxas prints, "
    "and the dynamic memory of the launch where the policy tells it.",
    matters="Shared memory limits how many blocks are resident at once. Beyond 48 KB a kernel must opt in to be "
    "launched at all, and with static memory alone it cannot.",
    remedy="Smaller tiles, fewer pipeline stages, narrower types, or one buffer for what is not needed at the same "
    "time. `spillscan limiters` tells what the next block per SM would take.",
    tuning="`max_shared_bytes` is the most that a block may take; by default there is no limit. Tell the dynamic part "
    "by `launch`.",
)

RULES = (STACK, SHARED)


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """More stack, or more shared memory, than allowed."""
    most, stack = terms.limits.max_stack_bytes, _stack(kernel)
    if most is not None and stack is not None and stack > most:
        yield finding(STACK, f"{stack:,} B stack per thread, {most:,} B allowed", kernel)
    most, dynamic = terms.limits.max_shared_bytes, _dynamic(terms)
    static = kernel.usage.shared_bytes or 0
    if most is not None and static + dynamic > most and kernel.role != "function":
        parts = f" ({static:,} B static, {dynamic:,} B dynamic)" if dynamic else ""
        yield finding(SHARED, f"{static + dynamic:,} B shared memory per block{parts}, {most:,} B allowed", kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose stack or shared memory the log does not tell, or tells before the linker has its say."""
    limits = terms.limits
    why = "; ".join(kernel.reasons)
    if limits.max_stack_bytes is not None:
        if _stack(kernel) is None:
            return STACK, why or "the log does not say how large its stack is"
        if kernel.final is False and kernel.role == "entry":
            return STACK, "relocatable code: its stack is not final; give the link's log too (nvcc -Xnvlink -v)"
    # ptxas leaves shared memory out where a kernel has none; beside registers its absence says 0.
    silent = kernel.usage.shared_bytes is None and kernel.usage.registers is None
    if limits.max_shared_bytes is not None and silent and kernel.role != "function":
        return SHARED, why or "the log does not say how much shared memory it uses"
    return None


def measure(rule: str, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes of stack; bytes of shared memory."""
    if rule == STACK.id:
        stack = _stack(kernel)
        return None if stack is None or kernel.final is False else {"bytes": stack}
    silent = kernel.usage.shared_bytes is None and kernel.usage.registers is None
    if rule != SHARED.id or silent:
        return None
    return {"bytes": (kernel.usage.shared_bytes or 0) + _dynamic(terms)}


def _dynamic(terms: Terms) -> int:
    return terms.launch.dynamic_shared_bytes if terms.launch else 0


def _stack(kernel: Kernel) -> int | None:
    usage = kernel.usage
    return usage.stack_bytes if usage.cumulative_stack_bytes is None else usage.cumulative_stack_bytes
