"""Holds settings of `spillscan sweep` against nvcc and ptxas that are run by hand. Not part of `make test`.

    python -m tests.oracle.sweep_oracle ['nvcc', '/opt/cuda-11.8/bin/nvcc -allow-unsupported-compiler' …]

Each source and command of tests/advice/sweep/sources.py, by each nvcc: the register limit and the launch bounds must
give what a person gets who writes them into the source, or be said to be tried in PTX; nothing may be left in the
project. Exit status 1 if anything differs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.advice.sweep.sources import COMMANDS, PLAIN, SOURCES, Source, wrong_with


def main() -> int:
    """Compile everything twice, and compare."""
    rows = SOURCES | {name: Source(PLAIN, command=command) for name, command in COMMANDS.items()}
    bad = 0
    for nvcc in sys.argv[1:] or ["nvcc"]:
        for name, source in rows.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    wrong = wrong_with(source, nvcc, Path(folder))
                except subprocess.CalledProcessError as error:  # such as a toolkit without libraries to link
                    print(f"{nvcc}: {name}: not compared, fails by hand: {error}", flush=True)
                    continue
            bad += bool(wrong)
            print(f"{nvcc}: {name}: {'; '.join(wrong) or 'right'}", flush=True)
    print(f"{len(rows):,} sources and commands, {bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
