"""The stack: local memory that every resident thread reserves, used or not, against its limit and an older build's."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.figures import growth
from spillscan.judging.rules._declared import Family, Said, Terms, Threshold
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.occupancy.summary import INITIAL_STACK_BYTES
from spillscan.output.nouns import size

MAX_BYTES = Limit("max_stack_bytes", "most bytes of stack per thread", "build", 30)
LIMIT = Rule("stack", "error", ("build",), ("stack",), (MAX_BYTES,))
GROWTH = Rule("stack-growth", "note", ("change",), ("stack",))
RESERVE = Rule("stack-reserve", "warning", ("change",), ("stack",))

_LABELS = {"stack_bytes": "stack", "cumulative_stack_bytes": "call stack", "local_bytes": "local memory"}


def _deepest(kernel: Kernel, terms: Terms) -> int | None:
    usage = kernel.usage
    return usage.stack_bytes if usage.cumulative_stack_bytes is None else usage.cumulative_stack_bytes


MOST = Threshold(
    rule=LIMIT,
    key="bytes",
    figure=_deepest,
    message=lambda kernel, terms, stack, most: f"{stack:,} B stack per thread, {most:,} B allowed",
    silent="the log does not say how large its stack is",
    unlinked="its stack is",
)


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """More stack: a warning where it reserves memory, a note where it does not."""
    grown = [
        f"{_LABELS[name]} {before:,} → {after:,} B (+{(after or 0) - (before or 0):,})"
        for name, before, after in change.metrics
        if name in _LABELS and growth(change, name) > 0
    ]
    if not grown:
        return
    if len(grown) > 1 and grown[1].removeprefix("call ") == grown[0]:
        del grown[1]
    usage = change.kernel.usage
    deepest = max(usage.stack_bytes or 0, usage.cumulative_stack_bytes or 0)
    message = f"{', '.join(grown)} per thread"
    if deepest > INITIAL_STACK_BYTES:
        reserved = {e.gpu: size(e.footprint_bytes[1]) for e in change.effects if e.footprint_bytes[1] is not None}
        where = ", ".join(f"{amount} on {gpu}" for gpu, amount in reserved.items())
        yield RESERVE, message + (f", reserves {where}" if where else "")
    else:
        yield GROWTH, message


FAMILIES = (Family(thresholds=(MOST,), rules=(GROWTH, RESERVE), regressions=regressions),)
