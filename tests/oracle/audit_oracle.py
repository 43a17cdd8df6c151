"""2,000 files, four ways: the dataset must be the same to the last figure. Not part of `make test`.

    python -m tests.oracle.audit_oracle [--files N]

One process, two processes, two Dask workers (a scheduler and workers that are processes of their own), and two Dask
workers of which one is killed with SIGKILL while it works. Exit status 1 where two of them differ.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from threading import Thread
from typing import Any

from tests.history.audit.support import kept, run, tree
from tests.history.audit.test_cluster import cluster

COPY_FILES = 54
"""What one copy of the tree holds."""


def kill_one(data: Path, killed: list[int]) -> None:
    """Kill a worker of the cluster as soon as it has written something."""
    end = time.monotonic() + 600
    while not any(data.rglob("*.json")) and time.monotonic() < end:
        time.sleep(0.02)
    victim = max(workers(), default=0)
    if victim:
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)


def workers() -> set[int]:
    """Processes of Dask workers that this one has started."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid() and b"dask" in words and b"worker" in words:
                found.add(int(folder.name))
    return found


def main() -> int:
    """Run all four and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oracle-") as name:
        folder = Path(name)
        tree(folder / "tree", -(-arguments.files // COPY_FILES))
        print(f"{sum(path.is_file() for path in (folder / 'tree').rglob('*')):,} files", flush=True)
        ways: dict[str, dict[str, Any]] = {"1 process": {"processes": 1}, "2 processes": {"processes": 2}}
        expected = None
        differing = 0
        killed: list[int] = []
        for way in (*ways, "2 Dask workers", "2 Dask workers, one killed"):
            data = folder / way.replace(" ", "-")
            began = time.monotonic()
            if way in ways:
                summary = run(folder / "tree", data, **ways[way])
            else:
                place = folder / f"cluster-{len(way)}"
                place.mkdir()
                with cluster(place, 2) as address:
                    killer = Thread(target=kill_one, args=(data, killed))
                    if "killed" in way:
                        killer.start()
                    summary = run(folder / "tree", data, scheduler=address)
                    if "killed" in way:
                        killer.join()
            seconds = time.monotonic() - began
            outcome = (summary.text(), *kept(data))
            expected = expected or outcome
            same = outcome == expected
            differing += not same
            print(
                f"{way:28} {summary.text().splitlines()[0]}  {seconds:6.1f} s  {'same' if same else 'DIFFERS'}",
                flush=True,
            )
        print(f"killed {len(killed)} worker")
    return 1 if differing or not killed else 0


if __name__ == "__main__":
    sys.exit(main())
