"""Audits that are killed with all their processes, or that find no room on the disk.

``python -m tests.history.audit.crashes [KILLS [FILES [SEED]]]`` (200 kills, 2,000 objects) is the whole of what the
tests do in part: after each kill all that was read more than :data:`REPEATED_SECONDS` ago is there, and what the last
run makes is what an audit makes that nobody disturbs. Exit status 1 where it is not.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conftest import ROOT
from tests.history.audit.support import kept, run
from tests.history.dataset.support import finished

REPEATED_SECONDS = 5.0
"""Of an audit's work are done again at most after a kill."""
AUDIT = "import sys; from tests.history.audit.support import run; run(*sys.argv[1:3], processes=2)"
SOURCES = sorted((ROOT / "fixtures" / "ptxas").glob("*.log"))


def objects(folder: Path, number: int) -> Path:
    """So many small logs, none like another."""
    folder.mkdir()
    for at in range(number):
        source = SOURCES[at % len(SOURCES)]
        (folder / f"{at:05}.log").write_bytes(source.read_bytes() + b"object %d\n" % at)
    return folder


def started(tree: Path, data: Path) -> subprocess.Popen[bytes]:
    """An audit, in a group of processes of its own."""
    return subprocess.Popen([sys.executable, "-c", AUDIT, tree, data], cwd=ROOT, start_new_session=True)


def killed(tree: Path, data: Path, seconds: float) -> float | None:
    """Kill an audit so many seconds after its first commit, or after its start where it must make none; how long before
    the last of its commits was, ``None`` where it was done. What was there before must be there still."""
    before = finished(str(data), "v1") if data.exists() else set()
    process = started(tree, data)
    records = len(list(data.rglob("*.json")))
    while process.poll() is None and len(list(data.rglob("*.json"))) <= records:
        time.sleep(0.05)
    time.sleep(seconds)
    if process.poll() is not None:
        return None
    moment = time.time()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert before <= finished(str(data), "v1"), "what was finished is lost"
    return moment - max(path.stat().st_mtime for path in data.rglob("*.json"))


def main() -> int:
    """Kill, go on, and compare."""
    kills, number, seed = (int(word) for word in (*sys.argv[1:], *("200", "2000", "1")[len(sys.argv) - 1 :]))
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = objects(folder / "tree", number)
        began = time.monotonic()
        run(tree, folder / "whole", processes=2)
        whole = time.monotonic() - began
        expected, repeated, at = kept(folder / "whole"), list[float](), 0
        print(f"{number:,} objects in {whole:.1f} s", flush=True)
        while len(repeated) < kills:
            data, at = folder / f"data{at}", at + 1
            while len(repeated) < kills and (late := killed(tree, data, dice.random() * whole / 3)) is not None:
                repeated.append(late)
            run(tree, data)
            if kept(data) != expected:
                print(f"seed {seed}: data{at - 1} differs")
                return 1
    most = max(repeated)
    print(f"{len(repeated)} kills of {at} audits: nothing lost, nothing twice; {most:.1f} s of work repeated at most")
    return int(most > REPEATED_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
