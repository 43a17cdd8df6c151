"""What a finding is to a baseline, one fact a row: copies of one kernel as a multiset, and suppressions by day. Typed
by hand."""

from __future__ import annotations

from datetime import date
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from spillscan.judging.baseline.model import Suppression
from tests.judging.baseline.support import TODAY, build, copies, judged, kernel, written

Spills = list[tuple[int, int]]


class Copies(NamedTuple):
    """Spill stores and loads of each copy, recorded and now, and the state of each finding, in the order of copies."""

    why: str
    before: Spills
    after: Spills
    states: list[str]


COPIES = [
    Copies("as recorded", [(8, 8)], [(8, 8)], ["outstanding"]),
    Copies("one figure better", [(8, 8)], [(8, 4)], ["better"]),
    Copies("one figure worse", [(8, 8)], [(8, 12)], ["worse"]),
    Copies("one better, one worse: worse", [(8, 8)], [(4, 12)], ["worse"]),
    Copies("not recorded", [(0, 0)], [(8, 8)], ["new"]),
    Copies("order of copies means nothing", [(8, 8), (4, 4)], [(4, 4), (8, 8)], ["outstanding", "outstanding"]),
    Copies("one place each", [(8, 8), (4, 4)], [(8, 8), (8, 8)], ["outstanding", "worse"]),
    Copies("a better copy excuses no other", [(8, 8), (4, 4)], [(2, 2), (12, 12)], ["better", "worse"]),
    Copies("equal copies may be more", [(8, 8), (8, 8)], [(8, 8)] * 3, ["outstanding"] * 3),
    Copies(
        "unequal ones: another is held to the least", [(8, 8), (4, 4)], [(8, 8), (4, 4), (4, 4)], ["outstanding"] * 3
    ),
    Copies(
        "and no more than the least",
        [(8, 8), (4, 4)],
        [(8, 8), (4, 4), (6, 6)],
        ["outstanding", "outstanding", "worse"],
    ),
    Copies(
        "each takes the place that leaves most to the others", [(2, 8), (4, 6)], [(1, 5), (4, 4)], ["better", "better"]
    ),
    Copies("the greater place is left over", [(8, 8), (4, 4)], [(4, 4), (4, 4)], ["outstanding", "better"]),
    Copies("the greater place goes to whom it fits alone", [(8, 2), (4, 4)], [(4, 3), (8, 1)], ["better", "better"]),
]


@pytest.mark.parametrize("fact", COPIES, ids=lambda fact: fact.why)
def test_copies(fact: Copies) -> None:
    result = judged(copies(fact.after), written(copies(fact.before)))
    states = {finding.kernel.key.unit: finding.baseline_state for finding in result.findings}
    assert [states[unit] for unit in sorted(states)] == fact.states
    assert [each.baseline_state in ("new", "worse") for each in result.open] == [True] * len(result.open)
    assert len(result.open) == sum(state in ("new", "worse") for state in fact.states)


class Excuse(NamedTuple):
    """A suppression of the spill of ``_Z4gemmPf`` on sm_90a, and what becomes of that."""

    why: str
    suppression: dict[str, Any]
    state: str
    expired: int
    idle: int


EXCUSES = [
    Excuse("by symbol", {"kernel": "_Z4gemmPf"}, "suppressed", 0, 0),
    Excuse("by short name", {"kernel": "gemm"}, "suppressed", 0, 0),
    Excuse("by glob", {"kernel": "ge*"}, "suppressed", 0, 0),
    Excuse("another kernel", {"kernel": "softmax"}, "new", 0, 1),
    Excuse("another rule", {"rule": "registers"}, "new", 0, 1),
    Excuse("of this arch", {"arch": "sm_90a"}, "suppressed", 0, 0),
    Excuse("of another arch", {"arch": "sm_90"}, "new", 0, 1),
    Excuse("on its last day", {"until": TODAY}, "suppressed", 0, 0),
    Excuse("a day later", {"until": date(2026, 1, 30)}, "new", 1, 0),
    Excuse(
        "expired, and of another kernel: it must be fixed still",
        {"kernel": "x", "until": date(2026, 1, 30)},
        "new",
        1,
        0,
    ),
]


@pytest.mark.parametrize("fact", EXCUSES, ids=lambda fact: fact.why)
def test_suppressions(fact: Excuse) -> None:
    said = {"kernel": "*", "rule": "spill", "arch": None, "reason": "why", "until": date(2026, 2, 1), "line": 3}
    excused = Suppression(**{**said, **fact.suppression})
    result = judged(build(kernel(spills=(8, 8))), replace(written(build(kernel())), suppressions=(excused,)))
    (finding,) = result.findings
    assert finding.baseline_state == fact.state
    assert finding.suppression == ("why" if fact.state == "suppressed" else None)
    assert len(result.expired) == fact.expired
    assert len(result.idle) == fact.idle
