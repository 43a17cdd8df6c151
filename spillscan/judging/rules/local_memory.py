"""Local-memory accesses in the machine code: spills inside loops, and local arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spillscan.judging.rules._declared import Check, Said, Terms
from spillscan.model import Change, Delta, Kernel, Rule
from spillscan.model.metrics import find_metric, value_of
from spillscan.output.nouns import count

LOOPS = Rule("spill-in-loop", "warning", needs=("code",))
ARRAYS = Rule("local-array", "warning", needs=("code",), least="note")
_LOOPS = ("spills_in_loops", "spill_loop_depth")
_ARRAYS = ("array_store_bytes", "array_load_bytes")
_OPEN = "some of its local-memory accesses are unclassified"


def _loops(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    if kernel.sass is not None and (looping := kernel.sass.local.spills_in_loops):
        depths = ", ".join(f"{number:,} at depth {depth}" for depth, number in looping.items())
        yield Said(f"spills inside loops, instructions: {depths}")


def _in_loops(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Spill instructions in loops, by minimum depth."""
    if kernel.sass is None:
        return None
    looping = kernel.sass.local.spills_in_loops
    depths = range(1, max(looping, default=1) + 1)
    return {f"depth-{least}": sum(n for depth, n in looping.items() if depth >= least) for least in depths}


def _more_loops(change: Change, terms: Terms) -> Iterator[Said]:
    if grown := [each for each in _grown(change) if each[0] in _LOOPS]:
        yield Said(f"spills more inside loops: {_rise(grown)}")


def _arrays(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    arrays = kernel.sass.local.of("array") if kernel.sass else None
    if arrays and arrays.accesses:
        stores, loads = count(arrays.stores, "store"), count(arrays.loads, "load")
        text = f"uses local arrays: {stores} ({arrays.store_bytes:,} B), {loads} ({arrays.load_bytes:,} B)"
        yield Said(text, "note")


def _moved(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes accessed in local arrays."""
    if kernel.sass is None:
        return None
    arrays = kernel.sass.local.of("array")
    return {"stores": arrays.store_bytes, "loads": arrays.load_bytes}


def _more_arrays(change: Change, terms: Terms) -> Iterator[Said]:
    """More accesses to local arrays: a warning if there were none before, else a note."""
    figures = _compared(change)
    if grown := [each for each in _grown(change) if each[0] in _ARRAYS]:
        first = all(old == 0 for name, old, _ in figures if name in _ARRAYS)
        yield Said(f"uses more local arrays: {_rise(grown)}", None if first else "note")


def _compared(change: Change) -> Sequence[Delta]:
    """Metrics of both builds' code; none if one of them was not read."""
    before, after = change.before, change.after
    if before is None or after is None or before.sass is None or after.sass is None:
        return ()
    return [(name, value_of(name, before), value_of(name, after)) for name in (*_LOOPS, *_ARRAYS)]


def _grown(change: Change) -> list[Delta]:
    return [
        (name, old, new) for name, old, new in _compared(change) if old is not None and new is not None and new > old
    ]


def _rise(metrics: Sequence[Delta]) -> str:
    return ", ".join(
        f"{find_metric(name).label} {old or 0:,} → {new or 0:,}{' B' if find_metric(name).unit else ''}"
        for name, old, new in metrics
    )


def _lost(change: Change, names: Sequence[str]) -> bool:
    """Whether the newer code lacks one of these metrics, which the older has."""
    return any(name in names and old is not None and new is None for name, old, new in _compared(change))


def _loops_unknown(change: Change, terms: Terms) -> str:
    return _OPEN if _lost(change, _LOOPS) else ""


def _arrays_unknown(change: Change, terms: Terms) -> str:
    """Unknown if one side's code was not read, unless the newer code decides alone."""
    if change.before is None or change.after is None:
        return ""
    before, after = change.before.sass, change.after.sass
    if after is None and before is not None:
        return "only the older build has its machine code"
    if before is None and after is not None and (after.local.spills_in_loops or after.local.of("array").accesses):
        return "only the newer build has its machine code"
    return _OPEN if _lost(change, _ARRAYS) and not _lost(change, _LOOPS) else ""


CHECKS = (
    Check(rule=LOOPS, find=_loops, measure=_in_loops, find_change=_more_loops, unknown_change=_loops_unknown),
    Check(rule=ARRAYS, find=_arrays, measure=_moved, find_change=_more_arrays, unknown_change=_arrays_unknown),
)
