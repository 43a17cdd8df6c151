"""Attacks the readers and the verdict: seeded damage to real inputs, judged against the undamaged ones.

    python -m tests.oracle.attack_oracle [--cases N] [--seed S] [--jobs N] [--kind NAME] [--only NUMBER]

Nothing that the damage took away may vanish in silence, no figure that is called certain may be one that the kernel
does not have, and nothing may end in a traceback. Each kind of input has a module below ``tests/oracle/attacks``.
``--only`` runs one case of a seed again and shows its input.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Protocol

from spillscan.reading.workers import processors
from tests.oracle.attacks import Attack, builds, logs, machine_code, snapshots

DEFAULT_CASES = 50_000
PORTION = 100
"""Cases that a process takes at once."""
SHOWN_FAILURES = 12


@dataclass(slots=True)
class Tally:
    """Results of many cases."""

    cases: Counter[str] = field(default_factory=Counter)
    """By kind and damage."""
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By damage and what was wrong."""
    failures: list[str] = field(default_factory=list)
    """One line a failed case."""


class Kind(Protocol):
    """Kind of input."""

    NAME: str

    def attack(self, chance: Random) -> Attack:
        """Damage an input, and check the result."""


KINDS: dict[str, Kind] = {kind.NAME: kind for kind in (logs, machine_code, snapshots, builds)}


def run(seed: int, numbers: Iterable[int], kinds: Sequence[str], *, show: bool = False) -> Tally:
    """Attack once a number; a case depends on nothing but seed, number and kinds."""
    tally = Tally()
    for number in numbers:
        name, chance = kinds[number % len(kinds)], Random(f"{seed}/{number}")
        try:
            attack = KINDS[name].attack(chance)
        except Exception:
            tally.cases[f"{name}: crashed"] += 1
            tally.verdicts["crash", "traceback"] += 1
            tally.failures.append(f"{number} {name}: {traceback.format_exc().strip().splitlines()[-1]}")
            if show:
                raise
            continue
        tally.cases[f"{name}: {attack.damage}"] += 1
        tally.verdicts.update((attack.damage, failure.split(":")[0]) for failure in attack.failures)
        tally.failures += [f"{number} {name}, {attack.damage}, {attack.sample}: {text}" for text in attack.failures]
        if show:
            print(attack.shown)
    return tally


def run_all(seed: int, count: int, kinds: Sequence[str], jobs: int) -> Tally:
    """Attack ``count`` times, in so many processes."""
    portions = [range(start, min(start + PORTION, count)) for start in range(0, count, PORTION)]
    total = Tally()
    with ProcessPoolExecutor(jobs) as pool:
        found = pool.map(partial(run, seed, kinds=kinds), portions) if jobs > 1 else (run(seed, range(count), kinds),)
        for tally in found:
            total.cases += tally.cases
            total.verdicts += tally.verdicts
            total.failures += tally.failures
    return total


def main() -> int:
    """Print the counts; return 1 if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=DEFAULT_CASES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=processors(), help="processes (default: one a processor)")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    started = time.monotonic()
    kinds = options.kind or list(KINDS)
    if options.only is None:
        tally = run_all(options.seed, options.cases, kinds, options.jobs)
    else:
        tally = run(options.seed, [options.only], kinds, show=True)
    for name, count in sorted(tally.cases.items()):
        print(f"{count:8,}  {name}")
    for (damage, what), count in sorted(tally.verdicts.items()):
        print(f"{count:8,}  FAILED  {damage}: {what}")
    for line in tally.failures[:SHOWN_FAILURES]:
        print(f"  {line}"[:400])
    took = time.monotonic() - started
    print(f"{tally.cases.total():,} attacks, {len(tally.failures):,} failures, {took:.0f} s, seed {options.seed}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
