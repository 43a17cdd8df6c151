"""Speed of the SASS reader as ratios in one run: against rg, grep, awk and plain Lark, page cache hot.

    python -m tests.benchmarks.sass_bench [DUMP...] [--rounds N]

Without a dump one is made of the fixtures, 250 MB by repetition: real dumps of large libraries say more. Each
candidate is measured once in every round, the medians are compared. Start of the interpreter and imports are not in
the reader's time; its Lark path and plain Lark read the first megabytes only.
"""

from __future__ import annotations

import argparse
import gc
import io
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spillscan.sass import lexemes
from spillscan.sass.dump import Dump

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "sass"
AWK = "/Function :/ {name = $3} /STL|LDL/ {count[name]++} END {for (name in count) print name, count[name]}"
SIZE = 250_000_000
LARK, LEXEMES = 16_000_000, 1_000_000


def made(folder: Path) -> Path:
    """A dump of 250 MB from the fixtures."""
    import zstandard

    parts = []
    for path in sorted(FIXTURES.glob("cuobjdump-*.sass*")):
        data = path.read_bytes()
        parts.append(zstandard.decompress(data) if path.suffix == ".zst" else data)
    text = b"".join(parts)
    target = folder / "fixtures.sass"
    with target.open("wb") as stream:
        for _ in range(SIZE // len(text) + 1):
            stream.write(text)
    return target


def whole(path: Path) -> float:
    """The reader, into full records, as the command runs it: without garbage collection."""
    gc.disable()
    begin = time.perf_counter()
    with path.open("rb", buffering=0) as stream:
        for _ in Dump(stream, str(path)):
            pass
    return time.perf_counter() - begin


def command(*words: str) -> Callable[[], float]:
    """A program; its output goes through a pipe, as grep stops early when it is thrown away."""

    def run() -> float:
        begin = time.perf_counter()
        subprocess.run(words, stdout=subprocess.PIPE, check=False)
        return time.perf_counter() - begin

    return run


def beginning(path: Path, size: int) -> bytes:
    """Whole functions from the beginning of a dump."""
    with path.open("rb") as stream:
        data = stream.read(size)
    end = data.rfind(b"\t\t..........")
    return data[: data.find(b"\n", end) + 1] if end > 0 else b""


def rate(data: bytes, read: Callable[[], object]) -> str:
    """Megabytes a second."""
    begin = time.perf_counter()
    read()
    return f"{len(data) / (time.perf_counter() - begin) / 1e6:.1f} MB/s"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in arguments.dumps or [made(Path(folder))]:
            measure(path, arguments.rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"peak memory of this process, plain Lark included: {peak} MB")


def measure(path: Path, rounds: int) -> None:
    """One dump."""
    others = {"rg -c": ("rg", "-c", "STL|LDL"), "grep -cE": ("grep", "-cE", "STL|LDL"), "awk": ("awk", AWK)}
    if shutil.which("mawk"):
        others["awk"] = ("mawk", AWK)
    runs = {name: command(*words, str(path)) for name, words in others.items() if shutil.which(words[0])}
    times: dict[str, list[float]] = {name: [] for name in ("spillscan", *runs)}
    whole(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    for _ in range(rounds):
        times["spillscan"].append(whole(path))
        for name, run in runs.items():
            times[name].append(run())
    median = {name: statistics.median(found) for name, found in times.items()}
    size = path.stat().st_size
    print(f"{path.name}: {size / 1e6:.0f} MB, peak memory {peak} MB")
    for name, seconds in median.items():
        ratio = f", spillscan has {seconds / median['spillscan']:.2f}x its speed" if name != "spillscan" else ""
        print(f"  {name:10} {seconds:7.3f} s  {size / seconds / 1e6:8.0f} MB/s{ratio}")
    part = beginning(path, LARK)
    print(f"  Lark path  {rate(part, lambda: list(Dump(io.BytesIO(part), str(path), 'lark')))}")
    small = beginning(path, LEXEMES)
    if small:
        print(f"  plain Lark {rate(small, lambda: lexemes.parse(small.decode()))} (a token a lexeme)")


if __name__ == "__main__":
    sys.exit(main())
