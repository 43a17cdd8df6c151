"""The table path: inputs of every kind, defaults, errors, speed. ``test_header.py`` compares the figures."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

from spillscan.occupancy import occupancy
from spillscan.occupancy.formula import NO_LIMIT
from spillscan.occupancy.table import limiter_names, occupancy_table
from spillscan.output.errors import UsageError
from tests.oracle import occupancy_header as header

ONE = {"arch": ["sm_80"], "registers": [40], "threads_per_block": [128], "static_shared_bytes": [8192]}


def test_one_row():
    found = occupancy_table(ONE)
    assert {name: column.tolist() for name, column in found.items()} == {
        "resident_blocks": [12],
        "active_warps": [48],
        "max_warps": [64],
        "occupancy": [0.75],
        "limiters": [0b10],
        "limit_warps": [16],
        "limit_registers": [12],
        "limit_shared_memory": [18],
        "limit_blocks": [32],
        "limit_barriers": [NO_LIMIT],
        "limit_virtual_resources": [NO_LIMIT],
        "allocated_registers_per_block": [5120],
        "allocated_shared_bytes_per_block": [9216],
        "shared_bytes_per_sm": [164 * 1024],
        "global_caching": [0],
    }
    assert limiter_names()[0b11] == "warps+registers"


def test_data_frames_with_gaps():
    frame = pd.DataFrame(
        {
            "arch": ["sm_90", "9.0", "H100", 9.0],
            "registers": pd.array([32, 32, 32, 32], dtype="Int64"),
            "threads_per_block": [32, 32, 32, 32],
            "barriers": pd.array([16, None, 0, 2], dtype="Int64"),
            "carveout_percent": [np.nan, 10, None, -1],
            "max_dynamic_shared_bytes": [None, "", 100_000, None],
            "something else": ["a", "b", "c", "d"],
        }
    )
    found = occupancy_table(frame)
    assert found["limit_barriers"].tolist() == [4, 64, NO_LIMIT, 32]
    assert found["shared_bytes_per_sm"].tolist() == [228 * 1024, 32 * 1024, 228 * 1024, 228 * 1024]
    assert pd.DataFrame(found).shape == (4, 15)


def test_words():
    rows = {**ONE, "arch": ["sm_35"], "cache_preference": ["l1"], "global_caching": [None]}
    assert occupancy_table(rows)["shared_bytes_per_sm"].tolist() == [16 * 1024]


def test_no_rows():
    found = occupancy_table({"arch": [], "registers": [], "threads_per_block": []})
    assert all(len(column) == 0 for column in found.values())


def test_what_cannot_launch_is_an_answer():
    rows = {"arch": ["sm_80"] * 3, "registers": [300, 32, 256], "threads_per_block": [128, 2048, 1024]}
    assert occupancy_table(rows)["resident_blocks"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"registers": [-1]}, "row 1: registers must be at least 0, not -1"),
        ({"threads_per_block": [0]}, "row 1: threads_per_block must be at least 1, not 0"),
        ({"dynamic_shared_bytes": [2**31]}, "row 1: dynamic_shared_bytes must be at most 2,147,483,647, not"),
        ({"threads_per_block": [1.5]}, "row 1: threads_per_block must be a whole number, not 1.5"),
        ({"threads_per_block": [None]}, "row 1: threads_per_block is empty"),
        ({"threads_per_block": ["many"]}, "column threads_per_block must hold whole numbers"),
        ({"threads_per_block": [np.inf]}, "row 1: threads_per_block must be a whole number, not inf"),
        ({"carveout_percent": [101]}, "row 1: carveout_percent must be 0 to 100, not 101"),
        ({"carveout_percent": [-2]}, "row 1: carveout_percent must be 0 to 100, not -2"),
        ({"arch": ["sm_91"]}, "row 1: unknown compute capability 9.1 (sm_91); nearest known: sm_90"),
        ({"registers": [1, 2]}, "column registers has 2 rows, arch has 1"),
        (
            {"cache_preference": ["much"]},
            "cache_preference must be one of none, shared, l1, equal, not 'much'",
        ),
    ],
)
def test_bad_input_names_the_row(changes, says):
    with pytest.raises(UsageError) as caught:
        occupancy_table({**ONE, **changes})
    assert str(caught.value).startswith(says)


def test_a_missing_column_is_named():
    with pytest.raises(UsageError, match="column registers is missing"):
        occupancy_table({"arch": ["sm_80"], "threads_per_block": [128]})


def test_a_row_of_a_million_takes_a_small_part_of_one_alone():
    """Against the same machine in the same minute: a limit in seconds is one of the machine."""
    columns = header.columns(header.configurations(1_000_000, seed=3))
    start = time.process_time()
    occupancy_table(columns)
    together_s = (time.process_time() - start) / 1_000_000
    start = time.process_time()
    for registers in range(3000):
        occupancy("sm_90", registers=registers % 128, threads_per_block=256)
    assert together_s < (time.process_time() - start) / 3000 / 4


def test_the_function_refuses_what_no_launch_can_have():
    good = {"registers": 40, "threads_per_block": 128}
    for bad in (
        {"registers": 300},
        {"registers": -1},
        {"threads_per_block": 0},
        {"threads_per_block": 2048},
        {"static_shared_bytes": -1},
        {"dynamic_shared_bytes": -1},
        {"max_dynamic_shared_bytes": -1},
        {"carveout_percent": 101},
        {"barriers": 17},
        {"virtual_resources": -1},
    ):
        with pytest.raises(UsageError) as caught:
            occupancy("sm_80", **{**good, **bad})
        assert "\n" not in str(caught.value)
