"""Register spills: values that the compiler had to keep in local memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from spillscan.judging.compare.metrics import same_code
from spillscan.judging.rules import Check, Terms, Violation, because, delta
from spillscan.judging.rules.blocks import trade
from spillscan.model import Change, Delta, Kernel, Limit, Rule
from spillscan.model.metrics import value_of

MAX_BYTES = Limit("max_spill_bytes", "build", default=0)
MAX_GROWTH = Limit("max_spill_growth_bytes", "change", default=0)
SPILL = Rule("spill", "error", needs=("spills",), limits=(MAX_BYTES, MAX_GROWTH))


def _find(kernel: Kernel, terms: Terms) -> Iterator[Violation]:
    """A kernel or device function that spills more than allowed."""
    most = terms.limit(MAX_BYTES)
    if most is not None and (excess := _excess(kernel, most, sum)):
        yield Violation(excess + (f", {most:,} B allowed" if most else ""))


def _unknown(kernel: Kernel, terms: Terms) -> str:
    """Why spills are unknown: the input neither reports nor bounds them, as for a kernel that only nvlink names."""
    most, bounds = terms.limit(MAX_BYTES), kernel.spill_bounds
    if most is None or (bounds is not None and not sum(bounds[0]) <= most < sum(bounds[1])):
        return ""
    return because(kernel, _doubt(kernel) or "no input reports the spills")


def _measure(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes of spill stores and loads, those of callees separately; the upper bound if only bounds are known."""
    bounds = kernel.spill_bounds
    if bounds is None:
        return None
    stores, loads = kernel.spills or bounds[1]
    callees = {"callee_stores": bounds[1][0] - stores, "callee_loads": bounds[1][1] - loads}
    return {"stores": stores, "loads": loads, **{name: size for name, size in callees.items() if size}}


def _worse(change: Change, terms: Terms) -> Iterator[Violation]:
    """Spills of a new kernel, or more stores or loads; a fall in one does not offset a rise in the other."""
    most, before, after = terms.limit(MAX_GROWTH), change.before, change.after
    if after is None or most is None:
        return
    if before is None:
        if excess := _excess(after, most, max):
            yield Violation(f"is new and {excess}")
    elif more := _grown(change, terms):
        yield Violation(f"spills more: {', '.join(more)}")
    elif before.spills == (0, 0) and _without_sum(after, most):
        yield Violation("now spills an unknown number of bytes")


def _grown(change: Change, terms: Terms) -> list[str]:
    """Spills that grew by more than allowed: the kernel's own, else those with its callees."""
    most = terms.limit(MAX_GROWTH)
    if most is None or trade(change, terms):
        return []
    own, together = (
        [
            delta(what, before, after, "B")
            for what, before, after in _pairs(change, names)
            if before is not None and after is not None and after - before > most
        ]
        for names in (_OWN, _TOGETHER)
    )
    return own or together


def _unknown_change(change: Change, terms: Terms) -> str:
    """Why a change of spills is unknown: a build does not report them, and the other does not decide alone.

    Neither a head without spills nor the same code is a regression.
    """
    most, before, after = terms.limit(MAX_GROWTH), change.before, change.after
    if after is None or most is None or any(_worse(change, terms)):
        return ""
    if before is not None and same_code(before, after):
        return ""
    if after.spills is None or (after.spill_bounds and after.spill_bounds[0] != after.spill_bounds[1]):
        linked = (before is None or (before.spills is None and before.final)) and after.final
        return "" if linked else because(after, _doubt(after) or "the newer build does not report spills")
    if before is None or not any(old is None and (new or 0) > most for _, old, new in _pairs(change, _OWN)):
        return ""
    return because(before, "the newer build spills; the older build does not report spills")


_OWN = {"spill_store_bytes": "stores", "spill_load_bytes": "loads"}
_TOGETHER = {f"cumulative_{name}": f"{label} including callees" for name, label in _OWN.items()}


def _pairs(change: Change, names: Mapping[str, str]) -> list[Delta]:
    assert change.before is not None
    assert change.after is not None
    return [(label, value_of(name, change.before), value_of(name, change.after)) for name, label in names.items()]


def _excess(kernel: Kernel, most: int, total: Callable[[Iterable[int]], int]) -> str:
    """Spills, if they are known to exceed ``most`` bytes in ``total`` of stores and loads; else empty."""
    bounds = kernel.spill_bounds
    if kernel.spills is not None and total(kernel.spills) > most:
        return f"spills {'callee-saved registers: ' * kernel.saves_for_callers}{_bytes(kernel.spills)}"
    if bounds is not None and total(bounds[0]) > most:
        together = kernel.cumulative_spills
        return f"spills {_bytes(together)}, including its callees" if together else _doubt(kernel)
    return "" if bounds is not None and total(bounds[1]) <= most else _without_sum(kernel, most)


def _without_sum(kernel: Kernel, most: int) -> str:
    """Unknown spills: a warning without values, or only stores or loads, above ``most``; else empty."""
    if kernel.spills is not None:
        return ""
    for name, what in _OWN.items():
        if (size := getattr(kernel.usage, name)) is not None and size > most:
            return f"spills at least {size:,} B ({what}); the total is unknown"
    warned = any(advisory.kind == "spill_warning" for advisory in kernel.advisories)
    return "spills an unknown number of bytes" if warned else ""


def _bytes(spills: tuple[int, int]) -> str:
    return f"{spills[0]:,} B stores, {spills[1]:,} B loads"


def _doubt(kernel: Kernel) -> str:
    """Bounds of the kernel's spills as text; empty without any."""
    if kernel.spill_bounds is None:
        return ""
    least, most = map(sum, kernel.spill_bounds)
    callees = "" if kernel.spill_bounds == kernel.own_spill_bounds else ", including its callees"
    return f"spills {least:,} to {most:,} B{callees}; no input has the exact value"


CHECKS = (
    Check(
        rule=SPILL, find=_find, unknown=_unknown, measure=_measure, find_change=_worse, unknown_change=_unknown_change
    ),
)
