"""The stack: local memory that every resident thread reserves, used or not, against its limit and an older build's."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.figures import growth
from spillscan.judging.rules import Terms, finding
from spillscan.model import Change, Finding, Kernel, Limit, Rule
from spillscan.occupancy.summary import INITIAL_STACK_BYTES
from spillscan.occupancy.text import size

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
    limits=(MAX_BYTES,),
)
GROWTH = Rule(
    id="stack-growth",
    severity="note",
    judges=("change",),
    needs=("stack",),
)
RESERVE = Rule(
    id="stack-reserve",
    severity="warning",
    judges=("change",),
    needs=("stack",),
)

RULES = (LIMIT, GROWTH, RESERVE)
_LABELS = {"stack_bytes": "stack", "cumulative_stack_bytes": "call stack", "local_bytes": "local memory"}


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """More stack than allowed."""
    most, stack = terms.limit(MAX_BYTES), _deepest(kernel)
    if most is not None and stack is not None and stack > most:
        yield finding(LIMIT, f"{stack:,} B stack per thread, {most:,} B allowed", kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose stack the log does not give, or gives before the link."""
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
