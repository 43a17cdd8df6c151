"""The command by a real ptxas: metrics, formats, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import stat
from pathlib import Path

import pytest

from spillscan.advice.sweep import ptx
from spillscan.advice.sweep.settings import Setting
from tests.advice.sweep.support import PTX, PTXAS, by_hand, curves, run

FEW = ("--kernel", "gemm<8, 8>", "--kernel", "attention<32>")
WORDS = (PTX, *FEW, "--arch", "sm_90", "--limits", "64", "--bounds", "256x4", "--launch", "gemm*=256,1024")
SETTINGS = (Setting(), Setting(limit=64), Setting(threads=256, blocks=4))


def test_each_point_equals_ptxas() -> None:
    found = curves(*WORDS)
    assert len(found) == 2
    for curve in found:
        for setting, point in zip(SETTINGS, curve["points"], strict=True):
            text = PTX.read_text() if setting == Setting() else ptx.rewritten(PTX.read_text(), setting)
            names = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes")
            assert tuple(point[name] for name in names) == by_hand(text, "sm_90")[curve["symbol"]]
            assert point["setting"] == setting.label
    gemm = next(each for each in found if "gemm" in each["symbol"])
    assert [each["blocks_per_sm"] for each in gemm["points"]] == [2, 4, 4]
    assert [each["best"] for each in gemm["points"]] == [True, True, False]


def test_every_form(tmp_path: Path) -> None:
    forms = [word for form in ("csv", "json", "markdown", "html") for word in ("-f", f"{form}:{tmp_path / form}")]
    status, said, errors = run("sweep", *WORDS, "-f", "text", *forms)
    assert (status, errors) == (0, "")
    assert "* 64       64  1,224/1,224        2,092    560          4     32  50%  registers" in said
    assert ": 256 threads, 1,024 B dynamic shared memory\n" in said
    rows = list(csv.DictReader(io.StringIO((tmp_path / "csv").read_text())))
    points = [each for curve in json.loads((tmp_path / "json").read_text())["curves"] for each in curve["points"]]
    assert [row["registers"] for row in rows] == [str(each["registers"]) for each in points]
    assert "1,224/1,224" in (tmp_path / "markdown").read_text()
    page = (tmp_path / "html").read_text()
    assert "1,224/1,224" in page
    assert '"label":"256x4"' in page.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "words", "why"),
    [
        ("nothing", (), "has no .target"),
        (".version 8.0\n.target sm_90\n", (), "no kernel"),
        (None, ("--kernel", "nope"), "matches none of"),
        (None, ("--arch", "compute_90"), "not a real arch"),
        (None, ("--limits", "0"), "not a register count"),
        (None, ("--launch", "nope=256", *FEW), "no kernel matches --launch"),
        (".version 8.0\n.target sm_90\n.entry k() { what; }\n", (), "nothing could be compiled: ptxas: "),
    ],
)
def test_refused(text: str | None, words: tuple[str, ...], why: str, tmp_path: Path) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(PTX.read_text() if text is None else text)
    status, said, errors = run("sweep", file, *words, "--limits", "255")
    assert (status, said) == (2, "")
    assert why in errors
    assert "Traceback" not in errors


def test_a_setting_that_fails_is_a_row(tmp_path: Path) -> None:
    """Hostile output of a compiler is escaped; a silent failure shows its exit status."""
    stand_in = tmp_path / "ptxas"
    stand_in.write_text(
        f'#!/bin/sh\nfor last; do :; done\ncase "$1" in --version) exec {PTXAS} --version ;; esac\n'
        "grep -q '.maxnreg 40' \"$5\" && { printf '\\033[2J\\342\\200\\256 error: bad ##[error]x\\n' >&2; exit 255; }\n"
        f'grep -q \'.maxnreg 41\' "$5" && exit 9\nexec {PTXAS} "$@"\n'
    )
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    words = ("sweep", PTX, "--kernel", "fft<8>", "--arch", "sm_90", "--limits", "40,41,48")
    status, said, errors = run(*words, path=str(tmp_path))
    assert status == 0
    assert "2 settings failed" in errors
    assert "40: ptxas: " in said
    assert "41: ptxas: exit status 9" in said
    assert not {"\x1b", "\u202e"} & {*said, *errors}


def test_without_a_compiler(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k() {}")
    status, _, errors = run("sweep", tmp_path / "k.cu", PATH="/nowhere", CUDA_HOME="")
    assert status == 2
    assert "nvcc" in errors
