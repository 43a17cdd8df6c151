"""The stack: local memory that every resident thread reserves, used or not, against its limit and an older build's."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.compare.figures import growth
from spillscan.model import Change, Finding, Kernel, Limit, Rule
from spillscan.occupancy.summary import INITIAL_STACK_BYTES
from spillscan.occupancy.text import size
from spillscan.rules import Terms, finding

MAX_BYTES = Limit(
    name="max_stack_bytes",
    default=None,
    help="most bytes of stack per thread",
    judges="build",
    order=30,
)
LIMIT = Rule(
    id="stack",
    severity="error",
    judges=("build",),
    needs=("stack",),
    title="The kernel's stack is larger than allowed",
    means="Bytes of local memory that a thread's stack takes: over the whole call tree where ptxas prints the "
    "cumulative stack size (12.4 and later), else the kernel's own frame. Local arrays, spills and call frames stand "
    "there.",
    matters="The driver reserves the largest stack for every thread that the GPU can hold at once: 1 KB a thread is "
    "hundreds of megabytes on a large GPU. And what stands on the stack is read and written through local memory.",
    remedy="Local arrays: make their indices constants, or move them to shared memory. Call frames: inline. Recursion:"
    " bound it. Spills: see `spillscan explain spill`.",
    tuning="`max_stack_bytes` is the most that a kernel may have; by default there is no limit.",
    limits=(MAX_BYTES,),
)
GROWTH = Rule(
    id="stack-growth",
    severity="note",
    judges=("change",),
    needs=("stack",),
    title="The kernel's stack is larger than before",
    means="The stack frame, the deepest stack over its calls, or the local memory that nvlink counts grew, bytes per "
    "thread. A stack is no spill: it holds spills, local arrays, and what calls need.",
    matters="Up to 1 KB a thread the driver has reserved the memory anyway. The growth shows that something went to "
    "local memory: `spill` says whether it was registers.",
    remedy="A dump (`cuobjdump -sass`) tells what is on the stack; `spillscan show KERNEL DUMP` reads it.",
    tuning="It is a note and fails a gate only under `fail_on: note`.",
)
RESERVE = Rule(
    id="stack-reserve",
    severity="warning",
    judges=("change",),
    needs=("stack",),
    title="The kernel's stack is larger than before, and beyond what the driver reserves anyway",
    means="The stack grew, and is now more than the 1,024 bytes per thread that the driver holds from the start "
    "(measured on an H200). The finding tells what the launch makes it reserve, where the number of SMs is known.",
    matters="The driver sets the stack aside for every thread that the GPU can hold, not for those that run: 4,312 "
    "bytes a thread are 1.1 GiB on an H100, which no allocation of the program can have. The first launch waits for "
    "it.",
    remedy="Smaller or fewer local arrays, no recursion, no deep calls that are not inlined.",
    tuning="It is a warning and fails a gate only under `fail_on: warning`.",
)

RULES = (LIMIT, GROWTH, RESERVE)
_LABELS = {"stack_bytes": "stack", "cumulative_stack_bytes": "call stack", "local_bytes": "local memory"}


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """More stack than allowed."""
    most, stack = terms.limit(MAX_BYTES), _deepest(kernel)
    if most is not None and stack is not None and stack > most:
        yield finding(LIMIT, f"{stack:,} B stack per thread, {most:,} B allowed", kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose stack the log does not tell, or tells before the linker has its say."""
    if terms.limit(MAX_BYTES) is None:
        return None
    if _deepest(kernel) is None:
        return LIMIT, "; ".join(kernel.reasons) or "the log does not say how large its stack is"
    if kernel.final is False and kernel.role == "entry":
        return LIMIT, "relocatable code: its stack is not final; give the link's log too (nvcc -Xnvlink -v)"
    return None


def measure(rule: str, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes of stack."""
    stack = _deepest(kernel)
    return None if rule != LIMIT.id or stack is None or kernel.final is False else {"bytes": stack}


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """More stack: a warning where it reserves memory, a note where it does not."""
    if change.before is None or change.after is None:
        return
    grown = [
        f"{_LABELS[name]} {before:,} → {after:,} B (+{(after or 0) - (before or 0):,})"
        for name, before, after in change.metrics
        if name in _LABELS and growth(change, name) > 0
    ]
    if not grown:
        return
    if len(grown) > 1 and grown[1].removeprefix("call ") == grown[0]:
        del grown[1]
    usage = change.after.usage
    deepest = max(usage.stack_bytes or 0, usage.cumulative_stack_bytes or 0)
    message = f"{', '.join(grown)} per thread"
    if deepest > INITIAL_STACK_BYTES:
        reserved = {e.gpu: size(e.footprint_bytes[1]) for e in change.effects if e.footprint_bytes[1] is not None}
        where = ", ".join(f"{amount} on {gpu}" for gpu, amount in reserved.items())
        yield finding(RESERVE, message + (f", reserves {where}" if where else ""), change.after)
    else:
        yield finding(GROWTH, message, change.after)


def _deepest(kernel: Kernel) -> int | None:
    usage = kernel.usage
    return usage.stack_bytes if usage.cumulative_stack_bytes is None else usage.cumulative_stack_bytes
