"""Time the programs of this folder at each register cap, and write a table.

    python3 measure.py FOLDER_OF_BINARIES TABLE.csv [RUNS]

Needs a GPU of compute capability 9.0; nothing but the standard library. One row a program and cap: what
the driver says of the kernel, whether its result is right, every time.
"""

from __future__ import annotations

import csv
import re
import statistics
import subprocess
import sys
from pathlib import Path

CAPS = (32, 40, 48, 64, 80, 96, 128, 168, 255)
PROGRAMS = ("gemm", "stencil")
TOLD = ("registers", "local_bytes", "blocks_per_sm", "warps_per_sm", "worst_error", "result")
HEADER = ("program", "cap", *TOLD, "median_ms", "least_ms", "spread", "times_ms")


def reported(command: list[str]) -> dict[str, str]:
    """The ``name: value`` lines of one run."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return dict(re.findall(r"^(\w+): (.*)$", done.stdout, re.MULTILINE))


def main() -> int:
    """0 where every program gave the right result at every cap."""
    folder, table = Path(sys.argv[1]), Path(sys.argv[2])
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    right = True
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER)
        for program in PROGRAMS:
            said = {cap: reported([str(folder / f"{program}-{cap}")]) for cap in CAPS}
            facts = {cap: {name: each.get(name, "") for name in TOLD} for cap, each in said.items()}
            times: dict[int, list[float]] = {cap: [] for cap in CAPS}
            for _ in range(runs):  # round by round, so that a drift of the clock meets every cap
                for cap in CAPS:
                    times[cap].append(float(reported([str(folder / f"{program}-{cap}")])["time_ms"]))
            for cap, found in times.items():
                median = statistics.median(found)
                figures = (median, min(found), (max(found) - min(found)) / median)
                shown = [f"{figure:.4f}" for figure in figures]
                writer.writerow([program, cap, *facts[cap].values(), *shown, " ".join(f"{time:.4f}" for time in found)])
                file.flush()
                right = right and facts[cap]["result"] == "correct"
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
