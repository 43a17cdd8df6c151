"""Appends that are killed at a random moment, in a process of their own.

``python -m tests.dataset.killing ROOT`` appends the units of :func:`results`, a batch at a time, and says which are
done, as an audit does that resumes.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from spillscan.dataset import Unit, finished, load_build, open_dataset, write_batch
from spillscan.model import Build
from tests.conftest import ROOT
from tests.identity import generator

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


def append(root: str) -> None:
    """All units that are not there yet, announced batch by batch."""
    done = finished(root, LABEL)
    left = [(unit, build) for unit, build in results() if (unit.uri, unit.content_hash) not in done]
    print("ready", flush=True)
    for start in range(0, len(left), BATCH):
        batch = left[start : start + BATCH]
        write_batch(root, LABEL, batch, {"time": "2026-03-01"})
        print(*(unit.uri for unit, _ in batch), flush=True)


def kill_once(root: Path, moment: float) -> int:
    """Append, kill it ``moment`` seconds after it began to write, check what is left; returns how many units are."""
    before = set() if not root.exists() else {uri for uri, _ in finished(str(root), LABEL)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.dataset.killing", str(root)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    announced = {uri for line in process.stdout for uri in line.split()}
    process.wait()
    process.stdout.close()
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


def moments(seed: int, count: int, longest: float) -> list[float]:
    """When to kill."""
    rng = random.Random(seed)
    return [rng.uniform(0, longest) for _ in range(count)]


if __name__ == "__main__":
    append(sys.argv[1])
