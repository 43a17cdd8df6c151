"""Kills appends at random moments, with real processes, until enough kills fell inside an append.

    python -m tests.oracle.dataset_oracle [KILLS] [SEED]

Moments are random in what an append was measured to take, from its first write to its last. After each kill
the dataset must open and hold every unit that was announced as finished; a last run must complete it. Exit status 1
where too few kills fell inside.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from tests.history.dataset import killing


def main() -> int:
    """Print how many units each kill left."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    inside: list[int] = []
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        whole = min(killing.span(Path(folder) / f"whole{number}") for number in range(3))
        root, there = Path(folder) / "0", 0
        while len(inside) < count and missed < 4 * count:
            left = killing.kill_once(root, seconds=rng.random() * whole * (killing.UNITS - there) / killing.UNITS)
            if left.killed:
                inside.append(left.units)
            else:
                missed += 1
            there = left.units
            if there > killing.UNITS // 2 or len(inside) == count:
                killing.complete(root)
                root, there = Path(folder) / str(len(inside) + missed), 0
    print(f"killed {len(inside)} appends of {killing.UNITS} units inside, {missed} too late; left were {inside}")
    if len(inside) < count:
        return 1
    print("nothing lost, nothing twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
