"""Machine code: its size, differences from an older build, spills inside loops, and local arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from spillscan.judging.rules import Check, Terms, Violation, grown, threshold
from spillscan.model import Change, Kernel, Limit, Rule
from spillscan.model.metrics import value_of
from spillscan.output.nouns import count, sizes

if TYPE_CHECKING:
    from spillscan.model.local import AccessClass, Traffic

MAX_GROWTH = Limit("max_code_growth_percent", "change")
SIZE = Rule("code-size", "error", needs=("code",), limits=(Limit("max_code_bytes", "build"),))
GROWTH = Rule("code-growth", "error", needs=("code",), limits=(MAX_GROWTH,), recorded_as="code-size")
OTHER = Rule("other-code", "note", needs=("code",))
REMOVED = Rule("kernel-removed", "note")


def _sizes(change: Change) -> tuple[int | None, int | None]:
    before, after = (None if each is None else value_of("code_bytes", each) for each in (change.before, change.after))
    return before, after


def _grown(change: Change, terms: Terms) -> Iterator[Violation]:
    most, (before, after) = terms.limit(MAX_GROWTH), _sizes(change)
    if most is not None and before is not None and after is not None and 100 * (after - before) > most * before:
        percent = f"+{100 * (after - before) / before:.0f}%" if before else "from nothing"
        was, now = sizes(before, after)
        yield Violation(f"has more machine code: {was} → {now} ({percent}, {most}% allowed)")


def _growth_unknown(change: Change, terms: Terms) -> str:
    compared = change.before is not None and change.after is not None
    return "machine code missing from one or both builds" if compared and None in _sizes(change) else ""


def _other(change: Change, terms: Terms) -> Iterator[Violation]:
    """Code that was compared (``diff --with code``) and differs."""
    if change.code == "differs":
        yield Violation(f"has different machine code: {change.code_reason}")


def _not_compared(change: Change, terms: Terms) -> str:
    if change.code != "not compared" or change.kernel.caller:
        return ""
    return f"machine code not compared: {change.code_reason}"


def _removed(change: Change, terms: Terms) -> Iterator[Violation]:
    if change.state == "removed":
        yield Violation("was removed")


# ---- accesses to local memory ---------------------------------------------------------------------------------------

LOOPS = Rule("spill-in-loop", "warning", needs=("code",))
ARRAYS = Rule("local-array", "warning", needs=("code",), least="note")
_LOOPS = ("spills_in_loops", "spill_loop_depth")
_ARRAYS = ("array_store_bytes", "array_load_bytes")
_OPEN = "some local-memory accesses are of unknown kind (spill or array)"


def _callees(kernel: Kernel | None, kind: AccessClass) -> str:
    """End of a message whose numbers include accesses of callees."""
    return ", including its callees" if kernel and kernel.sass and kernel.sass.local.inner(kind) else ""


def _loops(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
    if kernel.sass is not None and (looping := kernel.sass.local.spills_in_loops):
        depths = ", ".join(f"{count(number, 'instruction')} at depth {depth}" for depth, number in looping.items())
        yield Violation(f"spills inside loops: {depths}{_callees(kernel, 'spill')}")


def _in_loops(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Spill instructions in loops, by minimum depth."""
    if kernel.sass is None:
        return None
    looping = kernel.sass.local.spills_in_loops
    depths = range(1, max(looping, default=1) + 1)
    return {f"depth-{least}": sum(n for depth, n in looping.items() if depth >= least) for least in depths}


def _more_loops(change: Change, terms: Terms) -> Iterator[Violation]:
    if more := grown(change, _LOOPS):
        yield Violation(f"spills more inside loops: {', '.join(more)}{_callees(change.after, 'spill')}")


def _accesses(kernel: Kernel | None) -> Traffic | None:
    """Accesses to local arrays; ``None`` if the code was not read."""
    return None if kernel is None or kernel.sass is None else kernel.sass.local.of("array")


def _arrays(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
    arrays = _accesses(kernel)
    if arrays and arrays.accesses:
        stores, loads = count(arrays.stores, "store"), count(arrays.loads, "load")
        least = "at least " if value_of("array_stores", kernel) is None else ""
        text = f"uses local arrays: {least}{stores} ({arrays.store_bytes:,} B), {loads} ({arrays.load_bytes:,} B)"
        yield Violation(text + _callees(kernel, "array"), "note")


def _bytes(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes accessed in local arrays."""
    arrays = _accesses(kernel)
    return None if arrays is None else {"stores": arrays.store_bytes, "loads": arrays.load_bytes}


def _more_arrays(change: Change, terms: Terms) -> Iterator[Violation]:
    """More accesses to local arrays: a warning if there were none before, else a note."""
    if more := grown(change, _ARRAYS):
        before, also = _accesses(change.before), _callees(change.after, "array")
        yield Violation(
            f"uses more local arrays: {', '.join(more)}{also}", "note" if before and before.accesses else None
        )


def _lost_metric(change: Change, names: Collection[str]) -> bool:
    """Whether the newer code lacks one of these metrics, which the older has."""
    read = change.after is not None and change.after.sass is not None
    return read and any(name in names and new is None for name, _, new in change.unknown)


def _loops_unknown(change: Change, terms: Terms) -> str:
    return _OPEN if _lost_metric(change, _LOOPS) else ""


def _arrays_unknown(change: Change, terms: Terms) -> str:
    """Why growth of arrays is unknown: the code of one side was not read, and the other does not decide alone."""
    if change.before is None or change.after is None:
        return ""
    before, after = change.before.sass, change.after.sass
    if after is None and before is not None:
        return "only the older build has machine code"
    if before is None and after is not None and (after.local.spills_in_loops or after.local.of("array").accesses):
        return "only the newer build has machine code"
    return _OPEN if _lost_metric(change, _ARRAYS) and not _lost_metric(change, _LOOPS) else ""


CHECKS = (
    threshold(
        SIZE,
        lambda kernel, _: value_of("code_bytes", kernel),
        key="bytes",
        message=lambda kernel, terms, value, most: "has {} of machine code, {} allowed".format(*sizes(value, most)),
        unknown=lambda kernel, _: "machine code not in the inputs" if value_of("code_bytes", kernel) is None else "",
        linked=False,
    ),
    Check(rule=GROWTH, find_change=_grown, unknown_change=_growth_unknown),
    Check(rule=OTHER, find_change=_other, unknown_change=_not_compared),
    Check(rule=REMOVED, find_change=_removed),
    Check(rule=LOOPS, find=_loops, measure=_in_loops, find_change=_more_loops, unknown_change=_loops_unknown),
    Check(rule=ARRAYS, find=_arrays, measure=_bytes, find_change=_more_arrays, unknown_change=_arrays_unknown),
)
