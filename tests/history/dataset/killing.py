"""Appends that are killed, in a process of their own.

``python -m tests.history.dataset.killing ROOT [CALL]`` appends the units of :func:`results`, a batch at a time, and
says which are done, as an audit does that resumes. With ``CALL`` it kills itself just before that call to the disk
(``fsync`` or ``replace``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from spillscan.history.dataset import Unit, load_build, open_dataset, write_batch
from spillscan.model import Build
from tests.conftest import ROOT
from tests.history.dataset.support import finished
from tests.naming.identity import generator

LABEL = "nightly"
UNITS, BATCH = 12, 2


def results() -> list[tuple[Unit, Build]]:
    """Units of about a hundred kernels each."""
    found = []
    for number in range(UNITS):
        build = generator.make(number, templates=30).builds()[0]
        content = sha256(repr(number).encode()).hexdigest()
        found.append((Unit(uri=f"lib{number:02}.so", content_hash=content, size_bytes=number), build))
    return found


def append(root: str, say: Callable[[str], None] = lambda text: None) -> None:
    """All units that are not there yet, announced batch by batch."""
    import pyarrow.parquet  # noqa: F401 - what follows is nothing but the append

    done = finished(root, LABEL)
    left = [(unit, build) for unit, build in results() if (unit.uri, unit.content_hash) not in done]
    say("ready")
    for start in range(0, len(left), BATCH):
        batch = left[start : start + BATCH]
        write_batch(root, LABEL, batch, {"time": "2026-03-01"})
        say(" ".join(unit.uri for unit, _ in batch))


def _started(root: Path, call: int) -> subprocess.Popen[str]:
    """An append that is about to write."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.history.dataset.killing", str(root), str(call)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def kill_once(root: Path, call: int) -> int:
    """Append, killed before a call to the disk; check what is left, and count its units."""
    before = set() if not root.exists() else {uri for uri, _ in finished(str(root), LABEL)}
    process = _started(root, call)
    assert process.stdout is not None
    announced = {uri for line in process.stdout for uri in line.split()}
    process.stdout.close()
    assert process.wait() == -signal.SIGKILL
    there = {uri for uri, _ in finished(str(root), LABEL)}
    assert before | announced <= there, "a finished unit is lost"
    if there:
        expected = {unit.uri: build for unit, build in results() if unit.uri in there}
        kept = load_build(str(root), LABEL).kernels
        assert kept == tuple(kernel for uri in sorted(expected) for kernel in expected[uri].kernels)
        assert open_dataset(str(root)).query("SELECT count(*) FROM kernels").fetchall() == [(len(kept),)]
    return len(there)


def complete(root: Path) -> None:
    """Run to the end; check that all is there."""
    append(str(root))
    whole = tuple(kernel for _, build in results() for kernel in build.kernels)
    assert load_build(str(root), LABEL) == replace(load_build(str(root), LABEL), kernels=whole, issues=())


def _die_before(call: int) -> None:
    """Let this process kill itself before its ``call``-th call to the disk."""
    calls = iter(range(1, call + 1))

    def counted(function: Callable[..., None]) -> Callable[..., None]:
        def counting(*words: object) -> None:
            if next(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            function(*words)

        return counting

    os.fsync, os.replace = counted(os.fsync), counted(os.replace)


if __name__ == "__main__":
    if int(sys.argv[2]):
        _die_before(int(sys.argv[2]))
    append(sys.argv[1], lambda text: print(text, flush=True))
