"""One tree, audited by one process: what every other way must come to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from spillscan.history.audit import Summary, pool
from spillscan.history.audit.messages import Batch, FileOutcome
from tests.history.audit.support import run, tree


class KeptWorker(pool.Worker):
    """Its process, where nothing was left undone, is that of the next audit in the same surroundings: to start one, and
    to import what it needs, takes a second."""

    _kept: tuple[object, subprocess.Popen[bytes]] | None = None

    def __init__(self, processors: int) -> None:
        super().__init__(processors)
        own = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        self._surroundings = (processors, os.getcwd(), [*sys.path], own)
        self._idle = False
        kept, KeptWorker._kept = KeptWorker._kept, None
        if kept is not None:
            if kept[0] == self._surroundings:
                self._process = kept[1]
            else:
                kept[1].kill()
                pool._ended(kept[1])

    def _attempt(self, batch: Batch, report: Callable[[FileOutcome], None]) -> pool._Death | None:
        self._idle = False
        death = super()._attempt(batch, report)
        self._idle = death is None
        return death

    def stop(self) -> None:
        if self._idle and KeptWorker._kept is None and self._process is not None:
            KeptWorker._kept, self._process = (self._surroundings, self._process), None
        super().stop()


@pytest.fixture(scope="session", autouse=True)
def kept_workers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "Worker", KeptWorker)
        yield
    KeptWorker(0).stop()


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
