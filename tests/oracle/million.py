"""A million configurations against NVIDIA's cuda_occupancy.h 13.5, and what older headers say otherwise.

    python tests/oracle/million.py [ROWS] [SEED]

Prints one line a field; exit status 1 if something differs that ``deviations.py`` does not list.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from spillscan.occupancy import devices
from tests.oracle import occupancy_header as header

OLDER = ("13.0.88", "12.9.79", "12.4.127", "11.8.89")


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rows = header.configurations(count, seed)
    start = time.perf_counter()
    ours = header.answers(rows)
    ours_seconds = time.perf_counter() - start
    library = header.build()
    start = time.perf_counter()
    truth = header.ask(library, rows)
    print(f"{count:,} rows, seed {seed}: {ours_seconds:.2f} s here; header {time.perf_counter() - start:.2f} s")
    failed = bool(truth["status"].any())
    for field in [*header.FIELDS, "global_caching"]:
        different = int((truth[field] != ours[field]).sum())
        failed |= different > 0
        print(f"  {field:<34} {different} different")
    used = np.unique(truth["resident_blocks"], return_counts=True)
    print(f"  rows that can launch: {int((truth['resident_blocks'] > 0).sum()):,}; answers {len(used[0])}")

    name = np.array([device.compute_capability for device in devices()])[rows["device"]]
    plain = {**rows, "virtual_resources": np.zeros(count, np.int64)}  # headers before 13.0 have none
    ours = header.answers(plain)
    for version in OLDER:
        old = header.ask(header.build(version), plain)
        known = old["status"] == 0
        differs = known & (old["resident_blocks"] != ours["resident_blocks"])
        unknown = sorted(set(name[~known].tolist()), key=float)
        where = sorted(set(name[differs].tolist()), key=float)
        print(f"header {version}: {int(differs.sum())} other answers on {where}; does not know {unknown}")
        # Up to 13.0 the header has 64 barriers on 10.3: "barriers of 10.3" in deviations.py.
        failed |= not set(where) <= {"10.3"}
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
