"""Builds with a real nvcc under ``spillscan run``: some rows of ``builds.yaml``, in ``make oracle`` all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builds.trial import ROWS, Row, lacking, outcome
from tests.conftest import sized

SUITE = sized([row for row in ROWS if row.suite == "test"], ROWS)


@pytest.mark.parametrize("row", SUITE, ids=lambda row: row.name)
def test_a_spill_is_found_and_a_clean_kernel_is_not_blamed(row: Row, tmp_path: Path) -> None:
    if missing := lacking(row):
        pytest.skip(f"{missing} is not installed")
    assert outcome(row, tmp_path) == ""
