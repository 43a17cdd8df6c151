"""Inputs that could cost more than they weigh: all families of the growth tests, larger, and a search by mutation.

    python -m tests.oracle.growth_oracle [SECONDS [SEED]]

First each family at n, 2n and 4n: the least of three times grows by no more than :data:`MOST_GROWTH` times as much as
the input. Then SECONDS (600) of mutation: lines that tools print are repeated, cut, joined and filled with what their
grammars look for; the slowest are mutated further. None may take more than a second for a megabyte. What does is
written to ``slow-SEED-N.log`` in the working folder. Exit status 1 where anything was found.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from spillscan.reading import dumps
from tests.conftest import read_log
from tests.counting import MOST_GROWTH, forget_lines
from tests.naming import test_growth as names
from tests.reading.dumps import test_growth as listings
from tests.reading.logs import test_growth as logs
from tests.reading.logs.test_examples import CASES

LEAST_SECONDS = 0.2
"""What takes less at the largest size is measured at twice the sizes: noise is of hundredths."""
MOST_BYTES = 4_000_000
MOST_SECONDS_PER_MB = 1.0
LARGE_BYTES = 60_000
"""Of a mutated input: what is done once, for any input, is a tenth of its second."""
PIECES = (
    " ",
    "'",
    '"',
    ",",
    ";",
    "(",
    "<",
    ">",
    "\t",
    "\r",
    "[1/9] ",
    "x: ",
    "0",
    "a",
    "/",
    "\\",
    "\x1b[",
    "info    : ",
)


def families() -> Iterator[tuple[str, Callable[[int], object], Callable[[int], int]]]:
    """(name, what to do with an input of a size, its bytes)."""
    for family, long in logs.LONG_LINES.items():
        for (tool, rule), line in logs.OF_EACH_RULE.items():
            made = lambda size, long=long, line=line: f"x\n{long(line, size)}\n"  # noqa: E731
            yield f"log: {tool}/{rule}: {family}", *_read(made)
    for family, many in logs.LOGS.items():
        yield f"log: {family}", *_read(lambda size, many=many: many(size // 50))
    for family, text in listings.LINES.items():
        for begin, end in ((listings.SASS, listings.SASS_END), (listings.TEXT, b"\n")):
            piece = len(text(1))
            dump = lambda size, of=text, begin=begin, end=end, piece=piece: begin + of(size // piece) + end  # noqa: E731
            work = lambda size, dump=dump: [*dumps.reader([dump(size)], "dump")]  # noqa: E731
            yield f"dump: {family}", work, lambda size, dump=dump: len(dump(size))
    for family, name in names.FAMILIES.items():
        for reader, read in names.READERS.items():
            yield f"name: {reader}: {family}", lambda size, read=read, name=name: read(name(size)), lambda size: size


def _read(made: Callable[[int], str]) -> tuple[Callable[[int], object], Callable[[int], int]]:
    return lambda size: read_log(made(size)), lambda size: len(made(size))


def seconds(work: Callable[[], object]) -> float:
    """The least of three times of the processor, each as the first of its process."""
    found = []
    for _ in range(3):
        forget_lines()
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def grows(work: Callable[[int], object], size_of: Callable[[int], int]) -> tuple[float, float]:
    """(growth of the second doubling over that of the input, seconds of a megabyte)."""
    size = 8_000
    while True:
        four = seconds(partial(work, 4 * size))
        if four >= LEAST_SECONDS or max(size, size_of(4 * size)) > MOST_BYTES:  # not all lines have what grows
            break
        size *= 2
    bytes_one, bytes_two, bytes_four = (size_of(times * size) for times in (1, 2, 4))
    rate = four / bytes_four * 1e6
    if four < LEAST_SECONDS:
        return 1.0, rate
    one, two = seconds(partial(work, size)), seconds(partial(work, 2 * size))
    wanted = (two - one) * (bytes_four - bytes_two) / max(bytes_two - bytes_one, 1)
    return (four - two) / max(wanted, LEAST_SECONDS / 4), rate


def mutated(dice: random.Random, text: str) -> str:
    """Another input, of :data:`LARGE_BYTES` at most."""
    at = dice.randrange(len(text) + 1)
    end = min(len(text), at + dice.choice((1, 3, 10, 40, 200)))
    piece = dice.choice((text[at:end], dice.choice(PIECES), dice.choice(CASES)[3], "\n"))
    times = dice.choice((1, 1, 3, 100, 10_000))
    kept = dice.choice((text[:at] + piece * times + text[at:], text[:at] + piece * times + text[end:]))
    return kept[:LARGE_BYTES] or "x"


def search(limit_s: float, seed: int) -> list[str]:
    """Inputs that take more than :data:`MOST_SECONDS_PER_MB`, as if none were smaller than :data:`LARGE_BYTES`."""
    dice = random.Random(seed)
    pool = [(0.0, line) for *_, line in CASES]
    slow: list[str] = []
    tried, end = 0, time.monotonic() + limit_s
    while time.monotonic() < end:
        text = mutated(dice, dice.choice(pool)[1])
        begin = time.process_time()
        read_log(text)
        taken = time.process_time() - begin
        tried += 1
        rate = taken / max(len(text), LARGE_BYTES) * 1e6
        if rate > MOST_SECONDS_PER_MB:
            least = seconds(lambda text=text: read_log(text)) / max(len(text), LARGE_BYTES) * 1e6  # type: ignore[misc]
            if least > MOST_SECONDS_PER_MB:
                slow.append(text)
                continue
        pool.append((rate, text))
        if len(pool) > 400:
            pool.sort(key=lambda each: -each[0])
            del pool[200 : 200 + len(pool) - 400]
    print(
        f"{tried:,} mutations of seed {seed}: the slowest {max(pool)[0]:.2f} s/MB; {len(slow)} above the bar",
        flush=True,
    )
    return slow


def main() -> int:
    """Print what grows too fast, and what is too slow."""
    limit, seed = (int(word) for word in (*sys.argv[1:], *("600", "1")[len(sys.argv) - 1 :]))
    gc.disable()
    logs.ready()
    wrong = count = 0
    for name, work, size_of in families() if limit else ():
        count += 1
        growth, rate = grows(work, size_of)
        for _ in range(3):  # the machine may be busy with something else
            if growth > MOST_GROWTH:
                growth, rate = min((growth, rate), grows(work, size_of))
        if growth > MOST_GROWTH:
            wrong += 1
            print(f"{name}: {growth:.2f} times linear, {rate:.2f} s/MB", flush=True)
    print(f"{count:,} families: {wrong} above {MOST_GROWTH} times linear", flush=True)
    slow = search(limit, seed)
    for number, text in enumerate(slow[:20]):
        Path(f"slow-{seed}-{number}.log").write_text(text, encoding="utf-8")
    return int(bool(wrong or slow))


if __name__ == "__main__":
    sys.exit(main())
