"""Shared memory: its limit, what a kernel takes more of than before, and spills that went there."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.figures import growth, moved_to_shared
from spillscan.judging.rules import Terms, finding
from spillscan.model import Change, Finding, Kernel, Limit, Rule
from spillscan.model.figures import static_shared

MAX_BYTES = Limit(
    name="max_shared_bytes",
    default=None,
    help="most bytes of shared memory per block",
    judges="build",
    order=40,
)
LIMIT = Rule(
    id="shared",
    severity="error",
    judges=("build",),
    needs=("shared",),
    limits=(MAX_BYTES,),
)

GROWTH = Rule(
    id="shared-growth",
    severity="note",
    judges=("change",),
    needs=("shared",),
)
MOVED = Rule(
    id="spill-to-shared",
    severity="note",
    judges=("change",),
    needs=("shared",),
)

SPILL = Rule(
    id="shared-spill",
    severity="note",
    judges=("build",),
    needs=("shared",),
)

RULES = (LIMIT, GROWTH, MOVED, SPILL)


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """More shared memory than allowed; a note where annotations of the code show that it spills to it."""
    most, dynamic = terms.limit(MAX_BYTES), _dynamic(kernel, terms) or 0
    static = kernel.usage.shared_bytes or 0
    if most is not None and static + dynamic > most and kernel.role != "function":
        parts = f" ({static:,} B static, {dynamic:,} B dynamic)" if dynamic else ""
        yield finding(LIMIT, f"{static + dynamic:,} B shared memory per block{parts}, {most:,} B allowed", kernel)
    if kernel.sass is not None and kernel.sass.shared_spills:
        yield finding(SPILL, f"{kernel.sass.shared_spills:,} spill instructions go to shared memory", kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose shared memory the log does not give, or leaves to the linker."""
    if terms.limit(MAX_BYTES) is None or kernel.role == "function":
        return None
    if kernel.final is False:
        return LIMIT, "relocatable code: its shared memory is not final; give the link's log too (nvcc -Xnvlink -v)"
    if static_shared(kernel) is None:
        return LIMIT, "; ".join(kernel.reasons) or "the log does not say how much shared memory it uses"
    if _dynamic(kernel, terms) is None:
        return LIMIT, "its dynamic shared memory is not known: give `launch` in the policy, or --launch"
    return None


def measure(rule: str, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes of shared memory; spill instructions that go there."""
    if rule == SPILL.id:
        known = None if kernel.sass is None else kernel.sass.shared_spills
        return None if known is None else {"instructions": known}
    static, dynamic = static_shared(kernel), _dynamic(kernel, terms)
    open_end = rule != LIMIT.id or static is None or dynamic is None or kernel.final is False
    return None if open_end else {"bytes": (static or 0) + (dynamic or 0)}


def _dynamic(kernel: Kernel, terms: Terms) -> int | None:
    """Dynamic shared memory; ``None`` where its code declares some and nothing says how much."""
    if terms.launch is None:
        return None if kernel.dynamic_shared else 0
    return terms.launch.dynamic_shared_bytes


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """More shared memory, and whether spills moved into it."""
    if change.before is None or change.after is None:
        return
    known = {name: (old or 0, new or 0) for name, old, new in change.metrics if name in _LABELS}
    parts = {
        name: f"{label} {known[name][0]:,} → {known[name][1]:,}{unit}"
        for name, (label, unit) in _LABELS.items()
        if name in known
    }
    if moved_to_shared(change):
        sure = growth(change, "shared_spills") > 0
        message = ", ".join(parts.values()) + ("" if sure else ": spills may have moved there")
        yield finding(MOVED, message, change.after)
    elif sum(growth(change, name) for name in _SIZES) > 0:
        yield finding(GROWTH, ", ".join(parts[name] for name in _SIZES if name in parts), change.after)


_LABELS = {
    "spill_store_bytes": ("spill stores", " B"),
    "spill_load_bytes": ("spill loads", " B"),
    "shared_spills": ("spills to shared memory", " instructions"),
    "shared_bytes": ("shared memory", " B per block"),
    "dynamic_shared_bytes": ("dynamic shared memory", " B per block"),
}
_SIZES = ("shared_bytes", "dynamic_shared_bytes")
