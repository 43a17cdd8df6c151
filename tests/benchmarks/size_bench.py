"""Speed of `spillscan size` on one file, as ratios in one run: against `spillscan scan`, and against cubloaty (PyPI)
where it is installed.

    python -m tests.benchmarks.size_bench [--rounds N] [LIBRARY…]

Without a library, one of 302 MB (cuSOLVER) is taken from PyPI. Each candidate is a whole process, start-up included;
candidates take turns, and of their rounds the best counts.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.oracle.binary_sources import libraries, wheel

WHEEL, PATTERN = "nvidia-cusolver-cu12==11.7.5.82", "*libcusolver.so*"


def seconds(command: list[str]) -> float:
    """What one run takes on the clock."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def measure(path: Path, rounds: int) -> None:
    """Print one file's figures."""
    commands = {name: [sys.executable, "-m", "spillscan", name, str(path)] for name in ("size", "scan")}
    if other := shutil.which("cubloaty"):
        commands["cubloaty"] = [other, str(path)]
    best = {name: min(times) for name, times in _timed(commands, rounds).items()}
    print(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB")
    for name, taken in best.items():
        print(f"  {name:9} {taken:7.2f} s   size takes {best['size'] / taken:.2f} of it")


def _timed(commands: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(seconds(command))
    return found


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for path in arguments.libraries:
        measure(path, arguments.rounds)
    if not arguments.libraries:
        with tempfile.TemporaryDirectory() as folder:
            for path in libraries(wheel(WHEEL, None), PATTERN, Path(folder)):
                measure(path, arguments.rounds)


if __name__ == "__main__":
    main()
