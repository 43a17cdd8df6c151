"""Speed of an audit: files a second by one and two processes, and by two Dask workers against the two processes.

    python -m tests.benchmarks.audit_bench [--files N] [--rounds N]

Ways take turns in each round; the figures are medians, and CPU seconds (user and system, of all processes that the
command starts) stand beside the wall's. The bar: two Dask workers, which run already, take at most 1.3 times as long as
two processes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.history.audit.support import tree
from tests.history.audit.test_cluster import cluster
from tests.oracle.audit_oracle import COPY_FILES

BAR = 1.3


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command and all that it starts."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"{' '.join(command)}: {status}"
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime


def main() -> int:
    """Measure all ways, and the second run, which finds everything finished."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    walls: dict[str, list[float]] = defaultdict(list)
    cpus: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="bench-") as name, cluster(Path(name), 2) as address:
        folder = Path(name)
        ways = {f"{count} process{'es' * (count > 1)}": ["--jobs", str(count)] for count in (1, 2)}
        ways["2 Dask workers"] = ["--scheduler", address]
        tree(folder / "tree", -(-arguments.files // COPY_FILES))
        files = sum(path.is_file() for path in (folder / "tree").rglob("*"))
        audit = [
            sys.executable,
            "-m",
            "spillscan",
            "history",
            "audit",
            str(folder / "tree"),
            "--label",
            "v1",
            "--dataset",
        ]
        for _ in range(arguments.rounds):
            for way, options in ways.items():
                data = folder / "data"
                shutil.rmtree(data, ignore_errors=True)
                for kind, command in (
                    (way, [*audit, str(data), *options]),
                    (f"{way}, again", [*audit, str(data), *options]),
                ):
                    wall, cpu = timed(command)
                    walls[kind].append(wall)
                    cpus[kind].append(cpu)
    for kind, seconds in walls.items():
        wall, cpu = statistics.median(seconds), statistics.median(cpus[kind])
        print(f"{kind:24} {files / wall:7.0f} files/s  {wall:6.2f} s wall  {cpu:6.2f} s CPU")
    pairs = zip(walls["2 Dask workers"], walls["2 processes"], strict=True)
    ratio = statistics.median(dask / pool for dask, pool in pairs)
    print(f"Dask over the pool: {ratio:.2f} times the wall (bar {BAR})")
    return 0 if ratio <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
