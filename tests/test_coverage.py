"""Which GPUs can run a file, and what it must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan import cli
from spillscan.coverage import Archs
from tests.binary.support import stored
from tests.binary.test_weight import zipped


@pytest.mark.parametrize(
    ("machine", "portable", "wanted", "lacking"),
    [
        ("sm_80 sm_90a", "", "sm_80 sm_90a", ""),
        ("sm_80 sm_90a", "", "sm_90", "sm_90"),  # what only 9.0 itself runs is not asked for
        ("sm_80", "", "sm_86", "sm_86"),
        ("", "compute_90", "compute_90 compute_120", ""),
        ("", "compute_90", "compute_80", "compute_80"),
        ("", "compute_100", "compute_90 compute_120", "compute_90"),
        ("", "compute_90a", "compute_90 compute_120", "compute_90 compute_120"),  # no later GPU compiles it
        ("", "compute_90a", "compute_90a", ""),
        ("sm_90", "", "compute_90", "compute_90"),
        ("", "", "sm_80", "sm_80"),
    ],
)
def test_what_is_lacking(machine: str, portable: str, wanted: str, lacking: str) -> None:
    held = Archs(machine=set(machine.split()), portable=set(portable.split()))
    assert held.lacks(wanted.split()) == lacking.split()


@pytest.mark.parametrize(
    ("archs", "gpu", "runs"),
    [
        ("sm_80 sm_86", "sm_89", ["sm_80", "sm_86"]),
        ("sm_86", "sm_80", []),
        ("sm_90a", "sm_90", ["sm_90a"]),
        ("sm_100f", "sm_103", ["sm_100f"]),
        ("sm_100a", "sm_103", []),
        ("sm_86 sm_87", "sm_87", ["sm_87"]),  # Tegra
        ("sm_87", "sm_89", []),
        ("compute_80", "sm_75", []),
        ("compute_80", "sm_121", ["compute_80"]),
        ("compute_90a", "sm_100", []),
        ("compute_90a", "sm_90", ["compute_90a"]),
    ],
)
def test_what_runs_where(archs: str, gpu: str, runs: list[str]) -> None:
    held = Archs()
    for arch in archs.split():
        (held.machine if arch.startswith("sm_") else held.portable).add(arch)
    assert [arch for found in held.for_gpu(gpu) for arch in found] == runs


@pytest.mark.parametrize("command", ["size", "check"])
def test_the_gate(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gemm.o"
    path.write_bytes(stored("plain-13.5.o"))
    assert cli.main([command, str(path), "--require-archs", "sm_80,sm_90a"]) == 0
    assert cli.main([command, str(path), "--require-archs", "sm_80,sm_86,compute_120"]) == 2
    assert "no code for sm_86, compute_120, which the policy requires" in capsys.readouterr().err
    accept = ["--accept", "arch-required"]
    assert cli.main([command, str(path), "--require-archs", "sm_86", *accept]) == 0
    assert cli.main([command, str(path), "--require-archs", "sm86"]) == 2
    assert "'sm86' is no arch" in capsys.readouterr().err


def test_each_member_counts_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "package.whl"
    members = ("a.o", stored("plain-13.5.o")), ("b.cubin", stored("sass-sm_75-13.5.cubin")), ("x.py", b"pass\n")
    path.write_bytes(zipped(*members))
    assert cli.main(["size", str(path), "--require-archs", "sm_80"]) == 2
    found = capsys.readouterr().err
    assert "b.cubin: no code for sm_80" in found
    assert "more like it" not in found
    assert cli.main(["size", str(path), "--gpus", "-f", "csv"]) == 0
    rows = {row.split(",")[0]: row.split(",")[-2:] for row in capsys.readouterr().out.splitlines()}
    assert rows["7.5"] == ["1", "1"]
    assert rows["9.0"] == ["1", "1"]
    assert rows["8.0"] == ["1", "1"]
    assert rows["7.0"] == ["0", "2"]
