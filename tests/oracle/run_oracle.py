"""All builds of ``tests/builds/builds.yaml`` with a real nvcc under ``spillscan run``. Not part of `make test`.

    python -m tests.oracle.run_oracle [NAME ...]

A build whose tools are missing is left out, and said so. Exits with 1 if a gate says anything else than its row.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.builds.trial import ROWS, lacking, outcome


def main(names: list[str]) -> int:
    """Try all, or those whose names contain one of ``names``."""
    wrong = held = 0
    for row in ROWS:
        if names and not any(name in row.name for name in names):
            continue
        if missing := lacking(row):
            print(f"left out  {row.name}: no {missing}")
            continue
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            said = outcome(row, Path(folder))
        held += 1
        wrong += bool(said)
        print(f"{'WRONG' if said else 'right'}     {row.name}{': ' * bool(said)}{said}", flush=True)
    print(f"{held} builds, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
