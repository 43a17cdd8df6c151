"""Register spills: values that the compiler had to keep in local memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spillscan.judging.compare.figures import same_code, sides
from spillscan.judging.rules._declared import Family, Said, Terms
from spillscan.judging.rules.blocks import trade
from spillscan.model import Change, Kernel, Limit, Metric, Rule

MAX_BYTES = Limit(
    "max_spill_bytes", "most bytes of spill stores and loads together, per thread", "build", 10, default=0
)
MAX_GROWTH = Limit(
    "max_spill_growth_bytes", "most bytes by which spill stores or spill loads may grow", "change", 60, default=0
)
MAX_UNKNOWN = Limit(
    "max_unknown_spill_bytes",
    "most bytes of spill stores and loads together that code may leave open whether they are spills",
    "both",
    65,
    default=0,
)
SPILL = Rule("spill", "error", ("build", "change"), ("spills",), (MAX_BYTES, MAX_GROWTH, MAX_UNKNOWN))
GROWTH = Rule("spill-growth", "error", ("change",), ("spills",), (MAX_GROWTH, MAX_UNKNOWN), recorded_as="spill")


def findings(kernel: Kernel, terms: Terms) -> Iterator[Said]:
    """A kernel or device function that spills more than allowed."""
    most = terms.limit(MAX_BYTES)
    if most is None:
        return
    allowed = f", {most:,} B allowed" if most else ""
    bounds = kernel.spill_bounds
    if kernel.spills is not None and sum(kernel.spills) > most:
        yield SPILL, _figures(kernel) + allowed
    elif bounds is not None:
        if sum(bounds[0]) > most:
            yield SPILL, _with_callees(kernel) + allowed
    elif _spills_unknown(kernel, most):
        yield SPILL, _without_sum(kernel)


def undecided(kernel: Kernel, terms: Terms) -> Said | None:
    """A kernel whose spills the input does not report, such as one that only the linker names, or does not bound."""
    most, bounds = terms.limit(MAX_BYTES), kernel.spill_bounds
    if (
        most is None
        or (bounds is not None and not sum(bounds[0]) <= most < sum(bounds[1]))
        or _tolerated(kernel, terms)
    ):
        return None
    source = "binary" if _of_binary(kernel) else "log"
    return SPILL, "; ".join(kernel.reasons) or _doubt(kernel, f"the {source} does not say whether it spills")


def regressions(change: Change, terms: Terms) -> Iterator[Said]:
    """New spills, or more stores or loads of them: a fall in one does not excuse a rise in the other."""
    most = terms.limit(MAX_GROWTH)
    if change.after is None or most is None:
        return
    if change.before is None:
        least = max(change.after.spill_bounds[0] if change.after.spill_bounds else (0,))
        if least > most:
            alone = max(change.after.spills or (0,)) > most
            figures = _figures(change.after) if alone else _with_callees(change.after)
            yield SPILL, f"is new and {figures}"
        elif _spills_unknown(change.after, most):
            yield SPILL, f"is new and {_without_sum(change.after)}"
        return
    grown: list[str] = []
    pairs: list[Metric] = []
    for pairs in (_pairs(change, _OWN), _pairs(change, _TOGETHER)):
        grown = [
            f"{what} {before:,} → {after:,} B (+{after - before:,})"
            for what, before, after in pairs
            if before is not None and after is not None and after - before > most
        ]
        if grown:
            break
    if grown and not trade(change, terms):
        first = all(before == 0 for _, before, _ in pairs)
        yield SPILL if first else GROWTH, f"spills more: {', '.join(grown)}"
    elif change.before.spills == (0, 0) and _spills_unknown(change.after, most):
        yield SPILL, "spills now, an unknown number of bytes"


def undecided_change(change: Change, terms: Terms) -> Said | None:
    """A kernel whose spills one of the builds does not give, unless the other answers alone: none now is no growth, nor
    is the same code."""
    most = terms.limit(MAX_GROWTH)
    if change.after is None or most is None or any(True for _ in regressions(change, terms)):
        return None
    before, after = change.before, change.after
    if _tolerated(after, terms) or (before is not None and same_code(before, after)):
        return None
    if after.spills is None or (after.spill_bounds and after.spill_bounds[0] != after.spill_bounds[1]):
        linked = (before is None or (before.spills is None and before.final)) and after.final
        return (
            None
            if linked
            else (SPILL, "; ".join(after.reasons) or _doubt(after, "the head does not say whether it spills"))
        )
    if before is None or not any(old is None and (new or 0) > most for _, old, new in _pairs(change, _OWN)):
        return None
    return SPILL, "; ".join(before.reasons) or "it spills, and the base does not say whether it did before"


_OWN = {"spill_store_bytes": "stores", "spill_load_bytes": "loads"}
_TOGETHER = {f"cumulative_{name}": f"{label} with its callees" for name, label in _OWN.items()}


def _pairs(change: Change, names: Mapping[str, str]) -> list[Metric]:
    assert change.before is not None
    assert change.after is not None
    return [(names[name], old, new) for name, old, new in sides(change.before, change.after, tuple(names))]


def _spills_unknown(kernel: Kernel, most: int) -> bool:
    """Whether the compiler warns of spills without figures, or a log has its stores or loads alone, above ``most``."""
    warned = any(advisory.kind == "spill_warning" for advisory in kernel.advisories)
    return kernel.spills is None and (warned or any((size or 0) > most for size in _halves(kernel).values()))


def _halves(kernel: Kernel) -> dict[str, int | None]:
    """Its spill stores and its spill loads, where the log has them."""
    return {"stores": kernel.usage.spill_store_bytes, "loads": kernel.usage.spill_load_bytes}


def _without_sum(kernel: Kernel) -> str:
    """That it spills, where the log does not say all of it."""
    known = [f"{size:,} B {what}" for what, size in _halves(kernel).items() if size]
    if not known:
        return "spills an unknown number of bytes"
    return f"spills at least {known[0]}; the log does not say more"


def _bytes(kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """Bytes of spill stores and of spill loads, each; the most where they have bounds only. Those of callees apart."""
    bounds = kernel.spill_bounds
    if bounds is None:
        return None
    stores, loads = kernel.spills or bounds[1]
    callees = {"callee_stores": bounds[1][0] - stores, "callee_loads": bounds[1][1] - loads}
    return {"stores": stores, "loads": loads, **{name: size for name, size in callees.items() if size}}


def _figures(kernel: Kernel) -> str:
    stores, loads = kernel.spills or (0, 0)
    if kernel.saves_for_callers:
        return f"spills callee-saved registers: {stores:,} B stores, {loads:,} B loads"
    return f"spills {stores:,} B stores, {loads:,} B loads"


def _with_callees(kernel: Kernel) -> str:
    """What it spills beyond its own known figures: its callees, or what only has bounds."""
    if kernel.cumulative_spills is None:
        return _doubt(kernel, "")
    stores, loads = kernel.cumulative_spills
    return f"spills {stores:,} B stores, {loads:,} B loads with its callees"


def _doubt(kernel: Kernel, otherwise: str) -> str:
    """The bounds of its spills."""
    if kernel.spill_bounds is None:
        return otherwise
    least, most = map(sum, kernel.spill_bounds)
    more = "the code alone does not say more"
    if _of_binary(kernel):
        more = f"the binary does not say more ({MAX_UNKNOWN.name}: {most - least} takes it)"
    return f"spills at least {least:,} B, at most {most:,} B: {more}"


def _of_binary(kernel: Kernel) -> bool:
    """Whether nothing but binaries says anything of it."""
    return bool(kernel.origins) and all(origin.format == "binary" for origin in kernel.origins)


def _tolerated(kernel: Kernel, terms: Terms) -> bool:
    """Whether no more of its spills is open than is allowed."""
    allowed, bounds = terms.limit(MAX_UNKNOWN), kernel.spill_bounds
    return (
        bounds is not None
        and bounds[0] != bounds[1]
        and (allowed is None or sum(bounds[1]) - sum(bounds[0]) <= allowed)
    )


FAMILIES = (
    Family(
        rules=(SPILL, GROWTH),
        findings=findings,
        undecided=undecided,
        regressions=regressions,
        undecided_change=undecided_change,
        measures={SPILL: _bytes},
    ),
)
