"""A snapshot is read back with every metric of the machine code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spillscan import scan
from spillscan.cli import main
from spillscan.model import Kernel
from spillscan.model.serialize import build_of
from tests.conforming import conforms
from tests.conftest import kernel_to_json
from tests.reading.disassembly.support import FIXTURES

INPUTS = sorted(path for path in FIXTURES.iterdir() if path.name.split("-")[0] in ("cuobjdump", "fatbin", "nvdisasm"))
DUMP = next(path for path in INPUTS if path.name.startswith("cuobjdump-sm_80-13.5"))


def reported(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    status = main([str(word) for word in words])
    return status, capsys.readouterr().out


def _said(kernel: Kernel) -> int:
    return 0 if kernel.sass is None else len(kernel.sass.opcodes)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: path.name)
def test_round_trip(path: Path) -> None:
    # The validator is slow: the largest records represent the others.
    kernels = sorted(scan(path).kernels, key=_said, reverse=True)
    for index, kernel in enumerate(kernels[:6]):
        assert kernel.sass is not None
        written = kernel_to_json(kernel)
        (read,) = build_of(json.dumps({"schema_version": 1, "kernels": [written]}).encode()).kernels
        assert kernel_to_json(read) == written
        again = read.sass
        assert again is not None
        assert (again.local.own.spill, again.local.frame) == (kernel.sass.local.own.spill, kernel.sass.local.frame)
        assert again.local.spills_in_loops == kernel.sass.local.spills_in_loops
        assert again.opcodes == kernel.sass.opcodes
        assert (again.live_peak, again.origin) == (kernel.sass.live_peak, kernel.sass.origin)
        if index == 0:
            conforms(written, part="kernel")


def test_commands_see_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, snapshot = FIXTURES / "ptxas-13.5.log", tmp_path / "build.json"
    snapshot.write_text(reported(capsys, "scan", log, DUMP, "-f", "json")[1])
    checked = reported(capsys, "check", log, DUMP, "-f", "gitlab")  # commands name their inputs
    assert reported(capsys, "check", snapshot, "-f", "gitlab") == checked
    assert "spill-in-loop" in checked[1]
    again = json.loads(reported(capsys, "scan", snapshot, "-f", "json")[1])["kernels"]
    assert again == json.loads(snapshot.read_text())["kernels"]
    assert sum(kernel["sass"] is not None for kernel in again) == 6


def test_disassembly_equals_its_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = tmp_path / "build.json"
    snapshot.write_text(reported(capsys, "scan", DUMP, "-f", "json")[1])
    status, text = reported(capsys, "diff", snapshot, DUMP, "-f", "json", "--fail-on", "policy")
    assert (status, json.loads(text)["changes"]) == (0, [])


def test_a_snapshot_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = tmp_path / "build.json"
    snapshot.write_text(reported(capsys, "scan", DUMP, "-f", "json")[1])
    (shown, kept) = (reported(capsys, "show", "spills", path)[1].splitlines() for path in (DUMP, snapshot))
    assert kept[0].split()[:2] == shown[0].split()[:2]
    assert kept[1:] == [line for line in shown[1:] if not line.startswith("    ")]


@pytest.mark.parametrize(
    ("field", "value"), [("instructions", -1), ("evidence", "guess"), ("opcodes", []), ("local", [{}]), ("flow", None)]
)
def test_unsound_snapshots(field: str, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(reported(capsys, "scan", DUMP, "-f", "json")[1])
    document["kernels"][0]["sass"][field] = value
    (tmp_path / "bad.json").write_text(json.dumps(document))
    assert main(["check", str(tmp_path / "bad.json")]) == 2
    assert "not a valid snapshot" in capsys.readouterr().err
