"""Inputs that could cost more than they weigh: all families of the growth tests, larger, and two searches.

    python -m tests.oracle.growth_oracle [SECONDS [SEED]]

First each family at n, 2n and 4n: the least of three times grows by no more than :data:`MOST_GROWTH` times as much as
the input. Then SECONDS (600) of mutation: lines that tools print are repeated, cut, joined and filled with what their
grammars look for; the slowest are mutated further. None may take more than :data:`MOST_SECONDS_PER_MB`. Then as long
again logs of one to three lines, each many times with other numbers: none may grow faster than a family, nor take more
than :data:`MOST_SECONDS_PER_MB_OF_LINES`. What is found is written to ``slow-SEED-N.log`` in the working folder. Exit
status 1 where anything was found.
"""

from __future__ import annotations

import ctypes
import gc
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from spillscan.reading import disassembly
from tests.conftest import read_log
from tests.counting import MOST_GROWTH, forget_lines
from tests.naming import test_growth as names
from tests.reading.disassembly import test_growth as listings
from tests.reading.logs import test_growth as logs
from tests.reading.logs.test_examples import CASES

LEAST_SECONDS = 0.2
"""What takes less at the largest size is measured at twice the sizes: noise is of hundredths."""
MOST_BYTES = 4_000_000
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Numbers of ``malloc.h``."""
USUAL_LOOP_S = 0.6
"""Of ten million additions in a loop: bars in seconds are for a machine of this pace."""
MOST_SECONDS_PER_MB = 1.0
MOST_SECONDS_PER_MB_OF_LINES = 4.0
"""Measured: 1.7 to 2.6 where each short line is a failed step or a new name, 23 to 32 µs a line; 3.4 where each is a
torn report, which is read with the next line as well. The time is spread over all that reads a line: a bar of 1 would
need a compiled reader of lines."""
LARGE_BYTES = 60_000
"""Of a mutated input: what is done once, for any input, is a tenth of its second."""
PIECES = (
    " ", "'", '"', ",", ";", "(", "<", ">", "\t",
    "\r", "[1/9] ", "x: ", "0", "a", "/", "\\", "\x1b[", "info    : ",
)  # fmt: skip


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
            work = lambda size, dump=dump: [*disassembly.reader([dump(size)], "dump")]  # noqa: E731
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


def keep_pages() -> None:
    """Have the C library give no memory back. Long lines make the stack of ``re`` large; where its pages are fetched
    anew each time, from 300 KB on they may cost as much as the work: that is the machine's, not the reader's."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # of glibc
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, 1 << 30)
        mallopt(M_MMAP_MAX, 0)


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


def pace() -> float:
    """Slowdown of the processor now, against its usual speed."""
    begin = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return (time.process_time() - begin) * 10 / USUAL_LOOP_S


def rate_of(text: str) -> float:
    """Its seconds a megabyte, as if it were no smaller than :data:`LARGE_BYTES`, at the usual pace."""
    return seconds(lambda: read_log(text)) / max(pace(), pace()) / max(len(text), LARGE_BYTES) * 1e6


def mutated(dice: random.Random, text: str) -> str:
    """Another input, of :data:`LARGE_BYTES` at most."""
    at = dice.randrange(len(text) + 1)
    end = min(len(text), at + dice.choice((1, 3, 10, 40, 200)))
    piece = dice.choice((text[at:end], dice.choice(PIECES), dice.choice(CASES)[3], "\n"))
    times = dice.choice((1, 1, 3, 100, 10_000))
    kept = dice.choice((text[:at] + piece * times + text[at:], text[:at] + piece * times + text[end:]))
    return kept[:LARGE_BYTES] or "x"


def search(limit_s: float, seed: int) -> list[str]:
    """Inputs that take more than :data:`MOST_SECONDS_PER_MB`."""
    dice = random.Random(seed)
    pool = [(0.0, line) for *_, line in CASES]
    slow: list[str] = []
    tried, end, usual = 0, time.monotonic() + limit_s, pace()
    while time.monotonic() < end:
        text = mutated(dice, dice.choice(pool)[1])
        begin = time.process_time()
        read_log(text)
        rate = (time.process_time() - begin) / usual / max(len(text), LARGE_BYTES) * 1e6
        tried += 1
        if rate > MOST_SECONDS_PER_MB and rate_of(text) > MOST_SECONDS_PER_MB:
            slow.append(text)
            continue
        pool.append((rate, text))
        if len(pool) > 400:
            pool.sort(key=lambda each: -each[0])
            del pool[200 : 200 + len(pool) - 400]
            usual = pace()
    print(
        f"{tried:,} mutations of seed {seed}: the slowest {max(pool)[0]:.2f} s/MB; {len(slow)} above the bar",
        flush=True,
    )
    return slow


def counted(dice: random.Random, line: str) -> str:
    """Line with NUL in place of some numbers and after some words, where :func:`many` writes a number."""
    made = []
    for word in re.findall(r"\d+|[A-Za-z_]+|.", line[:300]):
        if word.isdigit() and dice.random() < 0.5:
            made.append("\0")
        else:
            made.append("a\0" if word.isalpha() and dice.random() < 0.08 else word)
    return "".join(made)


def many(lines: list[str], by_turns: bool, size: int) -> str:
    """Log of about ``size`` bytes: the two lines alternating, or all of one after all of the other."""
    times = max(2, size // (sum(map(len, lines)) + len(lines)))
    numbers = [str(number) for number in range(times)]
    if by_turns:
        return "".join(line.replace("\0", number) + "\n" for number in numbers for line in lines)
    return "".join(line.replace("\0", number) + "\n" for line in lines for number in numbers)


def search_lines(limit_s: float, seed: int) -> list[str]:
    """Logs of few lines, each many times, that grow too fast or take more than :data:`MOST_SECONDS_PER_MB_OF_LINES`."""
    dice = random.Random(seed)
    of_families = {line for log in logs.LOGS.values() for line in log(2).splitlines()}
    kinds = [line for *_, line in CASES] + sorted(of_families)
    slow: list[str] = []
    tried, worst, end = 0, 0.0, time.monotonic() + limit_s
    while time.monotonic() < end:
        lines = [counted(dice, dice.choice(kinds)) for _ in range(dice.choice((1, 2, 2, 3)))]
        made = partial(many, lines, dice.random() < 0.5)
        rates = []
        for text in (made(LARGE_BYTES // 4), made(LARGE_BYTES)):
            forget_lines()
            begin = time.process_time()
            read_log(text)
            rates.append((time.process_time() - begin) / len(text) * 1e6)
        tried += 1
        rate = rate_of(text) if rates[1] > worst else 0.0
        worst = max(worst, rate)
        grew = rates[1] > 1.5 * rates[0] and all(grows(*_read(made))[0] > MOST_GROWTH for _ in range(4))
        if grew or rate > MOST_SECONDS_PER_MB_OF_LINES:
            slow.append(text)
    print(f"{tried:,} logs of few lines of seed {seed}: {worst:.2f} s/MB at most; {len(slow)} found", flush=True)
    return slow


def main() -> int:
    """Print what grows too fast, and what is too slow."""
    limit, seed = (int(word) for word in (*sys.argv[1:], *("600", "1")[len(sys.argv) - 1 :]))
    gc.disable()
    keep_pages()
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
    slow = search(limit, seed) + search_lines(limit, seed)
    for number, text in enumerate(slow[:20]):
        Path(f"slow-{seed}-{number}.log").write_text(text, encoding="utf-8")
    return int(bool(wrong or slow))


if __name__ == "__main__":
    sys.exit(main())
