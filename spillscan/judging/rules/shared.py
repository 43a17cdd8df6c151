"""Shared memory: its limit, what a kernel takes more of than before, and spills that went there."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.judging.compare.figures import growth, moved_to_shared
from spillscan.judging.rules._declared import Family, Said, Terms, Threshold, because, unlinked
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.model.figures import static_shared
from spillscan.output.nouns import count

MAX_BYTES = Limit("max_shared_bytes", "most bytes of shared memory per block", "build", 40)
LIMIT = Rule("shared", "error", ("build",), ("shared",), (MAX_BYTES,))
GROWTH = Rule("shared-growth", "note", ("change",), ("shared",))
MOVED = Rule("spill-to-shared", "note", ("change",), ("shared",))
SPILL = Rule("shared-spill", "note", ("build",), ("shared",))


def _dynamic(kernel: Kernel, terms: Terms) -> int | None:
    """Dynamic shared memory; ``None`` where its code declares some and nothing says how much."""
    if terms.launch is None:
        return None if kernel.dynamic_shared else 0
    return terms.launch.dynamic_shared_bytes


def _bytes(kernel: Kernel, terms: Terms) -> int | None:
    """Static and dynamic shared memory of an entry, as far as they are known."""
    return None if kernel.role == "function" else (kernel.usage.shared_bytes or 0) + (_dynamic(kernel, terms) or 0)


def _message(kernel: Kernel, terms: Terms, total: int, most: int) -> str:
    dynamic = _dynamic(kernel, terms) or 0
    parts = f" ({total - dynamic:,} B static, {dynamic:,} B dynamic)" if dynamic else ""
    return f"uses {total:,} B shared memory per block{parts}, {most:,} B allowed"


def _open_end(kernel: Kernel, terms: Terms) -> str:
    if kernel.final is False:
        return unlinked(MOST.unlinked)
    if static_shared(kernel) is None:
        return because(kernel, MOST.silent)
    if _dynamic(kernel, terms) is None:
        return "its dynamic shared memory is not known: give `launch` in the policy, or --launch"
    return ""


MOST = Threshold(
    rule=LIMIT,
    key="bytes",
    figure=_bytes,
    message=_message,
    silent="the log does not say how much shared memory it uses",
    unlinked="its shared memory is",
    functions=False,
    open_end=_open_end,
)


def findings(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    """Annotations of the code show that it spills to shared memory."""
    if kernel.sass is not None and kernel.sass.shared_spills:
        yield SPILL, f"spills to shared memory: {count(kernel.sass.shared_spills, 'instruction')}"


def _spilled(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Spill instructions that go to shared memory."""
    known = None if kernel.sass is None else kernel.sass.shared_spills
    return None if known is None else {"instructions": known}


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """More shared memory, and whether spills moved into it."""
    parts = {
        name: f"{_LABELS[name][0]}: {old or 0:,} → {new or 0:,}{_LABELS[name][1]}"
        for name, old, new in change.metrics
        if name in _LABELS
    }
    if moved_to_shared(change):
        sure = growth(change, "shared_spills") > 0
        yield MOVED, f"{'moved' if sure else 'may have moved'} spills to shared memory ({', '.join(parts.values())})"
    elif sum(growth(change, name) for name in _SIZES) > 0:
        yield GROWTH, f"uses more {', '.join(parts[name] for name in _SIZES if name in parts)}"


_LABELS = {
    "spill_store_bytes": ("spill stores", " B"),
    "spill_load_bytes": ("spill loads", " B"),
    "shared_spills": ("spills to shared memory", " instructions"),
    "shared_bytes": ("shared memory", " B per block"),
    "dynamic_shared_bytes": ("dynamic shared memory", " B per block"),
}
_SIZES = ("shared_bytes", "dynamic_shared_bytes")

FAMILIES = (
    Family(
        thresholds=(MOST,),
        rules=(GROWTH, MOVED, SPILL),
        findings=findings,
        regressions=regressions,
        measures={SPILL: _spilled},
    ),
)
