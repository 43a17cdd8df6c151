"""What the machine code shows of local memory: spills inside loops, local arrays, and counts that do not agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spillscan.judging.compare.figures import sides
from spillscan.judging.rules._declared import Family, Said, Terms
from spillscan.model import Change, Kernel, Metric, Rule
from spillscan.model.figures import figure
from spillscan.output.nouns import between, count

IN_LOOP = Rule("spill-in-loop", "warning", ("build", "change"), ("code",))
ARRAY = Rule("local-array", "note", ("build",), ("code",))
NEW_ARRAY = Rule("local-array-new", "warning", ("change",), ("code",), recorded_as="local-array")
MORE_ARRAY = Rule("local-array-growth", "note", ("change",), ("code",), recorded_as="local-array")
MISMATCH = Rule("spill-mismatch", "warning", ("build",), ("code",))


def findings(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    """Warnings on spills in loops and on disagreement with the log; a note on local arrays."""
    if kernel.sass is None:
        return
    local = kernel.sass.local
    if local.spills_in_loops:
        depths = ", ".join(f"{number:,} at depth {depth}" for depth, number in local.spills_in_loops.items())
        yield IN_LOOP, f"spills inside loops, instructions: {depths}"
    arrays = local.of("array")
    if arrays.accesses:
        stores, loads = count(arrays.stores, "store"), count(arrays.loads, "load")
        yield ARRAY, f"uses local arrays: {stores} ({arrays.store_bytes:,} B), {loads} ({arrays.load_bytes:,} B)"
    printed = kernel.usage.spills
    if printed is not None and kernel.role == "entry" and kernel.confidence == "certain":
        least, most = (each.pair for each in local.bounds(kernel.role, own=True))
        if not all(low <= each <= high for low, each, high in zip(least, printed, most, strict=True)):
            stores, loads = (between(low, high, " B") for low, high in zip(least, most, strict=True))
            log = f"{printed[0]:,} B stores, {printed[1]:,} B loads"
            yield MISMATCH, f"spills {log} according to the log, {stores} and {loads} according to the code"


def _looping(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Spill instructions in loops of each depth or deeper."""
    if kernel.sass is None:
        return None
    looping = kernel.sass.local.spills_in_loops
    depths = range(1, max(looping, default=1) + 1)
    return {f"depth-{least}": sum(n for depth, n in looping.items() if depth >= least) for least in depths}


def _moved(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes that local arrays move."""
    if kernel.sass is None:
        return None
    arrays = kernel.sass.local.of("array")
    return {"stores": arrays.store_bytes, "loads": arrays.load_bytes}


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """More or deeper spills in loops; local arrays that appear or are used more."""
    if change.before is None or change.after is None or not (change.before.sass and change.after.sass):
        return
    figures = {name: (old, new) for name, old, new in sides(change.before, change.after)}
    grown = [
        (name, old, new)
        for name, (old, new) in figures.items()
        if name in (*_LOOPS, *_ARRAYS) and old is not None and new is not None and new > old
    ]
    looping = [metric for metric in grown if metric[0] in _LOOPS]
    if looping:
        yield IN_LOOP, f"spills more inside loops: {_rise(looping)}"
    arrays = [metric for metric in grown if metric[0] in _ARRAYS]
    if arrays:
        fresh = all(figures[name][0] == 0 for name in _ARRAYS)
        yield NEW_ARRAY if fresh else MORE_ARRAY, f"uses more local arrays: {_rise(arrays)}"


def undecided_change(change: Change, terms: Terms) -> Said | None:
    """A kernel whose machine code was read on one side only, unless the newer code answers alone."""
    if change.before is None or change.after is None:
        return None
    before, after = change.before.sass, change.after.sass
    if after is None and before is not None:
        return NEW_ARRAY, "the base has a dump of its machine code, the head has none"
    if before is None and after is not None and (after.local.spills_in_loops or after.local.of("array").accesses):
        return NEW_ARRAY, "the head has a dump of its machine code, the base has none"
    if before is not None and after is not None:
        lost = {name for name, old, new in sides(change.before, change.after) if old is not None and new is None}
        reason = "its code does not say of every access to local memory what it is"
        if not lost.isdisjoint(_LOOPS):
            return IN_LOOP, reason
        if not lost.isdisjoint(_ARRAYS):
            return NEW_ARRAY, reason
    return None


_LOOPS = ("spills_in_loops", "spill_loop_depth")
_ARRAYS = ("array_store_bytes", "array_load_bytes")


def _rise(metrics: Sequence[Metric]) -> str:
    return ", ".join(
        f"{figure(name).label} {old or 0:,} → {new or 0:,}{' B' if figure(name).unit else ''}"
        for name, old, new in metrics
    )


FAMILIES = (
    Family(
        rules=(IN_LOOP, ARRAY, NEW_ARRAY, MORE_ARRAY, MISMATCH),
        findings=findings,
        regressions=regressions,
        undecided_change=undecided_change,
        measures={IN_LOOP: _looping, ARRAY: _moved},
    ),
)
