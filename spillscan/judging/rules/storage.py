"""Storage that a kernel reserves: its stack, and shared memory with the spills to it."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.metrics import growth, moved_to_shared
from spillscan.judging.rules import Check, Terms, Violation, because, changed, grown, threshold, unlinked
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.model.metrics import static_shared
from spillscan.occupancy.summary import INITIAL_STACK_BYTES
from spillscan.output.nouns import count, size

STACK = Rule("stack", "error", needs=("stack",), limits=(Limit("max_stack_bytes", "build"),))
STACK_GROWTH = Rule("stack-growth", "warning", needs=("stack",), least="note")
SHARED = Rule("shared", "error", needs=("shared",), limits=(Limit("max_shared_bytes", "build"),))
SHARED_GROWTH = Rule("shared-growth", "note", needs=("shared",))
SHARED_SPILL = Rule("shared-spill", "note", needs=("shared",))
_STACKS = ("stack_bytes", "cumulative_stack_bytes", "local_bytes")
_SHARED = ("shared_bytes", "dynamic_shared_bytes")
_SPILLS = ("spill_store_bytes", "spill_load_bytes", "shared_spills")


def _deepest(kernel: Kernel, terms: Terms) -> int | None:
    usage = kernel.usage
    return usage.stack_bytes if usage.cumulative_stack_bytes is None else usage.cumulative_stack_bytes


def _stack_unknown(kernel: Kernel, terms: Terms) -> str:
    """Why the whole stack is unknown, or not final."""
    if kernel.dynamic_stack:
        return f"stack unknown: {kernel.dynamic_stack}"
    if _deepest(kernel, terms) is None:
        return because(kernel, "no input reports the stack")
    adds = kernel.usage.cumulative_stack_bytes is not None or kernel.usage.barriers is not None
    if kernel.cumulative_spills is not None and not adds:
        return "this ptxas release reports the stack without callees"
    return "" if kernel.role == "function" else unlinked(kernel, "stack")


def _stack_grown(change: Change, terms: Terms) -> Iterator[Violation]:
    """More stack: a warning beyond what the driver reserves anyway, else a note."""
    more = grown(change, _STACKS)
    if not more:
        return
    if more[1:2] == [f"call {more[0]}"]:
        del more[1]
    usage = change.kernel.usage
    text = f"needs more memory: {', '.join(more)}"
    if max(usage.stack_bytes or 0, usage.cumulative_stack_bytes or 0) <= INITIAL_STACK_BYTES:
        yield Violation(text, "note")
        return
    sides = ((effect.gpu, effect.footprint_bytes[1]) for effect in change.effects)
    reserved = ", ".join(f"{size(amount)} on {gpu}" for gpu, amount in sides if amount is not None)
    yield Violation(f"{text}, reserves {reserved}" if reserved else text)


def _dynamic(kernel: Kernel, terms: Terms) -> int | None:
    """Dynamic shared memory; ``None`` if the code declares some, and no launch sets its size."""
    if terms.launch is None:
        return None if kernel.dynamic_shared else 0
    return terms.launch.dynamic_shared_bytes


def _shared_bytes(kernel: Kernel, terms: Terms) -> int | None:
    """Bytes of static and dynamic shared memory of an entry, as far as known."""
    return None if kernel.role == "function" else (kernel.usage.shared_bytes or 0) + (_dynamic(kernel, terms) or 0)


def _shared_message(kernel: Kernel, terms: Terms, total: int, most: int) -> str:
    dynamic = _dynamic(kernel, terms) or 0
    parts = f" ({total - dynamic:,} B static, {dynamic:,} B dynamic)" if dynamic else ""
    return f"uses {total:,} B shared memory per block{parts}, {most:,} B allowed"


def _shared_unknown(kernel: Kernel, terms: Terms) -> str:
    if kernel.role == "function":
        return ""
    if unfinished := unlinked(kernel, "shared memory"):
        return unfinished
    if static_shared(kernel) is None:
        return because(kernel, "no input reports shared memory")
    return "dynamic shared memory unknown" if _dynamic(kernel, terms) is None else ""


def _spills(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
    """Spills to shared memory, from annotations of the code."""
    if kernel.sass is not None and (number := kernel.sass.shared_spills):
        yield Violation(f"spills to shared memory: {count(number, 'instruction')}")


def _spilled(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Spill instructions to shared memory."""
    known = None if kernel.sass is None else kernel.sass.shared_spills
    return None if known is None else {"instructions": known}


def _moved(change: Change, terms: Terms) -> Iterator[Violation]:
    """Spills that moved from local to shared memory."""
    if moved_to_shared(change):
        moved = "moved" if growth(change, "shared_spills") > 0 else "may have moved"
        yield Violation(f"{moved} spills to shared memory: {', '.join(changed(change, (*_SPILLS, *_SHARED)))}")


def _shared_grown(change: Change, terms: Terms) -> Iterator[Violation]:
    if not moved_to_shared(change) and sum(growth(change, name) for name in _SHARED) > 0:
        yield Violation(f"needs more memory: {', '.join(changed(change, _SHARED))}")


CHECKS = (
    threshold(SHARED, _shared_bytes, key="bytes", message=_shared_message, unknown=_shared_unknown),
    Check(rule=SHARED_GROWTH, find_change=_shared_grown),
    Check(rule=SHARED_SPILL, find=_spills, measure=_spilled, find_change=_moved),
    threshold(
        STACK,
        _deepest,
        key="bytes",
        message=lambda kernel, terms, stack, most: f"uses {stack:,} B stack per thread, {most:,} B allowed",
        unknown=_stack_unknown,
    ),
    Check(rule=STACK_GROWTH, find_change=_stack_grown),
)
