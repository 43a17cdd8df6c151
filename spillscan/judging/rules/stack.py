"""Stack: local memory that every resident thread reserves, against a limit and an older build."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.metrics import growth
from spillscan.judging.rules._declared import Check, Said, Terms, because, threshold, unlinked
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.occupancy.summary import INITIAL_STACK_BYTES
from spillscan.output.nouns import size

STACK = Rule("stack", "error", needs=("stack",), limits=(Limit("max_stack_bytes", "build"),))
GROWTH = Rule("stack-growth", "warning", needs=("stack",), least="note")
_DYNAMIC = ("dynamic_stack", "recursive_function")
"""Messages of ptxas and nvlink about a stack size that depends on the run."""
_LABELS = {"stack_bytes": "stack", "cumulative_stack_bytes": "call stack", "local_bytes": "local memory"}


def _deepest(kernel: Kernel, terms: Terms) -> int | None:
    usage = kernel.usage
    return usage.stack_bytes if usage.cumulative_stack_bytes is None else usage.cumulative_stack_bytes


def _uses_local_memory(kernel: Kernel) -> bool:
    """Whether the kernel or its callees access local memory on the stack."""
    accesses = kernel.sass is not None and kernel.sass.local.total.accesses
    return bool(accesses or any(kernel.cumulative_spills or ())) and not kernel.usage.local_bytes


def _unknown(kernel: Kernel, terms: Terms) -> str:
    """Why the whole stack is unknown, or not final."""
    dynamic = next((each for each in kernel.advisories if each.kind in _DYNAMIC), None)
    if dynamic is not None:
        return f"its stack is unknown: {dynamic.text}"
    if _deepest(kernel, terms) is None:
        return because(kernel, "the log does not say how large its stack is")
    if kernel.usage.cumulative_stack_bytes is None:
        if kernel.final and any(origin.format == "nvlink" for origin in kernel.origins):
            return "its stack is unknown: nvlink cannot determine it"
        origin = kernel.sass.origin if kernel.sass else None
        if origin is not None and origin.format == "binary" and kernel.role != "function" and kernel.final is not False:
            return "its stack is unknown (recursion, alloca or indirect calls)"
        if kernel.cumulative_spills is not None and kernel.usage.barriers is None:
            return "its stack is at least its own frame: this release of ptxas does not add the functions that it calls"
    if not _deepest(kernel, terms) and kernel.role != "function" and _uses_local_memory(kernel):
        return "its stack is unknown: local memory is used, yet ptxas counts 0 B (recursion, alloca or indirect calls)"
    return "" if kernel.role == "function" else unlinked(kernel, "its stack is")


def _grown(change: Change, terms: Terms) -> Iterator[Said]:
    """More stack: a warning beyond what the driver reserves anyway, else a note."""
    grown = [
        (_LABELS[name], f"{before:,} → {after:,} B (+{(after or 0) - (before or 0):,})")
        for name, before, after in change.metrics
        if name in _LABELS and growth(change, name) > 0
    ]
    if not grown:
        return
    if len(grown) > 1 and grown[1] == ("call stack", grown[0][1]):
        del grown[1]
    usage = change.kernel.usage
    text = f"uses more {', '.join(map(': '.join, grown))}"
    if max(usage.stack_bytes or 0, usage.cumulative_stack_bytes or 0) <= INITIAL_STACK_BYTES:
        yield Said(text, "note")
        return
    reserved = {e.gpu: size(e.footprint_bytes[1]) for e in change.effects if e.footprint_bytes[1] is not None}
    where = ", ".join(f"{amount} on {gpu}" for gpu, amount in reserved.items())
    yield Said(text + (f", reserves {where}" if where else ""))


CHECKS = (
    threshold(
        STACK,
        _deepest,
        key="bytes",
        message=lambda kernel, terms, stack, most: f"uses {stack:,} B stack per thread, {most:,} B allowed",
        unknown=_unknown,
    ),
    Check(rule=GROWTH, find_change=_grown),
)
