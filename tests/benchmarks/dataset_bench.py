"""A dataset of 10,000 to 1,000,000 kernels: what an append, the worst kernels and one kernel's history cost.

    python -m tests.benchmarks.dataset_bench [KERNELS...]
    python -m tests.benchmarks.dataset_bench many [BUILDS KERNELS]

``many``: many builds of few kernels (1,000 of 40, then of 1,000), compacted: bytes a build, the first and the last
append, and what the commands take, start included.

Builds of 5,000 kernels of two archs; a quarter have machine code figures of a real cubin; from build to build 2 % of
the records and 1 % of the names change. Each size is a process of its own. Seconds are CPU time (user and system, all
threads) and wall time; questions are asked of a dataset that was just opened, by packages that are loaded. A last line
gives the cost a kernel of each size as a ratio to the smallest.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from spillscan import scan
from spillscan.history.dataset import Unit, load_build, open_dataset, write_batch
from spillscan.history.dataset.answers import rank
from spillscan.history.dataset.history import histories
from spillscan.model import Build, Kernel, KernelKey
from spillscan.occupancy.launches import LaunchMap
from tests.naming.identity import generator

SIZES = (10_000, 100_000, 1_000_000)
PER_BUILD = 5_000
CUBIN = Path("fixtures/binary/sass-sm_80-13.5.cubin.zst")


def builds(kernels: int, size: int = PER_BUILD) -> Iterator[Build]:
    """Builds of one size of that many kernels together."""
    rng = random.Random(1)
    codes = [kernel.sass for kernel in scan(CUBIN).kernels]
    case = generator.make(1, templates=max(10, size // 4))
    now = [
        replace(kernel, sass=codes[at % len(codes)]) if at % 4 == 0 else kernel
        for at, kernel in enumerate((case.base + case.head)[:size])
    ]
    assert len(now) == size
    for number in range(max(1, kernels // size)):
        yield Build(kernels=tuple(now))
        now = [_later(rng, kernel, number) for kernel in now]


def _later(rng: random.Random, kernel: Kernel, number: int) -> Kernel:
    fate = rng.random()
    if fate < 0.02:
        return replace(kernel, usage=generator.later(rng, kernel.usage))
    if fate < 0.03:
        key = kernel.key
        return replace(kernel, key=KernelKey(symbol=f"{key.symbol}{'i' * (number % 3 + 1)}", arch=key.arch))
    return kernel


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """(CPU, wall) seconds of ``work``."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def measure(kernels: int) -> None:
    """Print the figures of one size."""
    gc.disable()  # as the command does
    with tempfile.TemporaryDirectory() as folder:
        root = f"{folder}/data"
        append = [0.0, 0.0]
        for number, build in enumerate(builds(kernels)):
            unit = Unit(uri="build.log", content_hash=f"{number:x}")
            for at, seconds in enumerate(spent(lambda unit=unit, build=build: put(root, unit, build))):  # type: ignore[misc]
                append[at] += seconds
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        size = sum(path.stat().st_size for path in Path(root).rglob("*.parquet"))
        newest = open_dataset(root).labels[-1]
        symbol = build.kernels[0].key.symbol
        open_dataset(root).query("SELECT 1").fetchall()
        questions = {
            "top": lambda: rank(open_dataset(root), newest, "spills", 25, LaunchMap()),
            "top of all": lambda: open_dataset(root).query(TOP).fetchall(),
            "trend": lambda: _trend(root, symbol),
            "trend by glob": lambda: _trend(root, "*softmax*float*"),
            "a build back": lambda: load_build(root, newest),
        }
        times = [append, *(min(spent(work) for _ in range(3)) for work in questions.values())]
        print(kernels, f"{peak:.0f}", size, *(f"{cpu:.3f} {wall:.3f}" for cpu, wall in times))


TOP = "SELECT label, symbol, arch, spill_bytes FROM kernels ORDER BY spill_bytes DESC, symbol, arch, label LIMIT 25"
NAMES = ("append", "top of a build", "top of all", "trend", "trend by glob", "a build back")


def put(root: str, unit: Unit, build: Build) -> None:
    """Append one build."""
    write_batch(root, f"b{int(unit.content_hash, 16):04}", [(unit, build)], {})


def _trend(root: str, pattern: str) -> None:
    dataset = open_dataset(root)
    assert histories(dataset, dataset.builds, pattern, LaunchMap())


MANY = ((1000, 40), (1000, 1000))
ASKED = {"trend": (), "trend --last 10": ("--last", "10")}


def many(number: int, kernels: int) -> None:
    """Print what many small builds cost."""
    with tempfile.TemporaryDirectory() as folder:
        root = f"{folder}/data"
        appends = []
        for at, build in enumerate(builds(number * kernels, kernels)):
            unit = Unit(uri="build.log", content_hash=f"{at:x}")
            appends.append(spent(lambda unit=unit, build=build: put(root, unit, build))[0])  # type: ignore[misc]
        symbol = build.kernels[0].key.symbol
        print(f"{number:,} builds of {kernels:,} kernels", flush=True)
        first, last = (sum(some) / len(some) for some in (appends[1:21], appends[-20:]))
        print(f"  {'append':<20} {first:8.3f} s CPU of the first, {last:.3f} s of the last")
        for state in ("as appended", "compacted"):
            if state == "compacted":
                print(f"  {'compact':<20} {_command('dataset', 'compact', '-d', root)}")
            size = sum(path.stat().st_size for path in Path(root).rglob("*"))
            print(f"  {state}: {size / number / 1000:.2f} KB a build, {size / number / kernels:.1f} B a kernel")
            for name, words in ASKED.items():
                print(f"  {name:<20} {_command('trend', symbol, '-d', root, *words)}", flush=True)


def _command(*words: str) -> str:
    """What a command takes."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "spillscan", *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    wall = time.perf_counter() - begin
    return f"{used.ru_utime + used.ru_stime:8.3f} s CPU {wall:8.3f} s wall {used.ru_maxrss / 1024:5.0f} MB"


def main() -> None:
    """A line a size, a ratio a question."""
    if sys.argv[1:2] == ["many"]:
        asked = [int(word) for word in sys.argv[2:4]]
        for number, kernels in [(asked[0], asked[1])] if asked else MANY:
            many(number, kernels)
        return
    sizes = [int(word) for word in sys.argv[1:]] or list(SIZES)
    appends = []
    for size in sizes:
        command = [sys.executable, "-c", f"from tests.benchmarks.dataset_bench import measure; measure({size})"]
        words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        kernels, peak, stored = int(words[0]), words[1], int(words[2])
        print(
            f"{kernels:,} kernels in {max(1, kernels // PER_BUILD)} builds: {stored / kernels:.0f} B a kernel on disk"
        )
        times = [(float(words[at]), float(words[at + 1])) for at in range(3, len(words), 2)]
        for name, (cpu, wall) in zip(NAMES, times, strict=True):
            print(f"  {name:<16} {cpu:8.3f} s CPU {wall:8.3f} s wall")
        print(f"  {'peak memory':<16} {peak:>8} MB")
        appends.append(times[0][0] / kernels)
    ratios = "  ".join(f"{each / appends[0]:.2f}" for each in appends)
    print(f"append, CPU seconds a kernel against the smallest size: {ratios}")


if __name__ == "__main__":
    main()
