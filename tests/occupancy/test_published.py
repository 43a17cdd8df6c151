"""Every published example: the printed value under its named assumptions, and the true one."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan.occupancy import device, devices, occupancy
from spillscan.occupancy.bounds import register_cap
from spillscan.occupancy.formula import resident
from spillscan.occupancy.headroom import register_cliffs
from tests.occupancy.assumptions import assume, assumed_device, parse_assumptions
from tests.occupancy.published import EXAMPLES, PAGE, page

FIXTURE = Path(__file__).parents[2] / "fixtures" / "occupancy" / "h200.csv.gz"


def by_kind(kind):
    return [pytest.param(one, id=one["id"]) for one in EXAMPLES if one["kind"] == kind]


def rounded(fraction, printed):
    """Documents round, or cut: 87.5 % is printed as 87 %, 62.5 % as 63 %."""
    return abs(100 * fraction - printed) <= 0.51


def check_occupancy(example):
    true = occupancy(**example["given"])
    want = dict(example["actual"])
    assert true.resident_blocks == want.pop("blocks")
    assert true.active_warps == want.pop("warps")
    assert 100 * true.fraction == pytest.approx(want.pop("percent"), abs=0.006)
    assert list(true.limiters) == want.pop("limiters")
    for name, figure in want.items():
        assert getattr(true, name) == figure

    switches = parse_assumptions(example["assume"]) if example["assume"] else {}
    assumed = assume(true.configuration, switches)
    changed = resident(replace(true.configuration, device=assumed_device(true.configuration.device, switches)))
    for name, figure in example["printed"].items():
        if name == "blocks":
            assert assumed.resident_blocks == figure
        elif name == "warps":
            assert assumed.active_warps == figure
        elif name == "percent":
            assert rounded(assumed.fraction, figure)
        elif name == "limiters":
            assert list(assumed.limiters) == figure
        else:
            assert getattr(changed, name) == figure


@pytest.mark.parametrize("example", by_kind("occupancy"))
def test_occupancy(example):
    check_occupancy(example)


@pytest.mark.parametrize("example", by_kind("bounds"))
def test_launch_bounds(example):
    true = device(example["arch"])
    wrong = assumed_device(true, parse_assumptions([*example["assume"]]))
    for (threads, blocks), registers in example["actual"]:
        assert register_cap(true, threads, blocks).registers == registers
    for bounds, registers in example["printed"]:
        threads, blocks = example.get("as_bounds", bounds)
        assert register_cap(wrong, threads, blocks).registers == registers
    if "then" in example:
        check_occupancy(example["then"])


def search():
    """One more register never takes 6 blocks to 4 and 75 % to 50 % at once."""
    six_to_four, percent = [], []
    for threads in range(32, 1025, 32):
        for registers in range(16, 255):
            now = occupancy("sm_80", registers=registers, threads_per_block=threads)
            more = occupancy("sm_80", registers=registers + 1, threads_per_block=threads)
            if (now.resident_blocks, more.resident_blocks) == (6, 4):
                six_to_four.append((threads, registers))
            if (now.fraction, more.fraction) == (0.75, 0.5):
                percent.append((threads, registers))
    assert six_to_four == [(64, 168), (320, 32)]
    assert percent == [(512, 40)]


def above_launch_bounds():
    """A block above __launch_bounds__: the runtime has an answer, the launch fails (invalid value)."""
    with gzip.open(FIXTURE, "rt", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["set"] == "bounds" and row["api_blocks"] != "0"]
    over = [row for row in rows if int(row["threads_per_block"]) > int(row["kernel"].split("_")[1])]
    assert over
    assert {row["launch_error"] for row in over} == {"1"}


def no_bounds():
    """255 registers and 1,024 threads do not fit together."""
    assert not occupancy("sm_90", registers=255, threads_per_block=1024).can_launch


def granule():
    assert {one.register_alloc_unit for one in devices()} == {256}  # 8 a thread, on every device
    full = register_cliffs(device("sm_90"))[0]
    assert (full.count, full.most) == (64, 32)
    wrong = assumed_device(device("sm_90"), parse_assumptions(["max-warps=48", "no-granule", "no-partitions"]))
    assert (register_cliffs(wrong)[0].count, register_cliffs(wrong)[0].most) == (48, 42)


def at_least_16():
    answers = [occupancy("sm_90", registers=count, threads_per_block=256).fraction for count in (10, 12, 14, 16)]
    assert set(answers) == {1.0}


def formula():
    """min(2048/regs, 228 KB/smem * block, 64) mixes threads and warps; example 3.2 shows it."""
    printed = min(2048 / 32, 228 / 32 * 256, 64)
    true = occupancy("sm_90", registers=32, threads_per_block=256, static_shared_bytes=32768)
    assert (printed, true.active_warps) == (64, 48)


def slots():
    assert 100 * 15 / 16 == 93.75


CHECKS = (search, above_launch_bounds, no_bounds, granule, at_least_16, formula, slots)


@pytest.mark.parametrize("example", [one for one in by_kind("fact") if one.values[0]["check"]])
def test_fact(example):
    {check.__name__: check for check in CHECKS}[example["check"]]()


def test_there_are_all_64():
    assert len(EXAMPLES) == 64
    assert len({one["id"] for one in EXAMPLES}) == 64
    # 1.16 is what a compiler made of a source: nothing to compute here.
    assert [one["id"] for one in EXAMPLES if one.get("check", "") is None] == ["1.16"]


def test_the_page_is_current():
    assert PAGE.read_text("utf-8") == page(), "run python tests/occupancy/published.py"
