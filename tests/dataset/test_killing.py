"""An append that is killed loses nothing that was finished, and leaves nothing half-written that anybody sees."""

from __future__ import annotations

from pathlib import Path

from tests.dataset import killing


def test_killed_appends_lose_nothing_and_are_completed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    for moment in killing.moments(seed=1, count=2, longest=0.2):
        killing.kill_once(root, moment)
    killing.complete(root)
