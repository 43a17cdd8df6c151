"""A ledger remembers what an earlier run compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.ledger import Differences, Ledger


def test_a_second_run_begins_behind_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ledger"
    reported = Differences()
    reported.equal("registers", "f", 32, 32)
    reported.equal("registers", "g", 32, 40)
    reported.failures.append("cuobjdump")
    Ledger(file).finish(reported, "lib.so", "sm_90", "all")
    again = Ledger(file)
    assert again.has("lib.so", "sm_90", "all")
    assert not again.has("lib.so", "sm_90", "1000")
    assert again.total.compared == {"registers": 2}
    assert again.total.counts == {"registers": 1}
    assert again.total.failures == ["cuobjdump"]
    assert "registers differs: g" in capsys.readouterr().out


def test_without_a_file_nothing_is_remembered() -> None:
    ledger = Ledger(None)
    ledger.finish(Differences(), "lib.so", "resources")
    assert ledger.has("lib.so", "resources")
    assert not Ledger(None).has("lib.so", "resources")
