"""One tree audited by a single process: the reference for all other ways."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from spillscan.history.audit import Summary
from tests.history.audit.support import run, tree


@dataclass(frozen=True)
class Reference:
    tree: Path
    data: Path
    summary: Summary


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tmp_path_factory.mktemp("audit")
    tree(folder / "tree")
    return Reference(folder / "tree", folder / "data", run(folder / "tree", folder / "data"))
