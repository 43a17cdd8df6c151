"""Audits that are killed with all their processes, or that find no room on the disk.

``python -m tests.history.audit.crashes [KILLS [FILES [SEED [WHERE]]]]`` (200 kills, 2,000 objects, into a ``folder``)
is the whole of what the tests do in part: after each kill all that was read more than :data:`REPEATED_SECONDS` ago is
there, and what the last run makes is what an audit makes that nobody disturbs. Exit status 1 where it is not. WHERE:
``s3``, an object store of which one call in ten fails; ``disk``, one that is full again and again instead of kills;
``dask``, a cluster of four workers of which two are killed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path

from spillscan.history.dataset import records
from spillscan.history.dataset.reading import verify
from spillscan.history.dataset.store import Store
from spillscan.output.errors import SpillscanError
from tests.conftest import ROOT
from tests.history.audit.support import kept, run
from tests.history.dataset.support import finished

REPEATED_SECONDS = 5.0
"""Of an audit's work are done again at most after a kill."""
AUDIT = (
    "import sys; from tests.history.audit.support import run; "
    "run(*sys.argv[1:3], **({'scheduler': sys.argv[3]} if sys.argv[3:] else {'processes': 2}))"
)
SOURCES = sorted((ROOT / "fixtures" / "ptxas").glob("*.log"))


def objects(folder: Path, number: int) -> Path:
    """So many small logs, none like another."""
    folder.mkdir()
    for at in range(number):
        source = SOURCES[at % len(SOURCES)]
        (folder / f"{at:05}.log").write_bytes(source.read_bytes() + b"object %d\n" % at)
    return folder


def started(tree: Path, data: Path | str, *words: str) -> subprocess.Popen[bytes]:
    """An audit, in a group of processes of its own."""
    return subprocess.Popen([sys.executable, "-c", AUDIT, tree, data, *words], cwd=ROOT, start_new_session=True)


def commits(data: Path | str) -> list[float]:
    """When each commit of a dataset was made."""
    return [datetime.fromisoformat(each.time).timestamp() for each in records.load(Store(str(data))).commits]


def killed(tree: Path, data: Path | str, seconds: float) -> float | None:
    """Kill an audit so many seconds after its first commit, or after its start where it must make none; how long before
    the last of its commits was, ``None`` where it was done. What was there before must be there still."""
    records = len(commits(data))
    before = finished(str(data), "v1")
    process = started(tree, data)
    while process.poll() is None and len(commits(data)) <= records:
        time.sleep(0.05)
    time.sleep(seconds)
    if process.poll() is not None:
        return None
    moment = time.time()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert before <= finished(str(data), "v1"), "what was finished is lost"
    return moment - max(commits(data))


@contextmanager
def disk(folder: Path) -> Iterator[Callable[[int], None]]:
    """A file system at ``folder``, and what makes it so many bytes large. Only root may."""
    folder.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder), check=True)
    try:
        yield lambda size: subprocess.run(("mount", "-o", f"remount,size={size}", folder), check=True) and None
    finally:
        subprocess.run(("umount", "-l", folder), check=True)


def filled(folder: Path, tree: Path, dice: random.Random, often: int, expected: object) -> str:
    """Audits for which there is no room until there is."""
    times, audits = 0, 0
    while times < often:
        place, audits = folder / f"disk{audits}", audits + 1
        with disk(place) as grow:
            data, size = place / "data", 64 << 10
            before: frozenset[tuple[str, str]] = frozenset()
            while True:
                size += dice.randrange(16 << 10, 256 << 10)
                grow(size)
                try:
                    run(tree, data, processes=2)
                    break
                except SpillscanError as error:
                    if "No space left" not in str(error):
                        raise
                    times += 1
                there = finished(str(data), "v1")
                assert before <= there, "what was finished is lost"
                before = there
            assert verify(str(data)) == []
            assert kept(data) == expected, "another dataset"
    return f"{times} times no room in {audits} audits: nothing lost, nothing twice"


def clustered(folder: Path, tree: Path, dice: random.Random, often: int, expected: object, seconds: float) -> str:
    """Audits by a cluster that loses half of its workers."""
    from distributed import Client

    from tests.history.audit.test_cluster import cluster

    gone, audits = 0, 0
    while gone < often:
        place, audits = folder / f"cluster{audits}", audits + 1
        place.mkdir()
        with cluster(place, 4) as address, Client(address) as client:
            client.wait_for_workers(4)
            workers = sorted(client.run(os.getpid).values())
            process = started(tree, place / "data", address)
            for worker in dice.sample(workers, 2):
                time.sleep(dice.random() * seconds / 2)
                gone += process.poll() is None
                os.kill(worker, signal.SIGKILL)
            assert process.wait() == 0
        assert kept(place / "data") == expected, "another dataset"
    return f"{gone} workers of {audits} audits killed: nothing lost, nothing twice"


def main() -> int:
    """Kill, go on, and compare."""
    words = sys.argv[1:]
    kills, number, seed = (int(word) for word in (*words[:3], *("200", "2000", "1")[len(words) :]))
    where = words[3] if words[3:] else "folder"
    dice = random.Random(seed)
    from tests.history.audit.test_stores import object_store

    with tempfile.TemporaryDirectory() as name, object_store(10) if where == "s3" else nullcontext():
        folder = Path(name)
        tree = objects(folder / "tree", number)
        began = time.monotonic()
        run(tree, folder / "whole", processes=2)
        whole = time.monotonic() - began
        expected, repeated, at = kept(folder / "whole"), list[float](), 0
        print(f"{number:,} objects in {whole:.1f} s", flush=True)
        if where == "disk":
            print(filled(folder, tree, dice, kills, expected))
            return 0
        if where == "dask":
            print(clustered(folder, tree, dice, kills, expected, whole))
            return 0
        base = str(folder)
        if where == "s3":
            import s3fs

            from spillscan.history.audit.stores import retried

            retried(lambda: s3fs.S3FileSystem().mkdir("nightly"))
            base = "s3://nightly"
        while len(repeated) < kills:
            data, at = f"{base}/data{at}", at + 1
            while len(repeated) < kills and (late := killed(tree, data, dice.random() * whole / 3)) is not None:
                repeated.append(late)
            run(tree, data)
            if kept(data) != expected:
                print(f"seed {seed}: data{at - 1} differs")
                return 1
            print(f"{len(repeated)} kills of {at} audits", flush=True)
    most = max(repeated)
    print(f"{len(repeated)} kills of {at} audits: nothing lost, nothing twice; {most:.1f} s of work repeated at most")
    return int(most > REPEATED_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
