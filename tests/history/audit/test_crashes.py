"""An audit that is killed, or for which there is no room, loses no more than seconds and can go on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spillscan.history.dataset.reading import verify
from spillscan.output.errors import SpillscanError
from tests.conftest import sized
from tests.history.audit.crashes import REPEATED_SECONDS, killed, objects
from tests.history.audit.support import kept, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.mark.oracle
def test_killed_with_all_its_processes_it_continues(tmp_path: Path) -> None:
    tree, data = objects(tmp_path / "tree", sized(60, 150)), tmp_path / "data"
    for seconds in (0.0, 0.3):
        late = killed(tree, data, seconds)
        assert late is None or late < REPEATED_SECONDS
    run(tree, data)
    assert kept(data) == kept_whole(tree, tmp_path)
    assert verify(str(data)) == []


def kept_whole(tree: Path, folder: Path) -> object:
    """Result of an undisturbed audit."""
    run(tree, folder / "whole")
    return kept(folder / "whole")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    asked = ("mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(disk))
    if os.geteuid() or subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("rights: mounting a file system is not permitted")
    yield disk
    subprocess.run(("umount", "-l", str(disk)), check=True)


@pytest.mark.oracle
def test_a_full_disk_is_reported_and_the_audit_continues_later(small_disk: Path, tmp_path: Path) -> None:
    tree, data = objects(tmp_path / "tree", sized(25, 60)), small_disk / "data"
    (small_disk / "other").write_bytes(bytes(250_000))
    with pytest.raises(SpillscanError, match="No space left on device"):
        run(tree, data)
    subprocess.run(("mount", "-o", "remount,size=20m", str(small_disk)), check=True)
    run(tree, data)
    assert verify(str(data)) == []
    assert kept(data) == kept_whole(tree, tmp_path)
