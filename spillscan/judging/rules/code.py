"""What a kernel costs before it runs, the size of its machine code and its compile time: against limits and an older
build. Without a limit anything is fine: compile times are never the same twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from spillscan.judging.rules import Terms, finding
from spillscan.model import Change, Finding, Hidden, Kernel, Limit, Rule
from spillscan.occupancy.text import sizes


class _Cost(NamedTuple):
    """One such figure."""

    what: str
    """As messages call it."""
    unit: str
    key: str
    """In a baseline."""
    get: Callable[[Kernel], int | None]
    silent: str
    """Why it may be unknown."""
    limit: Rule
    growth: Rule

    def texts(self, *values: int) -> Sequence[str]:
        """Values that are held against each other."""
        return sizes(*values) if self.unit == "B" else [f"{value:,} {self.unit}" for value in values]


def _rules(name: str, needs: Hidden, most: Limit, growth: Limit) -> tuple[Rule, Rule]:
    limit = Rule(id=name, severity="error", judges=("build",), needs=(needs,), limits=(most,))
    grown = f"{name.partition('-')[0]}-growth"
    return limit, Rule(
        id=grown, severity="error", judges=("change",), needs=(needs,), limits=(growth,), recorded_as=name
    )


def _bytes(kernel: Kernel) -> int | None:
    return kernel.sass.code_bytes if kernel.sass is not None and kernel.sass.instructions else None


def _milliseconds(kernel: Kernel) -> int | None:
    return None if kernel.compile_ms is None else round(kernel.compile_ms)


MAX_BYTES = Limit(
    name="max_code_bytes",
    default=None,
    help="most bytes of machine code of a kernel",
    judges="build",
    order=35,
)
MAX_MILLISECONDS = Limit(
    name="max_compile_ms",
    default=None,
    help="most milliseconds that ptxas may take for a kernel",
    judges="build",
    order=36,
)
MAX_GROWTH = Limit(
    name="max_code_growth_percent",
    default=None,
    help="most percent by which the machine code of a kernel may grow",
    judges="change",
    order=75,
)
MAX_SLOWDOWN = Limit(
    name="max_compile_growth_percent",
    default=None,
    help="most percent by which the compile time of a kernel may grow",
    judges="change",
    order=76,
)
_COSTS = (
    _Cost(
        "code",
        "B",
        "bytes",
        _bytes,
        "no input shows its machine code; give its binary",
        *_rules("code-size", "code", MAX_BYTES, MAX_GROWTH),
    ),
    _Cost(
        "compile time",
        "ms",
        "milliseconds",
        _milliseconds,
        "no input says what it took to compile; give a log of ptxas 12.8 or later, or a trace",
        *_rules("compile-time", "time", MAX_MILLISECONDS, MAX_SLOWDOWN),
    ),
)

RULES = tuple(rule for cost in _COSTS for rule in (cost.limit, cost.growth))


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """A kernel that costs more than allowed."""
    for cost in _COSTS:
        most, value = terms.limit(*cost.limit.limits), cost.get(kernel)
        if most is not None and value is not None and value > most:
            found, allowed = cost.texts(value, most)
            yield finding(cost.limit, f"{found} of {cost.what}, {allowed} allowed", kernel)


def undecided(kernel: Kernel, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel of which an input does not say what it costs."""
    for cost in _COSTS:
        if terms.limit(*cost.limit.limits) is not None and cost.get(kernel) is None:
            return cost.limit, cost.silent
    return None


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """What grew by more than the policy tolerates."""
    if change.before is None or change.after is None:
        return
    for cost in _COSTS:
        most, before, after = terms.limit(*cost.growth.limits), cost.get(change.before), cost.get(change.after)
        if most is not None and before is not None and after is not None and 100 * (after - before) > most * before:
            percent = f"+{100 * (after - before) / before:.0f} %" if before else "from nothing"
            was, now = cost.texts(before, after)
            text = f"{cost.what} {was} → {now} ({percent}, {most} % allowed)"
            yield finding(cost.growth, text, change.after)


def undecided_change(change: Change, terms: Terms) -> tuple[Rule, str] | None:
    """A kernel whose cost one build at most shows."""
    if change.before is None or change.after is None:
        return None
    for cost in _COSTS:
        limited = terms.limit(*cost.growth.limits) is not None
        if limited and None in (cost.get(change.before), cost.get(change.after)):
            return cost.growth, cost.silent
    return None


def measure(rule: str, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """What it costs."""
    found = {cost.limit.id: (cost.key, cost.get(kernel)) for cost in _COSTS}
    key, value = found.get(rule, ("", None))
    return None if value is None else {key: value}
