"""Findings in one kernel: ``builds.yaml``."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spillscan.judging import rules
from spillscan.judging.rules import Terms
from spillscan.model import Build, Kernel, KernelKey, Launch, Usage
from tests.judging.rules.kernels import Same, kernel, table

TABLE = [(rule, row) for rule, rows in table("builds").items() for row in rows]


@pytest.mark.parametrize(("rule", "row"), TABLE, ids=[f"{rule}: {row['why']}" for rule, row in TABLE])
def test_a_kernel(rule: str, row: dict[str, Any]) -> None:
    expected = {name: row.get(name) for name in ("why", "limits", "launch", "found", "undecided", "measure")}
    subject = kernel({name: value for name, value in row.items() if name not in expected})
    launch = expected["launch"] and msgspec.convert(expected["launch"], Launch)
    terms = Terms(limits=expected["limits"] or {}, launch=launch)
    judgement = rules.check(Build(kernels=(subject,)), Same(terms))
    found = [[each.severity, each.message] for each in judgement.findings if each.rule == rule]
    assert found == ([] if expected["found"] is None else [expected["found"]])
    undecided = [each.reason for each in judgement.undecided if each.rule.id == rule]
    assert undecided == ([] if expected["undecided"] is None else [expected["undecided"]])
    measure = rules.measure(rule, subject, terms)
    assert (None if measure is None else dict(measure)) == expected["measure"]


@pytest.mark.parametrize("level", ["error", "warning", "note", "off"])
def test_the_policys_severity_applies_to_findings_and_undecided_rules(level: Any) -> None:
    terms = Same(Terms(limits={"max_registers": 40}, levels={"registers": level}))
    many, unknown = (
        Kernel(key=KernelKey(symbol=n), role="entry", usage=Usage(registers=r)) for n, r in (("a", 41), ("b", None))
    )
    judgement = rules.check(Build(kernels=(many, unknown)), terms)
    expected = [] if level == "off" else [level]
    assert [each.severity for each in judgement.findings if each.rule == "registers"] == expected
    assert [each.severity for each in judgement.undecided if each.rule.id == "registers"] == expected
