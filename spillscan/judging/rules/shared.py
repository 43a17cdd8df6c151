"""Shared memory: its limit, its growth, and spills to it."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.metrics import growth, moved_to_shared
from spillscan.judging.rules._declared import Check, Found, Terms, because, changed, threshold, unlinked
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.model.metrics import static_shared
from spillscan.output.nouns import count

SHARED = Rule("shared", "error", needs=("shared",), limits=(Limit("max_shared_bytes", "build"),))
GROWTH = Rule("shared-growth", "note", needs=("shared",))
SPILL = Rule("shared-spill", "note", needs=("shared",))
_SIZES = ("shared_bytes", "dynamic_shared_bytes")
_SPILLS = ("spill_store_bytes", "spill_load_bytes", "shared_spills")


def _dynamic(kernel: Kernel, terms: Terms) -> int | None:
    """Dynamic shared memory; ``None`` if the code declares some, and no launch sets its size."""
    if terms.launch is None:
        return None if kernel.dynamic_shared else 0
    return terms.launch.dynamic_shared_bytes


def _bytes(kernel: Kernel, terms: Terms) -> int | None:
    """Bytes of static and dynamic shared memory of an entry, as far as known."""
    return None if kernel.role == "function" else (kernel.usage.shared_bytes or 0) + (_dynamic(kernel, terms) or 0)


def _message(kernel: Kernel, terms: Terms, total: int, most: int) -> str:
    dynamic = _dynamic(kernel, terms) or 0
    parts = f" ({total - dynamic:,} B static, {dynamic:,} B dynamic)" if dynamic else ""
    return f"uses {total:,} B shared memory per block{parts}, {most:,} B allowed"


def _unknown(kernel: Kernel, terms: Terms) -> str:
    if kernel.role == "function":
        return ""
    if unfinished := unlinked(kernel, "shared memory"):
        return unfinished
    if static_shared(kernel) is None:
        return because(kernel, "the log does not report shared memory")
    if _dynamic(kernel, terms) is None:
        return "dynamic shared memory unknown: set `launch` in the policy, or --launch"
    return ""


def _spills(kernel: Kernel, terms: Terms) -> Iterator[Found]:
    """Spills to shared memory, from annotations of the code."""
    if kernel.sass is not None and (number := kernel.sass.shared_spills):
        yield Found(f"spills to shared memory: {count(number, 'instruction')}")


def _spilled(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Spill instructions to shared memory."""
    known = None if kernel.sass is None else kernel.sass.shared_spills
    return None if known is None else {"instructions": known}


def _moved(change: Change, terms: Terms) -> Iterator[Found]:
    """Spills that moved from local to shared memory."""
    if moved_to_shared(change):
        moved = "moved" if growth(change, "shared_spills") > 0 else "may have moved"
        yield Found(f"{moved} spills to shared memory: {', '.join(changed(change, (*_SPILLS, *_SIZES)))}")


def _grown(change: Change, terms: Terms) -> Iterator[Found]:
    if not moved_to_shared(change) and sum(growth(change, name) for name in _SIZES) > 0:
        yield Found(f"needs more memory: {', '.join(changed(change, _SIZES))}")


CHECKS = (
    threshold(SHARED, _bytes, key="bytes", message=_message, unknown=_unknown),
    Check(rule=GROWTH, find_change=_grown),
    Check(rule=SPILL, find=_spills, measure=_spilled, find_change=_moved),
)
