"""Order and totals of the reports of `spillscan diff`."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.cli import main
from tests.conftest import FIXTURES, read_text

BASE, HEAD = FIXTURES / "effects" / "base.log", FIXTURES / "effects" / "head.log"


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> list[str]:
    main(list(map(str, words)))
    return capsys.readouterr().out.splitlines()


def test_added_kernels_come_after_changed_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = tmp_path / "head.log"
    head.write_text(read_text(HEAD).replace("solve", "also_solves"))
    lines = printed(capsys, "diff", BASE, head, "--launch", "*=256", "--fail-on", "error")
    heads = [line.split()[0] for line in lines if line[:1].isalpha()]
    assert heads.index("sums") < heads.index("also_solves") < heads.index("total")
    assert any("spill stores  4,204 → 4,960 B (+756; changed -112)" in line for line in lines)
    assert lines[-1].startswith("2 errors (1 in added kernels), ")
