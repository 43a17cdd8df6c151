"""Stack: local memory that every resident thread reserves, against a limit and an older build."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.rules._declared import Check, Found, Terms, because, grown, threshold, unlinked
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.occupancy.summary import INITIAL_STACK_BYTES
from spillscan.output.nouns import size

STACK = Rule("stack", "error", needs=("stack",), limits=(Limit("max_stack_bytes", "build"),))
GROWTH = Rule("stack-growth", "warning", needs=("stack",), least="note")
_SIZES = ("stack_bytes", "cumulative_stack_bytes", "local_bytes")


def _deepest(kernel: Kernel, terms: Terms) -> int | None:
    usage = kernel.usage
    return usage.stack_bytes if usage.cumulative_stack_bytes is None else usage.cumulative_stack_bytes


def _unknown(kernel: Kernel, terms: Terms) -> str:
    """Why the whole stack is unknown, or not final."""
    if kernel.dynamic_stack:
        return f"stack unknown: {kernel.dynamic_stack}"
    if _deepest(kernel, terms) is None:
        of_binary = kernel.sass is not None and kernel.sass.origin is not None and kernel.sass.origin.format == "binary"
        inputs = (
            "a binary does not contain the stack size of a device function"
            if of_binary
            else "no input reports the stack"
        )
        return because(kernel, inputs)
    adds = kernel.usage.cumulative_stack_bytes is not None or kernel.usage.barriers is not None
    if kernel.cumulative_spills is not None and not adds:
        return "stack known only without called functions: this release of ptxas does not add them"
    return "" if kernel.role == "function" else unlinked(kernel, "stack")


def _grown(change: Change, terms: Terms) -> Iterator[Found]:
    """More stack: a warning beyond what the driver reserves anyway, else a note."""
    more = grown(change, _SIZES)
    if not more:
        return
    if more[1:2] == [f"call {more[0]}"]:
        del more[1]
    usage = change.kernel.usage
    text = f"needs more memory: {', '.join(more)}"
    if max(usage.stack_bytes or 0, usage.cumulative_stack_bytes or 0) <= INITIAL_STACK_BYTES:
        yield Found(text, "note")
        return
    sides = ((effect.gpu, effect.footprint_bytes[1]) for effect in change.effects)
    reserved = ", ".join(f"{size(amount)} on {gpu}" for gpu, amount in sides if amount is not None)
    yield Found(f"{text}, reserves {reserved}" if reserved else text)


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
