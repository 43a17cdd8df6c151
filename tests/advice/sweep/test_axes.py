"""Axes of a sweep: each point is what its command makes of the kernel by hand; what is rejected is a row."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from spillscan.advice.sweep.axes import Axis, settings_of
from spillscan.output.errors import UsageError
from tests.advice.sweep.conftest import curves, run
from tests.advice.sweep.support import PTX, RELEASE, toolkit
from tests.advice.sweep.test_sweep import NVCC, PTXAS, calls

REAL = ("--vary", f"toolkit={RELEASE}", "--arch", "sm_90", "--kernel", "gemm<8, 8>")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def test_points_are_all_combinations_and_the_kernel_as_it_is() -> None:
    axes = [Axis("nvcc", "TILE=8,16", macro=True), Axis("ptxas", "return-at-end"), Axis("ptxas", "-O=1")]
    made = settings_of(["64"], ["x4"], [], axes)
    assert [each.label for each in made] == [
        "as is",
        *(
            f"{kind} TILE={tile}{end} O=1"
            for kind in ("cap 64", "x4")
            for tile in (8, 16)
            for end in ("", " return-at-end")
        ),
    ]
    assert made[2].source == "-maxrregcount=64 -DTILE=8 -Xptxas --return-at-end -Xptxas -O=1"
    assert settings_of(None, [], [], [Axis("pragma", "enable_smem_spilling")])[1].source == (
        'asm volatile (".pragma \\"enable_smem_spilling\\";");'
    )


@pytest.mark.parametrize(
    ("axis", "says"),
    [
        (Axis("nvcc", "TILE=", macro=True), "has no values"),
        (Axis("nvcc", "1x=2", macro=True), "is not an axis"),
        (Axis("ptxas", "maxrregcount=32"), "not an axis of its own"),
        (Axis("ptxas", "--output-file=x"), "not an axis of its own"),
        (Axis("pragma", 'x"; evil'), "is not an axis"),
        (Axis("ptxas", "opt-level=" + ",".join(map(str, range(3000)))), "3,000 points"),
    ],
)
def test_what_is_no_axis_is_refused(axis: Axis, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        settings_of(None, [], [], [axis])


def test_each_point_is_what_its_command_makes_of_it(tmp_path: Path) -> None:
    words = ("--vary", "maxnreg=64", "--vary", "ptxas.def-load-cache=ca,cg,none", "--cache", tmp_path)
    (curve,) = curves(PTX, *REAL, *words)
    assert [each["status"] for each in curve["points"]] == [0, 0, 0, 255]
    assert curve["points"][3]["failure"].startswith("ptxas ")
    (curve,) = curves(PTX, *REAL, "--vary", "ptxas.opt-level=1,2", "--cache", tmp_path)
    for point in curve["points"]:
        done = subprocess.run(point["command"], cwd=tmp_path, capture_output=True, text=True, check=True)
        about = done.stderr.partition(f"entry function '{curve['symbol']}'")[2]
        spills = SPILLS.search(about)
        assert spills
        assert (point["spill_store_bytes"], point["spill_load_bytes"]) == tuple(map(int, spills.groups()))
    assert len({point["registers"] for point in curve["points"]}) > 1


def test_points_behind_one_without_spills_are_left_out(tmp_path: Path) -> None:
    done = run(PTX, *REAL, "--vary", "maxnreg=64,32", "--stop", "-j", "1", "-f", "json", "--cache", "none")
    (curve,) = json.loads(done.stdout)["curves"]
    assert len(curve["points"]) == 1
    assert "2 points left out" in done.stderr


def test_macros_and_options_reach_nvcc_and_a_whole_build_is_swept(tmp_path: Path) -> None:
    kit = toolkit(tmp_path / "kit", "99.1.2", ptxas=PTXAS, nvcc=NVCC)
    entries = []
    for name, more in (("a", ""), ("b", ""), ("c", " -dlto")):
        (tmp_path / f"{name}.cu").write_text(name)
        line = f"{kit}/bin/nvcc -arch=sm_90{more} -c {name}.cu -o {name}.o"
        entries.append({"directory": ".", "command": line, "file": f"{name}.cu"})
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries))
    words = (
        "compile_commands.json",
        "--all",
        "-D",
        "TILE=8",
        "--vary",
        "nvcc.fmad=false",
        "--vary",
        "ptxas.fast",
        "--cache",
        "none",
    )
    done = run(*words, "-f", "json", folder=tmp_path, COUNT=str(tmp_path / "count"))
    assert done.returncode == 0, done.stderr
    assert "c.cu: link-time optimisation" in done.stderr
    reported = calls(tmp_path)
    for name in "ab":
        assert sum("-DTILE=8 --fmad=false -ptx" in call and call.endswith(f"{name}.cu") for call in reported) == 1
    assert sum(call.startswith("-v") and "--fast" in call for call in reported) == 2
    document = json.loads(done.stdout)
    labels = ["as is", "TILE=8 fmad=false", "TILE=8 fmad=false fast"]
    assert [(each["point"], each["kernels"], each["spill_bytes"]) for each in document["over_all"]] == [
        (label, 2, 32) for label in labels
    ]
    assert [each["best"] for each in document["over_all"]] == [True, False, False]
    inputs = [curve["input"] for curve in document["curves"]]
    assert [Path(each).name for each in inputs] == ["a.cu", "b.cu"]
    assert run(PTX, "-D", "TILE=8", "--cache", "none", *REAL).stderr.count("is PTX") == 1
