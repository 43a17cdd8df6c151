"""Lines as long as the file: each piece is read once. Read twice over, they would take hours."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT, sized

pytest.importorskip("resource")

LONGEST_CPU_SECONDS = 40
"""The processor's, for all lines; a second is enough. Who goes back to the beginning at each piece needs minutes."""

SIZE = sized(200_000, 1_000_000)
READ = f"""
import io, resource
from spillscan.reading import logs
from spillscan.reading.inputs.source import Stream

resource.setrlimit(resource.RLIMIT_CPU, ({LONGEST_CPU_SECONDS}, {LONGEST_CPU_SECONDS}))
WAITS = "ptxas info    : Function properties for f\\n    1 bytes stack frame, "
PIECES = (
    "a_b1", "1: error: ", "ptxas ", "ptxas x, line 1", "nvlink a, line 1", " [proj::", "\\x1b]", " ", WAITS + " ",
    "sed 1 registers,", "\\x1b[8mha:////", "\\x9d", "50%\\r", "2026-05-01T12:34:56Z ", "[12:34:56]W:\\t [", "x\\t",
)
for piece in PIECES:
    for end in ("\\n", "; ptxas info    : \\n"):
        head, _, unit = piece.rpartition("frame, ")
        line = (head + "frame, " if head else "") + unit * ({SIZE} // len(unit)) + end
        with Stream(io.BytesIO(b"ptxas info    : \\n" + line.encode()), "x.log") as stream:
            print(logs.read(stream, "x.log").stats.lines, flush=True)
"""


@pytest.mark.oracle
def test_long_lines_come_to_an_end() -> None:
    done = subprocess.run([sys.executable, "-c", READ], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"stopped after {len(done.stdout.split())} lines: {done.stderr}"
    assert set(done.stdout.split()) == {"2", "3"}
