"""Plants turns into long histories, and none into others, and holds ``history`` against them: terminal, page and JSON.

    python -m tests.oracle.turns_oracle [HISTORIES] [SEED] [BUILDS] [TURNS]

Of each history: what was planted, what is missed, what is said and not planted, and what got worse and is not on the
first screen; then 100 builds without a turn, of which nothing may be said. Exit status 1 where anything is.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

from tests.history.dataset.nightly import Nightly, judged, reported


def main() -> int:
    """Print each history."""
    count, seed, builds, turns = (int(word) for word in (*sys.argv[1:], *("5", "1", "300", "60")[len(sys.argv) - 1 :]))
    wrong = 0
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            made = Nightly(number, builds, random.Random(number).randrange(20, 80))
            made.plant(turns, machine=number % 3 == 0)
            made.write(Path(folder))
            found = judged(made, Path(folder))
        print(f"seed {number}: {builds} builds, {len(made.families)} families, {turns} turns, {dict(made.planted)}: ")
        for name, some in found._asdict().items():
            print(f"  {name}: {len(some)}", *some[:20], sep="\n    ", flush=True)
            wrong += len(some)
        with tempfile.TemporaryDirectory() as folder:
            Nightly(-number, 100, 40).write(Path(folder))
            false = reported(Path(folder)).turns
        print(f"  of 100 builds of noise: {len(false)}", *false, sep="\n    ", flush=True)
        wrong += len(false)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
