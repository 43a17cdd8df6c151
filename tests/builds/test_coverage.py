"""Archs that a file must hold."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from spillscan import cli, scan
from spillscan.builds.coverage import Archs, of_build
from tests.conftest import FIXTURES
from tests.reading.binary.support import stored
from tests.reading.binary.test_size_accounting import zipped

ROWS = yaml.safe_load((Path(__file__).parent / "coverage.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("machine", "portable", "wanted", "lacking"), ROWS["lacking"])
def test_missing_archs(machine: str, portable: str, wanted: str, lacking: str) -> None:
    held = Archs(machine=set(machine.split()), portable=set(portable.split()))
    assert held.lacks(wanted.split()) == lacking.split()


@pytest.mark.parametrize("command", ["size", "check"])
def test_the_gate(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gemm.o"
    path.write_bytes(stored("plain-13.5.o"))
    assert cli.main([command, str(path), "--set", "require_archs=sm_80,sm_90a"]) == 0
    assert cli.main([command, str(path), "--set", "require_archs=sm_80,sm_86,compute_120"]) == 2
    said = capsys.readouterr()
    (line,) = (line for text in said for line in text.splitlines() if "no code for" in line)
    start = {"size": "spillscan: gemm.o: ", "check": "gemm.o: incomplete: "}[command].replace("gemm.o", str(path))
    lacking = "no code for sm_86, compute_120 (required by the policy); found sm_80 sm_90a [arch-required]"
    assert line.startswith(start + lacking)
    accept = ["--accept", "arch-required"]
    assert cli.main([command, str(path), "--set", "require_archs=sm_86", *accept]) == 0
    assert cli.main([command, str(path), "--set", "require_archs=sm86"]) == 2
    assert "'sm86' is not an arch" in capsys.readouterr().err


def test_each_member_counts_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "package.whl"
    members = ("a.o", stored("plain-13.5.o")), ("b.cubin", stored("sass-sm_75-13.5.cubin")), ("x.py", b"pass\n")
    path.write_bytes(zipped(*members))
    assert cli.main(["size", str(path), "--set", "require_archs=sm_80"]) == 2
    found = capsys.readouterr().err
    assert "b.cubin: no code for sm_80" in found
    assert "more like it" not in found
    path.write_bytes(stored("sass-sm_75-13.5.cubin").replace(b".text.", b".none."))
    assert cli.main(["size", str(path), "--set", "require_archs=sm_75"]) == 2  # no function


def test_versions_of_ptx_in_binaries_are_those_of_their_text(tmp_path: Path) -> None:
    path = tmp_path / "linked.so"
    path.write_bytes(stored("linked-13.5.so"))
    build = scan(path)
    modules = [module for module in build.portable if module.form == "PTX"]
    assert {module.arch for module in modules} == of_build(build)[str(path)].portable != set()
    assert {module.version for module in modules} == {"9.5"}
    text = FIXTURES / "ptx" / "sweep.ptx"
    (module,) = scan(text).portable
    assert f".version {module.version}" in text.read_text()


def test_the_gate_of_a_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, policy = tmp_path / "package.whl", tmp_path / "policy.yaml"
    data = stored("linked-13.5.so")
    path.write_bytes(zipped(("a.o", data), ("lib/b.o", data)))
    size = path.stat().st_size

    def said(command: str, *options: str) -> tuple[int, str]:
        status = cli.main([command, str(path), "--config", str(policy), *options])
        return status, "".join(capsys.readouterr())

    def says(text: str) -> None:
        policy.write_text(f"version: 1\n{text}")

    says("require_archs: sm_86\n")
    status, text = said("size")
    assert status == 2
    assert f"{path} > a.o: no code for sm_86 (required by the policy); found compute_80 sm_80" in text
    assert " [arch-required], and 1 more gap; compile for that arch" in text
    assert said("size", "--set", "require_archs=sm_80")[0] == 0
    for most, expected in ((size, 0), (size - 1, 1), (0, 1), ("none", 0)):
        says(f"max_file_bytes: {most}\n")
        assert said("size")[0] == expected
    assert said("size", "--set", f"max_file_bytes={size - 1}")[0] == 1
    says("max_file_bytes: 1\n")
    assert cli.main(["config", "--config", str(policy)]) == 0
    assert "max_file_bytes: 1\n" in capsys.readouterr().out


@pytest.mark.parametrize(("text", "error"), ROWS["mistakes"])
def test_mistakes_in_a_policy(text: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, policy = tmp_path / "plain.o", tmp_path / "policy.yaml"
    path.write_bytes(stored("plain-13.5.o"))
    policy.write_text(f"version: 1\n{text}\n")
    assert cli.main(["size", str(path), "--config", str(policy)]) == 2
    assert capsys.readouterr().err.startswith(f"spillscan: {policy}:2: {error}")
