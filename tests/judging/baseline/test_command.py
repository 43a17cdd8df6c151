"""`baseline write` and `prune`, and `check` and `diff` with a baseline, as users and CI run them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conforming import conforms
from tests.conftest import FIXTURES, ROOT, read_text, run

BASE, HEAD = FIXTURES / "demo" / "base.log", FIXTURES / "demo" / "head.log"
LARGE = FIXTURES / "large" / "kernels5000-13.0.log.zst"
NAME = "spillscan-baseline.jsonl"
FEWER = ("--accept", "fewer-kernels", "--accept", "not-comparable")
"""Kernels, and figures, that the baseline knows and the build does not have, are all right."""
SPILLS_ALONE = ("--set", "max_register_growth=none")
"""The demo's older build spills less and takes more registers."""


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """The baseline of the demo's head build."""
    path = tmp_path / NAME
    assert run("baseline", "write", HEAD, "-o", path).returncode == 0
    return path


def edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def test_adopted_debt_passes(baseline: Path) -> None:
    assert run("check", HEAD).returncode == 1
    result = run("check", HEAD, "--baseline", baseline)
    assert result.returncode == 0
    assert result.stdout.decode().splitlines() == [
        "0 findings in 12 kernels (sm_80, sm_90a)",
        "baseline: 2 known",
        "not checked: blocks per SM of 12 kernels (block size unknown; --launch 'GLOB=THREADS')",
        "not checked: source lines of 2 spilling kernels (compile with -lineinfo, pass the binary too)",
    ]


def test_written_by_default_where_it_is_looked_for(tmp_path: Path) -> None:
    result = run("baseline", "write", HEAD, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert result.stdout.decode() == "spillscan-baseline.jsonl: 12 kernels known, 2 findings recorded\n"
    assert (tmp_path / NAME).exists()


def test_a_baseline_that_is_not_read_is_named(tmp_path: Path) -> None:
    said = f"{NAME} is not read: give --baseline {NAME}, or name it in the policy"
    run("baseline", "write", HEAD, cwd=tmp_path)
    alone = run("check", HEAD, cwd=tmp_path)
    assert (alone.returncode, said in alone.stderr.decode()) == (1, True)
    for given in (("--baseline", NAME), ("--config", "policy.yaml")):
        (tmp_path / "policy.yaml").write_text(f"version: 1\nbaseline: {NAME}\n")
        read = run("check", HEAD, *given, cwd=tmp_path)
        assert (read.returncode, said in read.stderr.decode()) == (0, False), read.stderr


def test_written_again_it_is_the_same_bytes_whatever_the_order(tmp_path: Path, baseline: Path) -> None:
    before = baseline.read_bytes()
    assert run("baseline", "write", HEAD, "-o", baseline).returncode == 0
    assert baseline.read_bytes() == before
    blocks = re.split(r"(?=^ptxas info    : Compiling entry)", HEAD.read_text(), flags=re.MULTILINE)
    mixed = tmp_path / "mixed.log"
    mixed.write_text("".join(blocks[:1] + blocks[:0:-1]))
    again = tmp_path / "again.yaml"
    assert run("baseline", "write", mixed, "-o", again).returncode == 0
    assert again.read_bytes() == before


@pytest.mark.oracle
def test_a_large_build_is_adopted_whole(tmp_path: Path) -> None:
    path = tmp_path / NAME
    assert run("baseline", "write", LARGE, "-o", path).returncode == 0
    result = run("check", LARGE, "--baseline", path, "-f", "json")
    assert result.returncode == 0
    value = json.loads(result.stdout)
    conforms(value)
    assert value["baseline"]["counts"]["known"] == len(value["findings"]) > 400
    assert sum(value["baseline"]["counts"].values()) == len(value["findings"])


def test_entries_of_other_builds_stay(baseline: Path, tmp_path: Path) -> None:
    """One CI job an arch, one baseline."""
    only = tmp_path / "only.yaml"
    run("baseline", "write", HEAD, "-o", only, "--arch", "sm_80")
    assert "sm_90a" not in only.read_text()
    run("baseline", "write", HEAD, "-o", only, "--arch", "sm_90a")
    assert only.read_bytes() == baseline.read_bytes()
    for arch in ("sm_80", "sm_90a"):
        assert run("check", HEAD, "--baseline", only, "--arch", arch).returncode == 0


def test_what_is_written_says_what_it_changes(tmp_path: Path) -> None:
    path = tmp_path / NAME
    run("baseline", "write", BASE, "-o", path)
    result = run("baseline", "write", HEAD, "-o", path)
    assert result.stdout.decode() == f"{path}: 12 kernels known, 2 findings recorded (before: 2 new)\n"


@pytest.mark.parametrize(
    "log",
    [
        FIXTURES / "hostile" / "nothing.log",
        FIXTURES / "ptxas" / "broken-13.0.log",
    ],
)
def test_half_a_build_is_not_adopted(baseline: Path, log: Path) -> None:
    before = baseline.read_bytes()
    for action in ("write", "prune"):
        result = run("baseline", action, log, "-o", baseline)
        assert result.returncode == 2
        assert b"Traceback" not in result.stdout + result.stderr
        assert baseline.read_bytes() == before


def test_undecided_kernels_are_said_and_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / NAME
    log = tmp_path / "build.log"  # relocatable: registers are not final
    log.write_bytes(
        b"nvcc -dc -Xptxas -v calls.cu -o calls.o\n" + (FIXTURES / "ptxas" / "calls-c-13.0.log").read_bytes()
    )
    refused = run("baseline", "write", log, "-o", path, "--set", "max_registers=255")
    assert (refused.returncode, path.exists()) == (2, False)
    assert b"[registers-not-final]" in refused.stderr
    accepted = ("--accept", "registers-not-final")
    result = run("baseline", "write", log, "-o", path, "--set", "max_registers=255", *accepted)
    assert result.returncode == 0
    assert "kernels are undecided and not recorded" in result.stdout.decode()
    assert run("check", log, "--set", "max_registers=255", "--baseline", path).returncode == 2


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    result = run("baseline", "write", HEAD, "-o", tmp_path / "no" / "folder.yaml")
    assert result.returncode == 2
    assert result.stderr.decode().count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_is_left_alone(baseline: Path) -> None:
    edit(baseline, lambda text: text.replace('"name":"model::gemm', '"nmae":"model::gemm', 1))
    before = baseline.read_bytes()
    for arguments in (
        ("baseline", "write", HEAD, "-o", baseline),
        ("baseline", "prune", HEAD, "-o", baseline),
        ("check", HEAD, "--baseline", baseline),
        ("diff", BASE, HEAD, "--baseline", baseline),
    ):
        result = run(*arguments)
        assert result.returncode == 2
        line = result.stderr.decode()
        assert line.startswith(f"spillscan: {baseline}:")
        assert ": not a line of a baseline: Object contains unknown field 'nmae'" in line
        assert result.stdout == b""
        assert baseline.read_bytes() == before


def test_no_file(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    result = run("check", HEAD, "--baseline", path)
    assert result.returncode == 2
    hint = f"No such file or directory; `spillscan baseline write {HEAD} -o {path}` creates one"
    assert hint in result.stderr.decode()


# ---- states --------------------------------------------------------------------------------------------------------


def worsened(log: Path, tmp_path: Path, before: str, after: str) -> Path:
    text = read_text(log)
    assert before in text
    path = tmp_path / "worse.log"
    path.write_text(text.replace(before, after, 1))
    return path


def test_worse_fails_and_says_what_was_recorded(baseline: Path, tmp_path: Path) -> None:
    log = worsened(HEAD, tmp_path, "216 bytes spill loads", "220 bytes spill loads")
    result = run("check", log, "--baseline", baseline)
    assert result.returncode == 1
    line, *rest = result.stdout.decode().splitlines()
    assert line.endswith(
        "gemm<8> (sm_80) spills 304 B stores, 220 B loads; recorded: loads 216, stores 304 [spill, worse]"
    )
    assert "baseline: 1 worse, 1 known" in rest


def test_better_passes_until_it_is_pruned(baseline: Path, tmp_path: Path) -> None:
    log = worsened(HEAD, tmp_path, "216 bytes spill loads", "200 bytes spill loads")
    said = run("check", log, "--baseline", baseline).stdout
    assert b"\nbaseline: 1 known, 1 better\n" in said
    assert run("check", HEAD, "--baseline", baseline).returncode == 0
    result = run("baseline", "prune", log, "-o", baseline)
    assert result.stdout.decode() == f"{baseline}: 0 dropped, 1 lowered; 12 kernels known, 2 findings recorded\n"
    assert run("check", log, "--baseline", baseline).returncode == 0
    assert run("check", HEAD, "--baseline", baseline).returncode == 1, "what got better may not get worse again"


def test_prune_drops_what_is_gone(baseline: Path) -> None:
    missing = run("check", BASE, "--baseline", baseline, *SPILLS_ALONE)
    assert missing.returncode == 2
    assert "baseline: 2 fixed, 2 stale" in missing.stdout.decode().splitlines()
    gone = "lists 2 kernels (model::gather (sm_80), model::gather (sm_90a)) that the build does not have"
    assert gone in missing.stdout.decode()
    assert run("check", BASE, "--baseline", baseline, *FEWER, *SPILLS_ALONE).returncode == 0
    run("baseline", "write", BASE, "-o", baseline)
    assert run("check", BASE, "--baseline", baseline).returncode == 2, "writing adopts, it forgets no kernel"
    assert run("baseline", "prune", BASE, "-o", baseline).stdout.startswith(f"{baseline}: 2 dropped".encode())
    assert run("check", BASE, "--baseline", baseline).returncode == 0
    assert "spill:" not in baseline.read_text()


def test_json_has_states(baseline: Path) -> None:
    value = json.loads(
        run(
            "check",
            BASE,
            "--baseline",
            baseline,
            *FEWER,
            "-f",
            "json",
            *SPILLS_ALONE,
        ).stdout
    )
    conforms(value)
    assert value["baseline"]["counts"] == {
        "new": 0,
        "worse": 0,
        "known": 0,
        "better": 0,
        "fixed": 2,
        "stale": 2,
        "suppressed": 0,
    }
    assert {(each["short_name"], each["arch"], each["rule"]) for each in value["baseline"]["fixed"]} == {
        ("model::gemm<8>", "sm_80", "spill"),
        ("model::gemm<8>", "sm_90a", "spill"),
    }
    assert {(each["short_name"], each["rule"]) for each in value["baseline"]["stale"]} == {("model::gather", None)}
    findings = json.loads(run("check", HEAD, "--baseline", baseline, "-f", "json").stdout)["findings"]
    assert [each["baseline_state"] for each in findings] == ["known"] * 2
    findings = json.loads(run("check", HEAD, "-f", "json").stdout)["findings"]
    assert [each["baseline_state"] for each in findings] == [None] * 2


def test_diff_excuses_what_is_recorded(baseline: Path, tmp_path: Path) -> None:
    assert run("diff", BASE, HEAD, "--fail-on", "policy").returncode == 1
    result = run("diff", BASE, HEAD, "--fail-on", "policy", "--baseline", baseline)
    assert result.returncode == 0
    assert b"[spill" not in result.stdout
    said = result.stdout  # stack and registers are notes, not recorded
    assert b"baseline: 4 new, 2 known\n" in said
    log = worsened(HEAD, tmp_path, "216 bytes spill loads", "220 bytes spill loads")
    result = run("diff", BASE, log, "--fail-on", "policy", "--baseline", baseline)
    assert result.returncode == 1
    assert result.stdout.count(b"[spill, worse]") == 1


def test_growth_below_what_is_recorded_is_excused(baseline: Path, tmp_path: Path) -> None:
    """Spills that fell and rose again: the rule of the change is another, the figures are the same."""
    base = worsened(HEAD, tmp_path, "216 bytes spill loads", "100 bytes spill loads")
    assert run("diff", base, HEAD, "--fail-on", "policy").returncode == 1
    assert run("diff", base, HEAD, "--fail-on", "policy", "--baseline", baseline).returncode == 0
    assert run("baseline", "prune", base, "-o", baseline).returncode == 0
    result = run("diff", base, HEAD, "--fail-on", "policy", "--baseline", baseline)
    assert result.returncode == 1
    assert result.stdout.count(b"[spill-growth, worse]") == 1


def test_a_selection_makes_no_kernel_missing(baseline: Path) -> None:
    for selection in (("--kernel", "softmax"), ("--arch", "sm_80"), ("--arch", "sm_80", "--kernel", "*gemm*")):
        result = run("check", HEAD, "--baseline", baseline, *selection)
        assert result.returncode == 0, result.stderr
        assert b"stale" not in result.stdout


def test_expected_kernels() -> None:
    assert run("check", BASE, "--set", "expect_kernels=10").returncode == 0
    result = run("check", BASE, "--set", "expect_kernels=11")
    assert result.returncode == 2
    assert b"10 kernels where at least 11 are expected [fewer-kernels]" in result.stdout
    assert run("check", HEAD, "--set", "expect_kernels=99").returncode == 1, "findings are reported first"
    assert run("diff", BASE, BASE, "--fail-on", "policy", "--set", "expect_kernels=11").returncode == 2


def test_what_the_input_does_not_tell_counts_where_it_would_fail(tmp_path: Path) -> None:
    log, dump = (FIXTURES / "sass" / name for name in ("ptxas-13.5.log", "nvdisasm-c-sm_90a-13.5.sass"))
    path = tmp_path / NAME
    assert run("baseline", "write", log, dump, "-o", path).returncode == 0
    assert run("check", log, dump, "--baseline", path, "--fail-on", "note").returncode == 0
    assert run("check", log, "--baseline", path).returncode == 0
    result = run("check", log, "--baseline", path, "--fail-on", "warning")
    assert result.returncode == 2
    assert b"records spill-in-loop of " in result.stdout + result.stderr
    assert (
        run(
            "check",
            log,
            "--baseline",
            path,
            "--fail-on",
            "warning",
            *FEWER,
        ).returncode
        == 0
    )
    assert (
        run("check", log, "--baseline", path, "--fail-on", "warning", "--severity", "spill-in-loop=off").returncode == 0
    )


def test_the_policy_may_name_the_baseline(tmp_path: Path, baseline: Path) -> None:
    (tmp_path / "spillscan.yaml").write_text(f"baseline: {NAME}\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert run("check", HEAD, cwd=tmp_path, env=environment).returncode == 0
    assert run("check", HEAD, "--config", "none", cwd=tmp_path, env=environment).returncode == 1
    (tmp_path / "spillscan.yaml").write_text("baseline: other.yaml\n")
    assert run("check", HEAD, cwd=tmp_path, env=environment).returncode == 2
    assert run("baseline", "write", HEAD, cwd=tmp_path, env=environment).returncode == 0
    assert (tmp_path / "other.yaml").read_bytes() == baseline.read_bytes()


# ---- another checkout ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["two", "rdc"])
def test_it_holds_in_another_checkout(tmp_path: Path, other: str) -> None:
    """Anonymous namespaces and statics are named after the place of their source; -rdc puts it before more names."""
    one, two = (FIXTURES / "nvcc" / f"checkout-{name}-13.0.log" for name in ("one", other))
    path, again = tmp_path / NAME, tmp_path / "again.yaml"
    assert run("baseline", "write", one, "-o", path).returncode == 0
    result = run("check", two, "--baseline", path)
    assert result.returncode == 0, result.stderr
    assert b"\nbaseline: 6 known\n" in result.stdout
    assert run("baseline", "write", two, "-o", again).returncode == 0
    assert again.read_bytes() == path.read_bytes()
    worse = worsened(two, tmp_path, "780 bytes spill stores", "784 bytes spill stores")
    result = run("check", worse, "--baseline", path)
    assert result.returncode == 1
    assert b"hidden (sm_80) spills 784 B stores" in result.stdout
    assert b"baseline: 1 worse, 5 known\n" in result.stdout


def test_registers_that_are_not_recorded_leave_a_growth_limit_open(baseline: Path) -> None:
    edit(baseline, lambda text: re.sub(r'"registers":[0-9]+,', "", text))
    assert run("check", HEAD, "--baseline", baseline).returncode == 0
    limit = ("--set", "max_register_growth=0")
    result = run("check", HEAD, "--baseline", baseline, *limit)
    assert (result.returncode, b"[unknown-registers]" in result.stdout) == (2, True)
    assert run("baseline", "write", HEAD, "-o", baseline).returncode == 0
    assert run("check", HEAD, "--baseline", baseline, *limit).returncode == 0
