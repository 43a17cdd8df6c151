"""Kills appends at random moments, with real processes, until enough kills fell inside one; then
harms each file of a dataset.

    python -m tests.oracle.dataset_oracle [KILLS] [SEED]

Moments are random in what an append was measured to take, from its first write to its last. After each kill
the dataset must open and hold every unit that was announced as finished; a last run must complete it. Exit status 1
where too few kills fell inside.

Each file, one at a time, is truncated, lost, or has one flipped bit: `verify` names it, and other builds answer as
before.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path

from spillscan.history.dataset.reading import verify
from tests.history.dataset import killing
from tests.history.dataset.support import BASE, HEAD, append, files, held


def make(root: Path) -> None:
    """Two builds, one of them of two commits."""
    append(root, "v1", BASE)
    append(root, "v2", BASE)
    append(root, "v2", HEAD)


def ways(rng: random.Random, data: bytes) -> list[bytes | None]:
    """Truncated, lost, with one flipped bit."""
    at = rng.randrange(len(data))
    return [data[:at], None, data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]]


def damage(folder: Path, rng: random.Random) -> int:
    """Harm each file of a dataset in each way; how often that was."""
    count = 0
    sound, work = folder / "sound", folder / "work"
    make(sound)
    before = held(sound)
    for name, data in files(sound).items():
        for bad in ways(rng, data):
            count += 1
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(sound, work)
            if bad is None:
                (work / name).unlink()
            else:
                (work / name).write_bytes(bad)
            found = verify(str(work))
            if not found:  # white space of a record; or a lost record, of a batch that then never was
                assert bad is None or held(work) == before, f"{name}: damaged in silence"
                continue
            assert [each.path for each in found] == [name], found
            others = {label: kept for label, kept in before.items() if label not in found[0].labels}
            now = held(work)
            assert {label: now[label] for label in others} == others, f"{name}: another build differs"
    return count


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
    with tempfile.TemporaryDirectory() as folder:
        print(f"files harmed {damage(Path(folder), rng)} times: each named, the others answer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
