"""An append that is killed loses nothing that was finished, and leaves nothing half-written that anybody sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.dataset import killing


@pytest.mark.oracle
def test_killed_appends_lose_nothing_and_are_completed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    # A batch puts three objects: kernels, units, the record. Each is one fsync and one replace.
    assert killing.kill_once(root, call=4).units == 0, "parts without a record do not count"
    assert killing.kill_once(root, call=12).units == killing.BATCH, "the second record was on its way"
    killing.complete(root)
