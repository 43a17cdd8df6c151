"""Pairing two builds: time a kernel and memory, from 10,000 to 1,000,000 kernels, as ratios between the sizes.

    python -m tests.benchmarks.pairing_bench [KERNELS...]

Each size is a process of its own. Of the kernels 5 % were renamed, added or removed. Times are CPU seconds of
``spillscan.diff`` alone; memory is what it adds to the two builds. A last line gives :func:`canonical`'s speed on names
that all have something to drop.
"""

from __future__ import annotations

import argparse
import gc
import resource
import subprocess
import sys
import time

from spillscan.judging.compare.pairing import diff
from spillscan.model import Build
from spillscan.naming.identity import canonical
from tests.naming.identity import generator

SIZES = (10_000, 100_000, 1_000_000)
PER_TEMPLATE = 7
"""Kernels that a template of the generator gives on average, at least."""


def builds(kernels: int) -> tuple[Build, Build]:
    """Two builds of that many kernels each."""
    case = generator.make(1, templates=kernels // PER_TEMPLATE + 1, changed=0.05)
    return Build(kernels=tuple(case.base[:kernels])), Build(kernels=tuple(case.head[:kernels]))


def measure(kernels: int) -> None:
    """Print kernels, CPU seconds, MB added and changes of one comparison."""
    base, head = builds(kernels)
    gc.disable()  # as the command does
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    changes = diff(base, head)
    spent = time.process_time() - begin
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024
    renamed = sum(change.state == "renamed" for change in changes)
    print(len(base.kernels), f"{spent:.3f}", f"{added:.0f}", len(changes), renamed)


def names(count: int) -> float:
    """CPU seconds of :func:`canonical` for ``count`` distinct names."""
    head, middle = "_ZN2at6native40_GLOBAL__N__", "_8_Shape_cu_49f7391c19CatArrayBatchedCopyIfjLi3ELi"
    tail = "_EEvPT_NS1_25CatArrInputTensorMetadataIS3_T0_XT2_EXT3_EEENS1_16TensorSizeStrideIS6_Lj4EEEiS6_"
    symbols = [f"{head}{n:08x}{middle}{n % 999}ELi1EZ4hostvEUlfE{n % 7}{tail}" for n in range(count)]
    canonical("_Z1fv__1")
    begin = time.process_time()
    for symbol in symbols:
        canonical(symbol)
    return time.process_time() - begin


def main() -> None:
    """Print a line a size."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kernels", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure(arguments.one)
        return
    first = None
    for size in arguments.kernels:
        command = [sys.executable, "-m", "tests.benchmarks.pairing_bench", "--one", str(size)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        kernels, spent, added = int(said[0]), float(said[1]), int(said[2])
        each = spent / kernels
        first = first or each
        print(
            f"{kernels:>9,} kernels: {spent:7.2f} s, {each * 1e6:5.1f} us a kernel ({each / first:4.2f} of the first), "
            f"{added:,} MB; {int(said[3]):,} changes, {int(said[4]):,} renamed"
        )
    print(f"canonical: {names(100_000):.2f} s for 100,000 names")


if __name__ == "__main__":
    main()
