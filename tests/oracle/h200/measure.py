"""Time the programs of this folder at each register cap, as ``spillscan sweep --run`` does, and write a table.

    PYTHONPATH=REPOSITORY python3 measure.py FOLDER_OF_BINARIES TABLE.csv [RUNS]

Needs a GPU of compute capability 9.0; nothing but the standard library and spillscan. One row a program and cap: what
the driver says of the kernel, whether its result is right, every time.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

from spillscan.advice.sweep.timing import time_runs

CAPS = (32, 40, 48, 64, 80, 96, 128, 168, 255)
PROGRAMS = ("gemm", "stencil")
TOLD = ("registers", "local_bytes", "blocks_per_sm", "warps_per_sm", "worst_error", "result")
HEADER = ("program", "cap", *TOLD, "median_ms", "least_ms", "spread", "failure", "times_ms")


def reported(command: list[str]) -> dict[str, str]:
    """The ``name: value`` lines of one run."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found = dict(re.findall(r"^(\w+): (.*)$", done.stdout, re.MULTILINE))
    return {name: found.get(name, "") for name in TOLD}


def main() -> int:
    """0 where every program gave the right result at every cap."""
    folder, table = Path(sys.argv[1]), Path(sys.argv[2])
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    right = True
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for program in PROGRAMS:
            facts = {cap: reported([str(folder / f"{program}-{cap}")]) for cap in CAPS}
            timings = time_runs(f"{folder}/{program}-{{cap}}", CAPS, runs, 0, 300.0, measure=r"time_ms: ([\d.]+)")
            for cap, timing in zip(CAPS, timings, strict=True):
                figures = [timing.median, timing.least, timing.spread]
                shown = ["" if figure is None else f"{figure:.4f}" for figure in figures]
                times = " ".join(f"{figure:.4f}" for figure in timing.figures)
                writer.writerow([program, cap, *facts[cap].values(), *shown, timing.failure, times])
                file.flush()
                right = right and facts[cap]["result"] == "correct" and not timing.failure
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
