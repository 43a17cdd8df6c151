"""PTX in inputs, compiled by a real ptxas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spillscan.cli import main
from tests.reading.binary.test_embedded import TINY, entry, fat

PTX = b"""//
.version 7.0
.target sm_80
.address_size 64
.visible .entry tiny() { ret; }
.visible .entry alone() { ret; }
"""


def scanned(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[set[tuple[str, str, str]], list[str]]:
    """(symbol, arch, unit) of each kernel, and the codes of the issues."""
    assert main(["scan", "-f", "json", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    kernels = {(kernel["symbol"], kernel["arch"], kernel["unit"]) for kernel in found["kernels"]}
    return kernels, [issue["code"] for issue in found["issues"]]


def test_ptx_is_assembled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.ptx"
    file.write_bytes(PTX)
    assert scanned(capsys, str(file)) == (set(), ["ptx-only"])
    both = {("tiny", "sm_80", "compute_80"), ("alone", "sm_80", "compute_80")}
    assert scanned(capsys, "--assemble", str(file)) == (both, [])
    later = {(symbol, "sm_90", unit) for symbol, _, unit in both}
    assert scanned(capsys, "--assemble=90,sm_80", str(file)) == (both | later, [])


def test_existing_machine_code_is_not_assembled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.fatbin"
    file.write_bytes(fat(entry(TINY, 80)) + fat(entry(PTX, 80, kind=1)))
    found, issues = scanned(capsys, str(file), "--assemble")
    assert ("tiny", "sm_80", "") in found
    assert ("alone", "sm_80", "compute_80") in found
    assert ("tiny", "sm_80", "compute_80") not in found
    assert not issues


def test_an_architecture_before_that_of_the_ptx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kernels.ptx"
    file.write_bytes(PTX)
    kernels, issues = scanned(capsys, str(file), "--assemble=sm_75")
    assert not kernels
    assert issues == ["ptx-only", "ptx-only"]
