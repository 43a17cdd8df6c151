"""A fix that is printed, applied and rebuilt, passes a check against the old baseline."""

from __future__ import annotations

import json
import os
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, run

SOURCE = """\
__global__ void BOUNDS k(const float* a, float* o) {
  PRAGMA
  float v[64];
  _Pragma("unroll") for (int i = 0; i < 64; ++i) v[i] = a[i * 64 + threadIdx.x];
  __syncthreads();
  _Pragma("unroll") for (int i = 0; i < 64; ++i) o[i * 64 + threadIdx.x] = v[i] * v[63 - i] + v[(i * 7) % 64];
}
"""
LIMITS = [
    *product(("__launch_bounds__(64, 24)",), ("",), ("", "*=64")),
    *product(("__maxnreg__(40)",), ("",), ("", "*=64")),
    *product(("",), ("-maxrregcount=40",), ("", "*=64")),
    ("__launch_bounds__(1024)", "", "*=64"),
]
"""Launch bounds or register limit in the source, option of nvcc, launch."""

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")


def spillscan(folder: Path, *words: str) -> tuple[int, str]:
    done = run(*words, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return done.returncode, (done.stdout + done.stderr).decode()


def built(folder: Path, bounds: str, option: str, pragma: str = "") -> None:
    (folder / "k.cu").write_text(SOURCE.replace("BOUNDS", bounds).replace("PRAGMA", pragma))
    command = ["nvcc", "-arch=sm_90", *option.split(), "-c", "k.cu", "-o", "k.o"]
    status, said = spillscan(folder, "run", "--", *command)
    assert status == 0, said


@pytest.mark.oracle
@pytest.mark.parametrize(("bounds", "option", "launch"), LIMITS)
def test_an_applied_fix_is_not_red(bounds: str, option: str, launch: str, tmp_path: Path) -> None:
    launched = ["--launch", launch] if launch else []
    built(tmp_path, bounds, option)
    assert spillscan(tmp_path, "baseline", "write", "spillscan-build.json", *launched)[0] == 0
    status, said = spillscan(tmp_path, "advise", "spillscan-build.json", "--try", "-f", "json", *launched)
    assert status == 0, said
    (family,) = json.loads(said.partition("\n}\n")[0] + "\n}")["first"]
    fixes: list[Any] = [each["text"] for each in family["fixes"] if each["kind"] == "fix"]
    assert fixes
    for text in fixes:
        setting = text.partition(" in the kernel: ")[0] if text.startswith("asm") else text.partition(":")[0]
        if setting.startswith("asm"):
            built(tmp_path, bounds, option, setting)
        else:
            built(tmp_path, setting.partition(" in place")[0], option)
        check = ["check", "spillscan-build.json", "--baseline", "spillscan-baseline.jsonl", *launched]
        status, said = spillscan(tmp_path, *check)
        assert status == 0, f"{text}\n{said}"
