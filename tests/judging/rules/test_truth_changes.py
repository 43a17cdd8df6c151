"""Findings in a change: ``changes.yaml``."""

from __future__ import annotations

from typing import Any

import pytest

from spillscan.judging import rules
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.model import Build, Usage
from tests.judging.rules.kernels import kernel, table

CLEAN = {"registers": 32, "spill_store_bytes": 0, "spill_load_bytes": 0, "barriers": 1}


def build(figures: dict[str, Any] | None) -> Build:
    """The kernel of a side; what it does not say of usage is clean."""
    if figures is None:
        return Build()
    usage = {name: value for name, value in {**CLEAN, **figures}.items() if name in Usage.__struct_fields__}
    rest = {name: value for name, value in figures.items() if name not in usage}
    return Build(kernels=(kernel({**rest, "usage": usage}),))


@pytest.mark.parametrize("row", table("changes"), ids=lambda row: row["why"])
def test_a_change(row: dict[str, Any]) -> None:
    launches = (f"*={row['launch']}",) if "launch" in row else ()
    policy = Policy((from_options(row.get("options", {}), (), launches),))
    compared = comparison(build(row["before"]), build(row["after"]), policy, policy.devices, all_pairs=True)
    pairs = (*compared.changes, *compared.unsettled, *compared.equal)
    found = rules.check_changes(pairs, policy).findings
    if row.get("found") == "no trade-off":
        assert not {"blocks-traded"} & {each.rule for each in found}
        assert any(each.severity == "error" for each in found)
        return
    assert {each.rule: [each.severity, each.message] for each in found} == row.get("found", {})
    undecided = {each.rule.id: each.reason for each in rules.check_changes(pairs, policy).undecided}
    assert undecided == row.get("undecided", {})
