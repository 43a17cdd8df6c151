"""What accesses ask of memory, against what ncu counted of each instruction on a GPU.

    ncu --kill on --section SourceCounters --section LaunchStats -c 5 -o NAME ./NAME …          # a GPU
    ncu -i NAME.ncu-rep --page source --csv --print-kernel-base mangled > FOLDER/NAME.csv
    ncu -i NAME.ncu-rep --page raw --csv --print-kernel-base mangled > FOLDER/NAME.raw
    python -m tests.oracle.memory_oracle FOLDER BINARIES                                        # anywhere

Of each executed access of full warps whose addresses are known: the wavefronts of shared memory beside those that its
words need must be those that ncu counted, and the sectors of global memory must lie between the bounds.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spillscan.reading.binary.addresses import Access, accesses
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.records import cubins
from spillscan.reading.binary.requests import fewest_wavefronts, sectors, wavefronts
from spillscan.reading.machine.lanes import LANES, WIDTHS


class _All:
    """Every symbol."""

    def __contains__(self, symbol: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())


class Launch(NamedTuple):
    """One profiled launch: its kernel, threads of its block by axis, and what ncu says of each instruction."""

    symbol: str
    block: tuple[int, ...]
    rows: list[dict[str, str]]

    @property
    def width(self) -> int:
        """How lanes are spread over it, as :class:`spillscan.reading.machine.lanes.Shape` has it; 0: else."""
        x, one_row = self.block[0], self.block[1] * self.block[2] == 1
        if x % LANES == 0 or one_row:
            return LANES
        return x if x in WIDTHS and self.block[2] == 1 else 0


def launches(source: Path, raw: Path) -> Iterator[Launch]:
    """What two pages of one report say."""
    text = raw.read_text()
    table = csv.DictReader(io.StringIO(text[max(text.find('"ID"'), 0) :]))
    blocks = [(row["Kernel Name"], row["Block Size"]) for row in table if row.get("Block Size", "").startswith("(")]
    found: list[tuple[str, list[dict[str, str]]]] = []
    head: list[str] = []
    for row in csv.reader(io.StringIO(source.read_text())):
        if row and row[0] == "Kernel Name":
            found.append((row[1], []))
        elif row and row[0] == "Address":
            head = row
        elif row and row[0].startswith("0x"):
            found[-1][1].append(dict(zip(head, row, strict=False)))
    if len(found) == 2 * len(blocks):  # with line information each launch comes twice
        found = found[::2]
    for (symbol, rows), (name, block) in zip(found, blocks, strict=False):
        if symbol == name:
            yield Launch(symbol, tuple(map(int, re.findall(r"\d+", block))), rows)


def judged(access: Access, launch: Launch, counts: Counter[str]) -> bool:
    """Whether what is said of an access is what was counted; True where nothing is."""
    row = launch.rows[access.row]
    executed, threads = (
        int(row[name].replace(",", ""))
        for name in ("Instructions Executed", "Predicated-On Thread Instructions Executed")
    )
    offsets = access.offsets.get(launch.width)
    if not executed or threads != LANES * executed or offsets is None:
        counts["not executed, by parts of warps, or not known"] += 1
        return True
    counts[access.space] += 1
    if access.space == "shared":
        taken, needed = (float(row[f"L1 Wavefronts Shared{name}"].replace(",", "")) for name in ("", " Ideal"))
        few = fewest_wavefronts(offsets, access.bytes)
        least, most = (each - few for each in wavefronts(offsets, access.bytes, access.store))
        counts["shared, with conflicts"] += least > 0
        return least <= (taken - needed) / executed <= most
    least, most = sectors(offsets, access.bytes)
    counts["global, more than its bytes need"] += least > access.bytes
    return least <= float(row["L2 Theoretical Sectors Global"].replace(",", "")) / executed <= most


def main() -> int:
    """Compare everything; print counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("binaries", type=Path)
    arguments = parser.parse_args()
    counts, kernels, wrong = Counter[str](), set[tuple[str, str]](), 0
    for source in sorted(arguments.folder.glob("*.csv")):
        raw = source.with_suffix(".raw")
        if not raw.exists():
            continue
        held = (arguments.binaries / source.stem).read_bytes()
        code = {function.symbol: Code(cubin.text_of(function)) for cubin, function in cubins(held, _All())}  # type: ignore[arg-type]
        for launch in launches(source, raw):
            own = code.get(launch.symbol)
            if own is None or own.graph is None or len(launch.rows) != own.rows:
                continue
            for access in accesses(own.instructions, own.graph) or ():
                before = counts["shared"] + counts["global"]
                right = judged(access, launch, counts)
                if counts["shared"] + counts["global"] > before:
                    kernels.add((source.stem, launch.symbol))
                if not right:
                    wrong += 1
                    print(f"{source.stem} {launch.symbol} {16 * access.row:#x}: {launch.rows[access.row]['Source']}")
    for name, number in sorted(counts.items()):
        print(f"{name}: {number:,}")
    print(f"{len(kernels)} kernels; {wrong} wrong")
    return 1 if wrong or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
