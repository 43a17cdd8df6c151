"""Holds histories in which it is known what happens against series and pairwise ``diff``.

    python -m tests.oracle.history_oracle [HISTORIES] [SEED] [BUILDS]

Exit status 1 if anything planted is not found, anything is invented, or the two disagree.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.history.dataset import planted


def main() -> int:
    """Print what was planted, and each disagreement."""
    count, seed, builds = (int(word) for word in (*sys.argv[1:], *("3", "1", "300")[len(sys.argv) - 1 :]))
    found = 0
    for number in range(seed, seed + count):
        made = planted.past(random.Random(number), builds, 40)
        with tempfile.TemporaryDirectory() as folder:
            planted.write(made, Path(folder))
            wrong = planted.disagreements(made, Path(folder))
        events = Counter(said.event for said in made.expected().elements())
        print(f"seed {number}: {builds} builds, {len(made.lives)} kernels, {dict(events)}: {len(wrong)} disagreements")
        for line in wrong[:20]:
            print(f"  {line}")
        found += len(wrong)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
