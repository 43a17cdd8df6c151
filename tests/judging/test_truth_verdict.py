"""The exit status of a gate, one fact a row: findings, gaps and the policy together. Typed by hand."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from spillscan.judging.policy import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.rules import finding
from spillscan.judging.verdict import verdict
from spillscan.model import Gap, Rule, Severity
from tests.reporting import kernel


class Row(NamedTuple):
    """One fact."""

    why: str
    fail_on: str
    findings: tuple[Severity, ...]
    gaps: tuple[str, ...]
    accepted: tuple[str, ...]
    also: frozenset[str]
    """What else is so: ``oversized``."""
    status: int
    failing: int
    left: tuple[str, ...]
    """The gaps that are not accepted."""


NOTHING: frozenset[str] = frozenset()
OVERSIZED = frozenset({"oversized"})
TABLE = [
    Row("nothing at all", "error", (), (), (), NOTHING, 0, 0, ()),
    Row("a finding", "error", ("error",), (), (), NOTHING, 1, 1, ()),
    Row("a milder finding", "error", ("warning", "note"), (), (), NOTHING, 0, 0, ()),
    Row("a finding as mild as the policy says", "warning", ("warning", "note"), (), (), NOTHING, 1, 1, ()),
    Row("the mildest", "note", ("note",), (), (), NOTHING, 1, 1, ()),
    Row("a gap", "error", (), ("truncated",), (), NOTHING, 2, 0, ("truncated",)),
    Row("a gap beside a mild finding", "error", ("note",), ("truncated",), (), NOTHING, 2, 0, ("truncated",)),
    Row("a finding goes before a gap", "error", ("error",), ("truncated",), (), NOTHING, 1, 1, ("truncated",)),
    Row("an accepted gap", "error", (), ("truncated",), ("truncated",), NOTHING, 0, 0, ()),
    Row("another is accepted", "error", (), ("truncated",), ("unreadable",), NOTHING, 2, 0, ("truncated",)),
    Row(
        "one of two is accepted",
        "error",
        (),
        ("truncated", "unreadable"),
        ("truncated",),
        NOTHING,
        2,
        0,
        ("unreadable",),
    ),
    Row("an acceptance excuses no finding", "error", ("error",), ("truncated",), ("truncated",), NOTHING, 1, 1, ()),
    Row("a file is too large", "error", (), (), (), OVERSIZED, 1, 0, ()),
    Row("too large goes before a gap", "error", (), ("truncated",), (), OVERSIZED, 1, 0, ("truncated",)),
    Row("never fails by a finding", "never", ("error",), (), (), NOTHING, 0, 0, ()),
    Row("never fails by a gap, which is still shown", "never", (), ("truncated",), (), NOTHING, 0, 0, ("truncated",)),
    Row("never fails by size", "never", (), (), (), OVERSIZED, 0, 0, ()),
]


@pytest.mark.parametrize("fact", TABLE, ids=lambda fact: fact.why)
def test_status(fact: Row) -> None:
    policy = Policy((from_options({"fail_on": fact.fail_on}, (), (), fact.accepted),))
    found = [finding(Rule(id="made-up", severity=severity), "m", kernel("k")) for severity in fact.findings]
    gaps = [Gap(code=code, message="m", hides=("spills",)) for code in fact.gaps]
    outcome = verdict(found, gaps, policy, oversized="oversized" in fact.also)
    assert outcome.status == fact.status
    assert len(outcome.failing) == fact.failing
    assert tuple(gap.code for gap in outcome.gaps) == fact.left
    assert {gap.code for gap in outcome.accepted} == set(fact.gaps) - set(fact.left)
