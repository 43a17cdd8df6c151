"""Whether the reader of binaries keeps memory: the corpus, mutated, without atheris; what grows then is ours.

    python -m tests.fuzz.growth [EXECUTIONS]

Prints resident memory and what Python's allocator holds at the end of each tenth. Both must level off once the caches
(bounded, the largest 65,536 entries) are full; a run of libFuzzer grows on by what atheris itself keeps.
"""

from __future__ import annotations

import gc
import random
import sys
import tracemalloc
from pathlib import Path

from spillscan.model.code import SassFunction
from spillscan.model.serialize import sass_json, text
from spillscan.reading.binary import records

CORPUS = Path(__file__).parent / "corpus" / "binary"


def mutated(seed: bytes, dice: random.Random) -> bytes:
    """``seed`` with a few bytes changed, and now and then cut."""
    data = bytearray(seed)
    for _ in range(dice.randint(1, 6)):
        if data:
            data[dice.randrange(len(data))] = dice.choice((0, 1, 127, 255, dice.randrange(256)))
    return bytes(data[: dice.randrange(len(data) + 1)] if dice.random() < 0.1 else data)


def resident_kib() -> int:
    """Resident memory of this process (Linux)."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4


def main() -> None:
    """Run and print."""
    executions = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    seeds = [path.read_bytes() for path in sorted(CORPUS.iterdir())]
    dice = random.Random(1)
    tracemalloc.start()
    for number in range(1, executions + 1):
        for item in records.items(mutated(dice.choice(seeds), dice), "fuzz"):
            if isinstance(item, SassFunction):
                text(sass_json(item.stats))
        if number % max(1, executions // 10) == 0:
            gc.collect()
            held, most = tracemalloc.get_traced_memory()
            sizes = f"{resident_kib():,} KiB resident, {held >> 10:,} KiB held, {most >> 10:,} KiB most"
            print(f"{number:,} executions: {sizes}")


if __name__ == "__main__":
    main()
