"""docs/internals/register-limits.md says what the H200 measured, and the static figures what its driver says."""

from __future__ import annotations

import csv

import pytest

from spillscan import scan
from spillscan.model import Launch
from spillscan.occupancy.summary import summarise
from tests.conftest import FIXTURES, ROOT

with (FIXTURES / "ncu" / "h200-times.csv").open(newline="") as table:
    ROWS = list(csv.DictReader(table))
PAGE = (ROOT / "docs" / "internals" / "register-limits.md").read_text(encoding="utf-8").replace("*", "")


def test_all_limits_were_measured_and_right() -> None:
    assert len(ROWS) == 18
    assert {(row["result"], row["failure"]) for row in ROWS} == {("correct", "")}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['program']}-{row['cap']}")
def test_the_compilers_values_give_the_drivers_blocks(row: dict[str, str]) -> None:
    (kernel,) = scan(str(FIXTURES / "ncu" / f"{row['program']}-{row['cap']}-13.0.log")).kernels
    occupancy = summarise(kernel.usage, "H200", Launch(threads_per_block=256)).occupancy
    assert occupancy is not None
    assert (kernel.usage.registers, kernel.usage.stack_bytes) == (int(row["registers"]), int(row["local_bytes"]))
    assert occupancy.resident_blocks == int(row["blocks_per_sm"])
    spills = kernel.usage.spills
    assert spills is not None
    shown = f"{spills[0]:,} + {spills[1]:,} B" if sum(spills) else "0"
    places = 2 if row["program"] == "gemm" else 3
    line = (
        f"| {row['cap']} | {row['registers']} | {shown} | {row['blocks_per_sm']} | {100 * occupancy.fraction:g}%"
        f" | {float(row['median_ms']):.{places}f} ms | {100 * float(row['spread']):.1f}% |"
    )
    assert line in PAGE


def test_the_shape_is_the_published_one() -> None:
    times = {int(row["cap"]): float(row["median_ms"]) for row in ROWS if row["program"] == "gemm"}
    best = min(times, key=lambda cap: times[cap])
    assert 32 < best < 255
    assert times[32] == max(times.values())
