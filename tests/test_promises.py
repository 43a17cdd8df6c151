"""What ``docs/index.md`` promises of version 1.0: old files read, versions are decisions, and no name goes unseen.

``promises/VERSION/`` holds ``scan -f json`` of ``fixtures/demo/base.log`` as that release wrote it; a dataset of it
is in ``history/dataset/version1/``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spillscan.history.dataset import schema
from spillscan.model import snapshot
from tests.conftest import FIXTURES, ROOT, run

STORED = ROOT / "tests" / "promises"
DEMO = FIXTURES / "demo"
RELEASES = sorted(path for path in STORED.iterdir() if path.is_dir())


def test_a_version_that_changes_is_a_decision() -> None:
    """Who changes one stores what the last release wrote, keeps it readable, and says so in the changelog."""
    assert snapshot.SCHEMA_VERSION == 1
    assert schema.VERSION == 11


@pytest.fixture(params=RELEASES, ids=lambda path: path.name)
def release(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def test_an_old_snapshot_is_the_build_that_it_was(release: Path) -> None:
    same = run("diff", release / "scan.json", DEMO / "base.log", "--fail-on", "note")
    assert (same.returncode, same.stdout) == (0, b"no changes in 10 kernels; sm_80, sm_90a\n")


def test_what_was_written_is_written_still(release: Path, tmp_path: Path) -> None:
    run("scan", "fixtures/demo/base.log", "-f", f"json:{tmp_path / 'now.json'}")
    now, then = (json.loads(path.read_bytes()) for path in (tmp_path / "now.json", release / "scan.json"))
    assert set(_fields(then)) <= set(_fields(now))


def _fields(document: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Each field that has a value, with its type; an integer may become a number."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from _fields(value, f"{at}.{name}")
    elif isinstance(document, list):
        for value in document:
            yield from _fields(value, f"{at}[]")
    elif document is not None:
        yield at, type(document).__name__
