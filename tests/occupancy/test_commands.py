"""``spillscan occupancy`` and ``spillscan explain devices``: formats, one line an error, exit codes."""

from __future__ import annotations

import csv
import io
import json

import pytest

from spillscan.cli import main
from spillscan.occupancy.devices import devices
from spillscan.occupancy.summary import percent, whole
from spillscan.output.nouns import size, sizes

BASE = ["occupancy", "sm_80", "--threads", "128", "--registers", "40", "--shared", "8192"]
MIB = 1 << 20


def run(capsys, *arguments):
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_report(capsys):
    status, out, err = run(capsys, *BASE, "--set", "stack_bytes=4312")
    assert (status, err) == (0, "")
    assert (
        out
        == """\
sm_80 (Ampere GA100)
128 threads, 40 registers, 8,192 B static + 0 B dynamic shared

12 blocks/SM, 48 of 64 warps, occupancy 75%, limited by registers

  limit          blocks/SM        per block  per SM
  warp slots            16          4 warps  64
  registers             12  5,120 registers  65,536  <- limiter
  shared memory         18          9,216 B  167,936 B
  block slots           32           1 slot  32

unused per SM: 16 warps, 4,096 registers, 57,344 B shared memory

next steps
  registers: 40 → 32 gives 12 → 16 blocks; from 41: 10 blocks
  shared memory: +4,736 B at no cost; from 12,929 B: 11 blocks
  best block sizes: 768, 512, 384, 256, 192, 128, 96 threads (75%)
  dynamic shared memory available per block at 12 blocks/SM: 4,736 B

limiters
  registers: 5,120 per block (40 per thread) of 65,536 per SM
  try: __launch_bounds__(128, 16): at most 32 registers, 12 → 16 blocks/SM; may spill (not tried)

Higher occupancy helps only if the resident warps do not already hide latency.

local memory: a 4,312 B stack reserves 910 MiB on one A100 (108 SMs)
"""
    )


def test_json(capsys):
    status, out, _ = run(capsys, *BASE, "-f", "json")
    data = json.loads(out)
    assert status == 0
    assert data["resident_blocks"] == 12
    assert data["occupancy"] == 0.75
    assert data["limiters"] == ["registers"]
    assert data["limit_barriers"] is None
    assert data["configuration"]["arch"] == "sm_80"
    assert data["headroom"][0]["more_blocks"]["after"] == 32


def test_csv(capsys):
    _, out, _ = run(capsys, *BASE, "-f", "csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (row["resident_blocks"], row["limiters"], row["limit_barriers"]) == ("12", "registers", "")


def test_a_launch_that_does_not_fit_is_an_answer(capsys):
    status, out, _ = run(capsys, "occupancy", "H200", "--threads", "672", "--registers", "96")
    assert status == 0
    assert "cannot launch: 21 warps of 3,072 registers: only 20 fit in 4 SM partitions" in out
    assert "  registers: 96 → 80 gives 0 → 1 block\n" in out
    assert "at no cost" not in out
    assert "This launch fails." in out


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["--registers", "-1"], "registers must be 0 to 256, not -1"),
        (["--registers", "300"], "registers must be 0 to 256, not 300"),
        (["--registers", "many"], "--registers must be a whole number, not 'many'"),
        (["--threads", "0"], "threads per block must be 1 to 1,024, not 0"),
        (["--threads", "2048"], "threads per block must be 1 to 1,024, not 2,048"),
        (["--threads", "-32"], "threads per block must be 1 to 1,024, not -32"),
        (["--shared", "-1"], "static shared memory must be at least 0 bytes, not -1"),
        (["--dynamic-shared", "-1"], "dynamic shared memory must be at least 0 bytes, not -1"),
        (["--set", "max_dynamic_shared_bytes=-1"], "MaxDynamicSharedMemorySize must be at least 0 bytes, not -1"),
        (["--set", "carveout_percent=101"], "carve-out must be 0 to 100 percent, not 101"),
        (["--set", "barriers=17"], "barriers per block must be 0 to 16, not 17"),
        (["--set", "cluster_blocks=2"], "sm_80 has no clusters; clusters need sm_90 or later"),
        (["--set", "stack_bytes=-1"], "stack must be at least 0 bytes per thread, not -1"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys, changes, says):
    status, out, err = run(capsys, *BASE, *changes)
    assert (status, out) == (2, "")
    assert err.startswith(f"spillscan: {says}")
    assert err.count("\n") == 1


def test_what_is_missing(capsys):
    needed = "a device, --threads and --registers are required"
    for words, what in (
        (["sm_80", "--threads", "128"], "--registers is missing; " + needed),
        (["sm_80"], "--registers is missing; " + needed),
        (["--registers", "64"], "no device given; name one: spillscan occupancy sm_90 --threads 256 --registers 64"),
        (["sm_80", "sm_90", "--registers", "64"], "unexpected argument sm_90; pass one device, or a build (and"),
        (["RTX 4091", "--threads", "64"], "unknown device 'RTX 4091'; nearest known: GeForce RTX 4090"),
        (["sm_91"], "unknown compute capability 9.1 (sm_91); nearest known: sm_90"),
        (["biuld.log"], "biuld.log"),
    ):
        status, _, err = run(capsys, "occupancy", *words)
        assert status == 2
        assert err.startswith(f"spillscan: {what}") or words == ["biuld.log"], err


def test_launch_bounds(capsys):
    status, out, _ = run(capsys, "occupancy", "sm_80", "--launch-bounds", "256,6")
    assert status == 0
    assert out.splitlines()[1:] == [
        "__launch_bounds__(256, 6) limits registers to 40 per thread",
        "at 40 registers: 6 blocks/SM, 48 of 64 warps, occupancy 75%, limited by registers",
    ]
    _, out, _ = run(capsys, "occupancy", "sm_75", "--launch-bounds", "256,5")
    assert "ptxas ignores the 5 blocks: 5 x 256 threads exceed the SM's limit of 1,024" in out
    _, out, _ = run(capsys, "occupancy", "sm_53", "--launch-bounds", "1024", "-f", "json")
    assert json.loads(out)["registers"] == 32
    _, out, _ = run(capsys, "occupancy", "sm_80", "--launch-bounds", "256,6", "-f", "csv")
    assert next(csv.DictReader(io.StringIO(out)))["resident_blocks"] == "6"
    for wrong in ("256,x", "0,1", "2048", "256,0"):
        assert run(capsys, "occupancy", "sm_80", "--launch-bounds", wrong)[0] == 2
    assert run(capsys, "occupancy", "--launch-bounds", "256,6")[0] == 2


def test_csv_of_a_build_has_a_row_per_kernel(capsys):
    _, out, _ = run(capsys, "occupancy", "fixtures/demo/head.log", "--launch", "*softmax*=256", "-f", "csv")
    rows = {(row["symbol"], row["arch"]): row for row in csv.DictReader(io.StringIO(out))}
    assert len(rows) == 12
    assert rows["_ZN5model7softmaxIfEEvPKT_PS1_i", "sm_80"]["limiters"] == "warps+registers"


def test_wanted_blocks(capsys):
    hopper = [
        "occupancy",
        "sm_90",
        "--threads",
        "128",
        "--registers",
        "32",
        "--set",
        "max_dynamic_shared_bytes=max",
    ]
    _, out, _ = run(capsys, *hopper, "--set", "min_blocks_per_sm=5")
    assert "at 5 blocks/SM: 45,568 B" in out
    _, out, _ = run(capsys, *hopper, "--set", "min_blocks_per_sm=17", "-f", "json")
    assert json.loads(out)["available_dynamic_shared_bytes"] is None
    _, out, _ = run(capsys, *hopper, "--set", "min_blocks_per_sm=17")
    assert "at 17 blocks/SM: none (too many blocks)" in out
    assert run(capsys, *hopper, "--set", "min_blocks_per_sm=0")[0] == 2


def test_devices(capsys):
    status, out, _ = run(capsys, "explain", "devices")
    assert status == 0
    assert len(out.splitlines()) == 2 + len(devices()), "with heads and legend"
    status, out, _ = run(capsys, "explain", "devices", "sm_103a")
    assert "conflict: [N] has 64 for barriers_per_sm" in out
    status, out, _ = run(capsys, "explain", "devices", "H100", "-f", "json")
    (data,) = json.loads(out)["devices"]
    assert data["values"]["registers_per_sm"] == {"value": 65536, "source": ["N", "C", "G", "M"]}
    assert len(json.loads(run(capsys, "explain", "devices", "-f", "json")[1])["devices"]) == len(devices())
    assert run(capsys, "explain", "devices", "sm_99")[0] == 2
    assert run(capsys, "explain", "spill", "sm_90")[0] == 2, "DEVICE belongs to `explain devices`"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1_740, "1,740 B"),
        (MIB - 1, "1,048,575 B"),
        (MIB, "1 MiB"),
        (99_483_648, "94.9 MiB"),
        (-99_483_648, "-94.9 MiB"),
        (999 * MIB + MIB // 2, "1,000 MiB"),
        (1023 * MIB, "1,023 MiB"),
        (202_230_792_192, "188 GiB"),
    ],
)
def test_bytes_as_people_write_them(count: int, text: str) -> None:
    assert size(count) == text


def test_different_bytes_look_different_in_comparisons() -> None:
    assert list(sizes(94 * MIB, 2 * MIB)) == ["94 MiB", "2 MiB"]
    assert list(sizes(94 * MIB + 1, 94 * MIB)) == ["98,566,145 B", "98,566,144 B"]
    assert list(sizes(MIB, MIB)) == ["1 MiB", "1 MiB"]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_devices_fit(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    status, out, _ = run(capsys, "explain", "devices")
    assert status == 0
    assert max(map(len, out.splitlines())) <= width


@pytest.mark.parametrize("warps", range(65))
def test_a_bound_is_never_below_its_value(warps):
    for slots in (32, 48, 64):
        share = min(warps / slots, 1.0)
        assert float(percent(share, at_most=True).removesuffix("%")) >= 100 * share
        assert 0 <= whole(100 * share, at_most=True) - 100 * share < 1
