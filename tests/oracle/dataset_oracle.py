"""Kills appends at random moments, with real processes, until enough kills fell inside one; then
harms each file of three datasets.

    python -m tests.oracle.dataset_oracle [KILLS] [SEED]

Moments are random in what an append was measured to take, from its first write to its last. After each kill
the dataset must open and hold every unit that was announced as finished; a last run must complete it. Exit status 1
where too few kills fell inside.

Each file, one at a time, is truncated, lost, or has one flipped bit: `verify` names it, other builds answer as before,
`repair` ends it, and of what it restores nothing is wrong without being called unreadable.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from pathlib import Path

from spillscan.history.dataset import compaction, open_dataset
from spillscan.history.dataset.repair import repair, verify
from tests.history.dataset import killing
from tests.history.dataset.support import files
from tests.history.dataset.test_repair import held, make, make_shared, ways


def make_compacted(root: Path) -> None:
    """Builds of one file a table."""
    make(root)
    compaction.compact(open_dataset(str(root)))


def damage(folder: Path, rng: random.Random) -> int:
    """Harm each file of three datasets in each way; how often that was."""
    count = 0
    for maker in (make, make_compacted, make_shared):
        sound, work = folder / maker.__name__, folder / "work"
        maker(sound)
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
                if not found:
                    assert held(work) == before, f"{name}: damaged in silence"  # white space of a record
                    continue
                assert [each.path for each in found] == [name], found
                owners = set(found[0].labels) or (before.keys() - {"own"})  # a record of several is read by nobody
                others = {label: kept for label, kept in before.items() if label not in owners}
                if others:
                    now = held(work)
                    assert {label: now[label] for label in others} == others, f"{name}: another build differs"
                repair(str(work))
                assert verify(str(work)) == [], f"{name}: is not repaired"
                for label, build in held(work).items():
                    unread = any(issue["code"] == "unreadable" for issue in build["issues"])
                    said = label not in others and unread
                    assert build == before[label] or said, f"{name}: {label} is wrong"
                    assert all(each in before[label]["kernels"] for each in build["kernels"]), f"{name}: {label}"
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
        print(f"files harmed {damage(Path(folder), rng)} times: each named, the others answer, the rest is restored")
    return 0


if __name__ == "__main__":
    sys.exit(main())
