"""Names of real builds held to what they promise: apart, in their width, found again, and quick.

    python -m tests.oracle.names_oracle SNAPSHOT...    snapshots (scan -f json) of builds, the more the better

Without arguments, the largest build of the fixtures.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from spillscan import scan
from spillscan.naming import NARROW, WIDTH, Names
from tests.conftest import FIXTURES


def main(paths: Sequence[str]) -> int:
    """Print what each build's names are like; 1 if two are alike, too long, or not found again."""
    failed = False
    for path in paths or [str(FIXTURES / "large" / "kernels5000-13.0.log.zst")]:
        symbols = list(dict.fromkeys(kernel.named_by for kernel in scan([path]).kernels))
        names = Names(symbols)
        for width in (NARROW, WIDTH):
            begin = time.process_time()
            shown = {symbol: names.of(symbol, width) for symbol in symbols}
            seconds = time.process_time() - begin
            alike, wide = len(shown) - len(set(shown.values())), sum(len(text) > width for text in shown.values())
            some = random.Random(width).sample(symbols, min(9, len(symbols)))
            lost = sum(symbol not in names.called(shown[symbol]) for symbol in some)
            clear = 100 * sum("~" not in text for text in shown.values()) / max(1, len(shown))
            print(
                f"{Path(path).name}, {width}: {len(symbols):,} symbols, {seconds:.1f} s; {clear:.0f}% without a digest,"
                f" {alike} alike, {wide} too wide, {lost} of {len(some)} not found again"
            )
            failed |= bool(alike or wide or lost)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
