"""The model against an H200: what the runtime answers, and what was resident. Nothing may stay
unexplained.
"""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

from spillscan.occupancy import device, occupancy
from spillscan.occupancy.headroom import available_dynamic_shared_bytes, best_block_sizes
from spillscan.occupancy.summary import clusters, footprint
from tests.occupancy.deviations import driver_blocks

FOLDER = Path(__file__).parents[2] / "fixtures" / "occupancy"
FIXTURE = FOLDER / "h200.csv.gz"
QUESTIONS = FOLDER / "h200_questions.csv.gz"
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
            assert row["resident_max"] == driver_blocks(ours)
            if row["resident_max"] == blocks:
                seen["resident equal"] += 1
            else:
                assert row["resident_max"] > blocks, (group, kernel, row)
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


def questions(wanted):
    with gzip.open(QUESTIONS, "rt", newline="") as file:
        for row in csv.DictReader(file):
            if row["question"] == wanted:
                yield {name: int(text) for name, text in row.items() if name not in ("question", "kernel")}


def asked(row):
    attribute = row["max_dynamic_shared_bytes"]
    return occupancy(
        "H200",
        registers=row["registers"],
        threads_per_block=row["threads_per_block"] or 32,
        static_shared_bytes=row["static_shared_bytes"],
        dynamic_shared_bytes=row["dynamic_shared_bytes"],
        max_dynamic_shared_bytes=None if attribute < 0 else attribute,
        carveout_percent=None if row["carveout_percent"] < 0 else row["carveout_percent"],
    )


def test_best_block_size_of_the_runtime():
    rows = list(questions("best"))
    assert len(rows) == 540
    for row in rows:
        best = best_block_sizes(asked(row).configuration)
        assert (best.threads_per_block, best.resident_blocks * 132) == (row["answer"], row["second"])


def test_free_dynamic_shared_memory_but_for_the_bug_of_the_driver():
    seen: Counter[str] = Counter()
    for row in questions("dynamic"):
        free = available_dynamic_shared_bytes(asked(row).configuration, row["argument"])
        if row["error"]:
            assert free is None
            seen["does not fit"] += 1
        elif free == row["answer"]:
            seen["equal"] += 1
        else:
            assert row["answer"] == free + 1024  # the driver forgets its reserve
            seen["driver"] += 1
    assert seen == {"does not fit": 2413, "equal": 96, "driver": 191}
    fewer = [row for row in questions("dynamic_blocks") if row["answer"] < row["argument"]]
    assert len(fewer) == 191  # so many of its own answers do not leave the blocks they were asked for
    for row in questions("dynamic_blocks"):
        assert asked(row).resident_blocks == row["answer"]


def test_clusters_exact_to_two_blocks_and_a_bound_above():
    rows = list(questions("clusters"))
    assert len(rows) == 864
    for row in rows:
        found = clusters(asked(row), row["argument"], 132)
        assert row["error"] == 0
        assert found.active == row["answer"] if found.exact else found.active >= row["answer"]


def test_a_stack_reserves_memory_for_every_thread_slot():
    rows = list(questions("stack"))
    taken, before = 0, 1024  # the driver starts with 1 KB a thread
    for row in rows:
        taken = row["answer"] - row["second"]
        more = footprint(device("sm_90"), row["argument"]).total_bytes
        less = footprint(device("sm_90"), before).total_bytes
        assert taken == more - less
        before = row["argument"]
    assert before == 65536
