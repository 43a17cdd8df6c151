"""The model against an H200: what the runtime answers, and what was resident. Nothing may stay
unexplained.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

from spillscan.residency import occupancy
from spillscan.residency.deviations import driver_blocks

FIXTURE = Path(__file__).parents[2] / "fixtures" / "occupancy" / "h200.csv.gz"
INVALID_VALUE, OUT_OF_RESOURCES = 1, 701


def rows():
    with gzip.open(FIXTURE, "rt", newline="") as file:
        for row in csv.DictReader(file):
            yield (
                row["set"],
                row["kernel"],
                {name: int(text) for name, text in row.items() if name not in ("set", "kernel")},
            )


def model(row, attribute):
    return occupancy(
        "H200",
        registers=row["registers"],
        threads_per_block=min(row["threads_per_block"], 1024),
        static_shared_bytes=row["static_shared_bytes"],
        dynamic_shared_bytes=row["dynamic_shared_bytes"],
        max_dynamic_shared_bytes=None if attribute < 0 else attribute,
        carveout_percent=None if row["carveout_percent"] < 0 else row["carveout_percent"],
        barriers=row["barriers"],
    )


def test_every_answer_of_the_runtime_and_every_residency_is_explained():
    seen: Counter[str] = Counter()
    for group, kernel, row in rows():
        attribute = row["max_dynamic_shared_bytes"]
        ours = model(row, attribute)
        blocks = ours.resident_blocks if row["threads_per_block"] <= 1024 else 0
        at_start = 49152 - row["static_shared_bytes"]
        assert row["api_error"] == 0
        if row["api_blocks"] == blocks:
            seen["api equal"] += 1
        elif 0 <= attribute < at_start and row["api_blocks"] == model(row, at_start).resident_blocks:
            seen["api: attribute below 48 KB"] += 1
        else:
            raise AssertionError(f"unexplained: {group} {kernel} {row}: {blocks} blocks here")

        if row["launch_error"] < 0:
            continue
        bound = int(kernel.split("_")[1]) if kernel.startswith("bounds") else 1024
        if row["launch_error"]:
            if blocks == 0:
                assert row["launch_error"] in (INVALID_VALUE, OUT_OF_RESOURCES)
                seen["launch fails, 0 blocks"] += 1
            else:
                assert row["threads_per_block"] > bound, row
                seen["launch fails: launch bounds not checked"] += 1
        else:
            assert row["resident_min"] == row["resident_max"]
            if row["resident_max"] == blocks:
                seen["resident equal"] += 1
            else:
                assert row["resident_max"] == driver_blocks(ours) > blocks, (group, kernel, row)
                seen["resident: real carve-out"] += 1
    assert seen.total() == 24_018 + 4_399
    assert seen["api equal"] + seen["api: attribute below 48 KB"] == 24_018
    assert seen["resident equal"] + seen["resident: real carve-out"] > 2_000
    assert seen == {
        "api equal": 23_886,
        "api: attribute below 48 KB": 132,
        "resident equal": 3_307,
        "resident: real carve-out": 45,
        "launch fails, 0 blocks": 878,
        "launch fails: launch bounds not checked": 169,
    }


def test_the_driver_rule_never_gives_less_than_the_header():
    for _, _, row in rows():
        if row["threads_per_block"] <= 1024 and row["carveout_percent"] >= 0:
            ours = model(row, row["max_dynamic_shared_bytes"])
            assert driver_blocks(ours) >= ours.resident_blocks
