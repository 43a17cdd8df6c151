"""``spillscan profile`` and ``spillscan profile --launches`` as users run them."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import yaml

from spillscan import scan
from spillscan.cli import main
from spillscan.judging.policy.reading import from_options, load
from tests.advice.profile import naive
from tests.conftest import FIXTURES, read_text, run

NCU = FIXTURES / "ncu"
DEMO, DEMO_LOG = NCU / "demo-sections.csv.zst", NCU / "demo-13.0.log"
LAUNCHES, LAUNCHES_LOG = NCU / "report-raw.csv.zst", NCU / "launches-13.0.log"


def lines(*arguments: str | Path) -> list[str]:
    shown = io.StringIO()
    with redirect_stdout(shown):
        assert main([str(word) for word in arguments]) == 0
    return shown.getvalue().split("\n")


def test_the_table_has_the_worst_launch_first() -> None:
    shown = lines("profile", DEMO, DEMO_LOG)
    assert shown[0].split("  ")[-2:] != shown[1].split()
    assert shown[1].split() == [
        "gemm88_min8_spill",
        "sm_90",
        "1",
        "256",
        "0",
        "32",
        "60.0%",
        "1.74",
        "ms",
    ]
    assert "… 20 more (--all shows them)" in lines("profile", DEMO, DEMO_LOG, "--top", "1")


def test_json_and_csv_have_every_launch() -> None:
    document = json.loads("\n".join(lines("profile", DEMO, DEMO_LOG, "-f", "json")))
    rows = list(csv.DictReader(io.StringIO("\n".join(lines("profile", DEMO, DEMO_LOG, "-f", "csv")))))
    assert len(document["launches"]) == len(rows) == 21
    for launch, row in zip(document["launches"], rows, strict=True):
        assert {
            name: "" if launch[name] is None else str(launch[name]) for name in ("symbol", "registers", "duration_ns")
        } == {name: row[name] for name in ("symbol", "registers", "duration_ns")}


def test_kernels_and_archs_are_chosen_and_choosing_nothing_is_an_error() -> None:
    rows = json.loads(
        "\n".join(lines("profile", DEMO, DEMO_LOG, "--kernel", "dynsmem", "--arch", "sm_90", "-f", "json"))
    )
    assert len(rows["launches"]) == 5
    assert len(lines("profile", NCU / "report-raw.csv.zst", "--kernel", "main::lambda2")) == 4, "as printed"
    assert run("profile", DEMO, "--kernel", "nope").returncode == 2
    assert run("profile", DEMO, "--arch", "sm_80").returncode == 2


def test_a_pipe_and_no_build() -> None:
    result = run("profile", "-", stdin=read_text(DEMO).encode())
    assert result.returncode == 0
    assert result.stdout.decode().count("\n") == len(lines("profile", DEMO)) - 1
    assert run("profile", "-", "-", stdin=b"").returncode == 2


@pytest.mark.parametrize("command", [("profile",), ("profile", "--launches")])
def test_a_damaged_profile_is_one_line_and_exit_status_2(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "profile.csv"
    path.write_bytes(b'"ID","Kernel Name","x"\n"","",""\n"0","f"\n')
    result = run(*command, path)
    assert (result.returncode, result.stdout) == (2, b"")
    assert ":3: this row has 2 cells, not 3" in result.stderr.decode()
    assert result.stderr.count(b"\n") == 1


def test_names_cannot_act(tmp_path: Path) -> None:
    path = tmp_path / "profile.csv"
    text = read_text(DEMO).replace("saxpy(int, float, const float *, float *)", "=cmd()\x1b[31m##[error]x")
    path.write_text(text)
    for form in ("text", "json", "csv"):
        result = run("profile", path, "-f", form)
        assert result.returncode == 0
        assert b"\x1b" not in result.stdout + result.stderr
        assert b"##[" not in result.stdout + result.stderr
    assert b"\r\n=cmd" not in run("profile", path, "-f", "csv").stdout
    assert b"\x1b" not in run("profile", "--launches", path, DEMO_LOG).stdout


# ---- launches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "log"), [(DEMO, DEMO_LOG), (LAUNCHES, LAUNCHES_LOG)])
def test_the_launch_map_is_a_policy_that_gives_each_kernel_a_launch_it_had(
    tmp_path: Path, profile: Path, log: Path
) -> None:
    path = tmp_path / "launches.yaml"
    path.write_text("\n".join(lines("profile", "--launches", profile, log)))
    policy = load(from_options({}), config=str(path), search=False)
    build = scan(str(log))
    had: dict[str, set[object]] = {}
    occupancy: dict[object, float] = {}
    truth = naive.by_number(profile)
    for row in json.loads("\n".join(lines("profile", profile, log, "-f", "json")))["launches"]:
        launched = row["threads_per_block"], row["dynamic_shared_bytes"]
        had.setdefault(row["symbol"], set()).add(launched)
        occupancy[row["symbol"], *launched] = truth[row["launch"], row["kernel"]]["theoretical_percent"]
    entries = [kernel for kernel in build.kernels if kernel.role == "entry"]
    expected: list[str] = []
    assert len(had) == len(entries)
    for kernel in entries:
        launch = policy.launch_of(kernel)
        assert launch is not None
        launched = launch.threads_per_block, launch.dynamic_shared_bytes
        assert launched in had[kernel.key.symbol]
        expected.append(f"({occupancy[kernel.key.symbol, *launched]:.4g}%)")
    shown = lines("occupancy", log, "--config", path, "--all")
    known = [found[0] for line in shown if (found := re.search(r"\([\d.]+%\)", line))]
    assert sorted(known) == sorted(expected), "exactly what Nsight Compute calls theoretical"
    assert not any(line.endswith(": ") for line in shown)
    assert not list(policy.unused(build.kernels))


def test_the_commonest_launch_counts_and_the_others_are_named() -> None:
    shown = lines("profile", "--launches", LAUNCHES, LAUNCHES_LOG)
    place = next(number for number, line in enumerate(shown) if "scaleIf" in line)
    assert shown[place + 2] == "    launch: {threads_per_block: 256, dynamic_shared_bytes: 0}  # 2 launches"
    assert shown[place + 3] == "    # also 1 launch: {threads_per_block: 1000, dynamic_shared_bytes: 0}"
    assert any('"outer::(anonymous namespace)::hidden(float[*], int)"' in line for line in shown), (
        "no hash of a checkout"
    )
    hidden = next(number for number, line in enumerate(shown) if "hidden" in line)
    assert "102400" in shown[hidden + 2]


def test_rounded_sizes_are_left_out_and_reported() -> None:
    shown = lines("profile", "--launches", NCU / "report-details.csv.zst", LAUNCHES_LOG)
    assert [line for line in shown if line.startswith("# left out")] == [
        "# left out: outer::<unnamed>::hidden(float *, int): block size or dynamic shared memory unknown or rounded"
        "; ncu needs --section LaunchStats --print-units base"
    ]
    assert len(yaml.safe_load("\n".join(shown))["kernels"]) == 6


def test_no_launch_at_all_is_an_error() -> None:
    for inputs, why in (((NCU / "demo-metrics.csv.zst", DEMO_LOG), b"LaunchStats"), ((DEMO,), b"no build was given")):
        result = run("profile", "--launches", *inputs)
        assert (result.returncode, result.stdout) == (2, b"")
        assert why in result.stderr


def test_cluster_sizes_are_kept() -> None:
    shown = lines("profile", "--launches", DEMO, DEMO_LOG)
    assert [line for line in shown if "cluster_blocks" in line] == [
        "    launch: {threads_per_block: 256, dynamic_shared_bytes: 0, cluster_blocks: 4}  # 1 launch"
    ]
