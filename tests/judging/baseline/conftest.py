"""A git repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judging.baseline.support import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """An empty repository."""
    folder = tmp_path / "repository"
    folder.mkdir()
    assert git(folder, "init", "-q", "-b", "main").returncode == 0
    return folder
