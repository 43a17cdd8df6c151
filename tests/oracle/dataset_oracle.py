"""Kills appends at random moments, with real processes, until each part of an append was hit many times.

    python -m tests.oracle.dataset_oracle [MOMENTS] [SEED]

After each kill the dataset must open and hold every unit that was announced as finished; a last run must complete it.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from tests.dataset import killing


def main() -> None:
    """Print how many units each kill left."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    left: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        killing.append(f"{folder}/whole")
        longest = 1.5 * (time.monotonic() - begin)
        root = Path(folder) / "0"
        for number in range(count):
            left.append(killing.kill_once(root, seconds=rng.uniform(0, longest)))
            if left[-1] == killing.UNITS or number == count - 1:
                killing.complete(root)
                root = Path(folder) / str(number + 1)
    print(f"killed {count} appends of {killing.UNITS} units; left were {left}; nothing lost, nothing twice")


if __name__ == "__main__":
    main()
