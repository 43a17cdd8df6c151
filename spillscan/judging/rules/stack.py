"""The stack: local memory that every resident thread reserves, used or not, against its limit and an older build's."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.figures import growth
from spillscan.judging.rules._declared import Family, Said, Terms, Threshold, because, unlinked
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.occupancy.summary import INITIAL_STACK_BYTES
from spillscan.output.nouns import size

MAX_BYTES = Limit("max_stack_bytes", "most bytes of stack per thread", "build", 30)
LIMIT = Rule("stack", "error", ("build",), ("stack",), (MAX_BYTES,))
GROWTH = Rule("stack-growth", "note", ("change",), ("stack",))
RESERVE = Rule("stack-reserve", "warning", ("change",), ("stack",))

_DYNAMIC = ("dynamic_stack", "recursive_function")
"""What ptxas and nvlink say of a kernel whose stack depends on what happens when it runs."""

_LABELS = {"stack_bytes": "stack", "cumulative_stack_bytes": "call stack", "local_bytes": "local memory"}


def _deepest(kernel: Kernel, terms: Terms) -> int | None:
    usage = kernel.usage
    return usage.stack_bytes if usage.cumulative_stack_bytes is None else usage.cumulative_stack_bytes


def _open_end(kernel: Kernel, terms: Terms) -> str:
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
    if kernel.final is False and kernel.role != "function":
        return unlinked("its stack is")
    return ""


MOST = Threshold(
    rule=LIMIT,
    key="bytes",
    figure=_deepest,
    message=lambda kernel, terms, stack, most: f"uses {stack:,} B stack per thread, {most:,} B allowed",
    silent="the log does not say how large its stack is",
    unlinked="its stack is",
    open_end=_open_end,
)


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """More stack: a warning where it reserves memory, a note where it does not."""
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
    deepest = max(usage.stack_bytes or 0, usage.cumulative_stack_bytes or 0)
    message = f"uses more {', '.join(map(': '.join, grown))}"
    if deepest > INITIAL_STACK_BYTES:
        reserved = {e.gpu: size(e.footprint_bytes[1]) for e in change.effects if e.footprint_bytes[1] is not None}
        where = ", ".join(f"{amount} on {gpu}" for gpu, amount in reserved.items())
        yield RESERVE, message + (f", reserves {where}" if where else "")
    else:
        yield GROWTH, message


FAMILIES = (Family(thresholds=(MOST,), rules=(GROWTH, RESERVE), regressions=regressions),)
