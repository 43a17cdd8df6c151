"""Names of real builds held to what they promise: apart at any width, clear, stable, found again, and quick.

    python -m tests.oracle.names_oracle SNAPSHOT...    snapshots (scan -f json) of builds, the more the better

Without arguments, the largest build of the fixtures.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from spillscan import scan
from spillscan.model.build import damage
from spillscan.naming import Names
from tests.conftest import FIXTURES

WIDTHS = (16, 24, 40, 60, 80, 110, 200)
CLEAR_PERCENT = {60: 97.0, 110: 99.5}
SECONDS_OF_10_000 = 2.0
WORST = 25
"""Kernels that most look at: the worst."""
UNDER = 36
"""Columns that a table of 80 leaves for an instance under its family's heading."""
_DIGEST = re.compile(r"~[0-9a-f]+$|…[0-9a-f]{4}>$")


def main(paths: Sequence[str]) -> int:
    """Print what each build's names are like; 1 where two are alike, too long, or not found again."""
    failed = False
    for path in paths or [str(FIXTURES / "large" / "kernels5000-13.0.log.zst")]:
        kernels = sorted(scan([path]).kernels, key=damage)
        symbols = list(dict.fromkeys(kernel.key.symbol for kernel in kernels))
        failed |= _checked(Path(path).name, symbols)
    return int(failed)


def _checked(name: str, symbols: Sequence[str]) -> bool:
    start = time.process_time()
    names = Names(symbols)
    names.at(60)
    seconds = time.process_time() - start
    failed, said = False, [f"{name}: {len(symbols):,} symbols, {10_000 * seconds / len(symbols):.1f} s for 10,000"]
    for width in WIDTHS:
        shown = names.at(width)
        alike, wide = len(shown) - len(set(shown.values())), sum(len(text) > width for text in shown.values())
        share = 100 * sum(not _DIGEST.search(text) for text in shown.values()) / len(shown)
        failed |= bool(alike or wide)
        said.append(f"{width}: {share:.1f} % clear" + (f", {alike} ALIKE, {wide} TOO WIDE" if alike or wide else ""))
        lost = [
            s for s in random.Random(width).sample(symbols, min(3, len(symbols))) if s not in names.called(shown[s])
        ]
        failed |= bool(lost)
    rest = [symbol for symbol in symbols if random.Random(symbol).random() > 0.1]
    after = Names(rest)
    for width in CLEAR_PERCENT:
        moved = sum(after.of(symbol, width) != names.of(symbol, width) for symbol in rest)
        said.append(f"{100 * moved / max(1, len(rest)):.1f} % change at {width} when a tenth goes")
    one = random.Random(1).choice(symbols)
    without = Names([symbol for symbol in symbols if symbol != one])
    moved = sum(without.of(symbol, 60) != names.of(symbol, 60) for symbol in symbols if symbol != one)
    said.append(f"{moved} change at 60 when one comes")
    clear = sum(not _DIGEST.search(names.of(symbol, 60)) for symbol in symbols[:WORST])
    under = sum(not _DIGEST.search(names.arguments(symbol, UNDER)) for symbol in symbols)
    said.append(f"of the {min(WORST, len(symbols))} worst {clear} clear at 60")
    said.append(f"{100 * under / len(symbols):.1f} % clear under their families' headings in 80 columns")
    print("; ".join(said), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
