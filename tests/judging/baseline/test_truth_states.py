"""What a finding is to a baseline, one fact a row: copies of one kernel as a multiset. Typed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.judging.baseline.support import copies, judged, written

Spills = list[tuple[int, int]]


class Copies(NamedTuple):
    """Spill stores and loads of each copy, recorded and now, and the state of each finding, in the order of copies."""

    why: str
    before: Spills
    after: Spills
    states: list[str]


COPIES = [Copies(*row) for row in yaml.safe_load((Path(__file__).parent / "states.yaml").read_text(encoding="utf-8"))]


@pytest.mark.parametrize("fact", COPIES, ids=lambda fact: fact.why)
def test_copies(fact: Copies) -> None:
    result = judged(copies(fact.after), written(copies(fact.before)))
    states = {finding.kernel.key.unit: finding.baseline_state for finding in result.findings}
    assert [states[unit] for unit in sorted(states)] == fact.states
    assert [each.baseline_state in ("new", "worse") for each in result.open] == [True] * len(result.open)
    assert len(result.open) == sum(state in ("new", "worse") for state in fact.states)
