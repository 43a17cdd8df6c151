"""Speed of the SASS reader as ratios in one run: against rg, grep and awk, page cache hot.

    python -m tests.benchmarks.sass_bench [DUMP...] [--rounds N]

Without a dump one is made of the fixtures, 250 MB by repetition: real dumps of large libraries say more. Each
candidate is measured once in every round; of its rounds the best counts, as whatever else runs on the machine can only
slow it down. Beside the time on the clock stand the seconds of processor time, of all its processes. The readers run in
processes of their own, forked after all imports: starting an interpreter is not in their time. Every record is made and
dropped. The functions that use local memory are also measured as a dump of their own: they cost most."""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from spillscan.reading import dumps as sass
from spillscan.reading.dumps.cuobjdump import Dump
from spillscan.reading.inputs.source import Source

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "sass"
AWK = "/Function :/ {name = $3} /STL|LDL/ {count[name]++} END {for (name in count) print name, count[name]}"
PATTERN = "STL|LDL"
SIZE = 250_000_000


class Cost(NamedTuple):
    """Of one run."""

    wall: float
    cpu: float
    peak_mb: int


def made(folder: Path) -> Path:
    """A dump of 250 MB from the fixtures."""
    from spillscan.reading.inputs import zstd

    parts = []
    for path in sorted(FIXTURES.glob("cuobjdump-*.sass*")):
        data = path.read_bytes()
        parts.append(zstd.decompress(data) if path.suffix == ".zst" else data)
    text = b"".join(parts)
    target = folder / "fixtures.sass"
    with target.open("wb") as stream:
        for _ in range(SIZE // len(text) + 1):
            stream.write(text)
    return target


def with_local_memory(path: Path, folder: Path) -> Path:
    """The functions of a dump that use local memory, again and again until there are 250 MB of them."""
    target = folder / f"{path.stem}-local.sass"
    with path.open("rb") as stream, target.open("wb") as out:
        text = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        arch = b""
        for match in re.finditer(rb"\tcode for [^\n]+\n|\t\tFunction : [^\n]+\n", text):
            if match[0].startswith(b"\tcode"):
                arch = match[0]
                continue
            end = text.find(b"\n", text.find(b"\t\t.....", match.end())) + 1
            function = text[match.start() : end]
            if re.search(rb" (?:STL|LDL)[. ]", function):
                out.write(b"\nFatbin elf code:\n================\n" + arch + function + b"\n\n")
            if out.tell() > SIZE:
                break
    if 0 < (size := target.stat().st_size) < SIZE:
        data = target.read_bytes()
        with target.open("ab") as out:
            for _ in range(SIZE // size):
                out.write(data)
    return target


def process(work: Callable[[], None], processors: int | None = None) -> Cost:
    """Run in a process of its own, as the command does: without garbage collection; on so many processors (default: on
    all)."""
    begin = time.perf_counter()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processors])
            gc.disable()
            work()
            status = 0
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    assert not status
    return Cost(time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024)


def from_file(path: Path) -> None:
    """The reader, into full records."""
    with Source(str(path)).open() as stream:
        for _ in Dump(stream.chunks(), str(path)):
            pass


def from_pipe(path: Path) -> None:
    """`cat DUMP | spillscan scan -`: what the command does with standard input."""
    with subprocess.Popen(("cat", str(path)), stdout=subprocess.PIPE) as cat:
        assert cat.stdout
        os.dup2(cat.stdout.fileno(), 0)
        cat.stdout.close()
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0)))
        with Source("-").open() as stream:
            for _ in sass.reader(stream.chunks(), "standard input"):
                pass


def command(*words: str) -> None:
    """A program; its output goes through a pipe, as grep stops early when it is thrown away."""
    subprocess.run(words, stdout=subprocess.PIPE, check=False)


def candidates(path: Path) -> dict[str, Callable[[], None]]:
    """Who is compared."""
    name = str(path)
    awk = "mawk" if shutil.which("mawk") else "awk"
    missing = {program for program in ("rg", "grep", awk) if not shutil.which(program)}
    found: dict[str, Callable[[], None]] = {
        "spillscan": lambda: from_file(path),
        "rg -c": lambda: command("rg", "-c", PATTERN, name),
        "grep -cE": lambda: command("grep", "-cE", PATTERN, name),
        awk: lambda: command(awk, AWK, name),
        "cat | spillscan": lambda: from_pipe(path),
        f"cat | {awk}": lambda: command("sh", "-c", f'cat "$0" | {awk} "$1"', name, AWK),
        "cat | grep -cE": lambda: command("sh", "-c", f'cat "$0" | grep -cE "{PATTERN}"', name),
    }
    return {who: work for who, work in found.items() if missing.isdisjoint(who.split())}


def best(found: list[Cost]) -> Cost:
    """The least of each."""
    return Cost(*(min(column) for column in zip(*found, strict=True)))


def measure(path: Path, rounds: int) -> None:
    """One dump."""
    runs = candidates(path)
    costs: dict[str, list[Cost]] = {name: [] for name in runs}
    from_file(path)
    for _ in range(rounds):
        for name, work in runs.items():
            costs[name].append(process(work))
    least = {name: best(found) for name, found in costs.items()}
    size = path.stat().st_size
    print(f"{path.name}: {size / 1e6:.0f} MB")
    for name, cost in least.items():
        line = f"  {name:18} {cost.wall:7.3f} s  {cost.cpu:7.3f} s cpu  {size / cost.wall / 1e6:6.0f} MB/s"
        if "spillscan" in name:
            others = (other for other in least if "spillscan" not in other and ("|" in other) == ("|" in name))
            line += f"  {cost.peak_mb} MB peak; " + ", ".join(
                f"{least[other].wall / cost.wall:.2f}x {other}" for other in others
            )
        print(line)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in arguments.dumps or [made(folder)]:
            measure(path, arguments.rounds)
            local = with_local_memory(path, folder)
            if local.stat().st_size:
                measure(local, arguments.rounds)
            with contextlib.suppress(FileNotFoundError):
                local.unlink()


if __name__ == "__main__":
    main()
