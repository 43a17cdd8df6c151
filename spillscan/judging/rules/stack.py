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
_LABELS = {"stack_bytes": "stack", "cumulative_stack_bytes": "call stack", "local_bytes": "local memory"}


def _deepest(kernel: Kernel, terms: Terms) -> int | None:
    usage = kernel.usage
    return usage.stack_bytes if usage.cumulative_stack_bytes is None else usage.cumulative_stack_bytes


def _unknown(kernel: Kernel, terms: Terms) -> str:
    """Why the whole stack is unknown, or not final."""
    if kernel.dynamic_stack:
        return f"its stack is unknown: {kernel.dynamic_stack}"
    if _deepest(kernel, terms) is None:
        of_binary = kernel.sass is not None and kernel.sass.origin is not None and kernel.sass.origin.format == "binary"
        inputs = (
            "a binary does not say how large the stack of a device function is"
            if of_binary
            else "no input reports its stack"
        )
        return because(kernel, inputs)
    adds = kernel.usage.cumulative_stack_bytes is not None or kernel.usage.barriers is not None
    if kernel.cumulative_spills is not None and not adds:
        return "its stack is at least its own frame: this release of ptxas does not add the functions that it calls"
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
