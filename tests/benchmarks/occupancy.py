"""Occupancy of a million configurations, as a ratio to NVIDIA's own header in C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from spillscan.occupancy.table import occupancy_table  # noqa: E402
from tests.oracle import occupancy_header as header  # noqa: E402

ROWS = 1_000_000


def best_of(run: Callable[[], object], times: int = 5) -> float:
    """CPU seconds of the fastest of some runs."""
    seconds = []
    for _ in range(times):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return min(seconds)


def report() -> str:
    """One line: seconds here, seconds of the header, their ratio."""
    rows = header.configurations(ROWS, seed=11)
    columns = header.columns(rows)
    library = header.build()
    ours = best_of(lambda: occupancy_table(columns))
    theirs = best_of(lambda: header.ask(library, rows, only_resident=True))
    return (
        f"occupancy, {ROWS:,} configurations on one core: {ours:.2f} s; cuda_occupancy.h in C {theirs:.2f} s;"
        f" ratio {ours / theirs:.1f}"
    )


if __name__ == "__main__":
    print(report())
