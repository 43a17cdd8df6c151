"""Terms of very many kernels under a policy of many globs: as a ratio to demangling their names, in one run."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from spillscan.judging.policy import Policy  # noqa: E402
from spillscan.judging.policy.effective import Layer, Override, Setting  # noqa: E402
from spillscan.model import Kernel, KernelKey, Usage  # noqa: E402
from spillscan.model.symbols import demangle, short_name  # noqa: E402

ROUNDS = 5
KERNELS = 100_000
SPACES = ("flash", "cutlass", "at6native", "thrust")
SHAPES = ("gemm_{}", "*kernel_{}*", "flash::gemm_{}<*", "re:.*gemm_{}\\b.*", "*gemm*_{}<{}, 4*", "void cutlass::*")


def kernels(count: int) -> list[Kernel]:
    """Templates of a few namespaces, every symbol another."""
    found = []
    for number in range(count):
        space, name = SPACES[number % 4], f"gemm_{number % 977}"
        symbol = f"_ZN{len(space)}{space}{len(name)}{name}ILi{number}ELi{number % 64}E6__halffEEvPT1_PKS1_S4_i"
        key = KernelKey(symbol=symbol, arch="sm_90a", unit=f"src/{number % 300}.o")
        found.append(Kernel(key=key, role="entry", usage=Usage(registers=32)))
    return found


def policy(globs: int) -> Policy:
    """Entries of every shape of pattern."""
    entries = tuple(
        Override(
            match=(SHAPES[number % len(SHAPES)].format(number, number),),
            arch=("sm_9*",),
            settings={"max_registers": Setting(number, "bench")},
        )
        for number in range(globs)
    )
    return Policy((Layer(entries=entries),))


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Print the figures."""
    every = kernels(KERNELS)
    met = policy(50)
    works: dict[str, Callable[[], object]] = {
        "names alone": lambda: [(demangle(each.key.symbol), short_name(each.key.symbol)) for each in every],
        "10 globs": lambda: list(map(policy(10).terms_of, every)),
        "50 globs": lambda: list(map(policy(50).terms_of, every)),
        "50 globs, names met before": lambda: list(map(met.terms_of, every)),
    }
    works["50 globs, names met before"]()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            times[name].append(seconds(work))
    medians = {name: statistics.median(each) for name, each in times.items()}
    for name, median in medians.items():
        print(f"{name:28} {median:6.2f} s  {median / medians['names alone']:5.2f} x  of {KERNELS:,} kernels")


if __name__ == "__main__":
    main()
