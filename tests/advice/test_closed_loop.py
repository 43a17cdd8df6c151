"""A fix that is printed, applied and rebuilt, passes a check against the old baseline."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, run

SOURCE = """\
__global__ void k(const float* a, float* o) {
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
KERNELS = [
    ("sass.cu", "spills"),
    ("sass.cu", "spills_wide"),
    ("sass.cu", "array_and_spills"),
    ("bounds.cu", "bounds_free"),
    ("calls.cu", "call_big"),
    ("demo.cu", "softmax"),
    ("effects.cu", "relax"),
    ("inlined.cu", "deep"),
    ("local.cu", "local_and_spill"),
    ("mma.cu", "mma_4"),
    ("mma.cu", "mma_32"),
    ("ncu_demo.cu", "tile4x4"),
    ("operand_forms.cu", "textures"),
    ("smem_spill.cu", "smem_spill_off"),
    ("spill.cu", "spill_f32"),
    ("sweep.cu", "fft"),
    ("sweep.cu", "gemm"),
]
"""Kernels of our sources that spill with 32 registers."""
OF_FIXTURES = [
    (source, kernel, *limits)
    for source, kernel in KERNELS
    for limits in (
        ("__launch_bounds__(256, 8)", "", ""),
        ("__maxnreg__(32)", "", "*=256"),
        ("", "-maxrregcount=32", ""),
    )
]

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")


def spillscan(folder: Path, *words: str) -> tuple[int, str]:
    done = run(*words, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return done.returncode, (done.stdout + done.stderr).decode()


def built(folder: Path, bounds: str, option: str, pragma: str = "", source: str = SOURCE, name: str = "k") -> None:
    head = f"{bounds} {name}("
    text = source.replace("PRAGMA", pragma) if source == SOURCE else source
    (folder / "k.cu").write_text(re.sub(rf"(?<=__global__ void ){name}\(", lambda _: head, text))
    command = ["nvcc", "-arch=sm_90", *option.split(), "-I", str(ROOT / "fixtures/sources"), "-c", "k.cu", "-o", "k.o"]
    status, output = spillscan(folder, "run", "--", *command)
    assert status == 0, output


def loop(folder: Path, bounds: str, option: str, launch: str, source: str = SOURCE, name: str = "k") -> int:
    """Apply each fix that is printed, rebuild and check; the number of fixes."""
    launched = ["--launch", launch] if launch else []
    built(folder, bounds, option, source=source, name=name)
    assert spillscan(folder, "baseline", "write", "spillscan-build.json", *launched)[0] == 0
    words = ["advise", "spillscan-build.json", "--kernel", name, "--try", "-f", "json", *launched]
    status, output = spillscan(folder, *words)
    assert status == 0, output
    (family,) = json.loads(output.partition("\n}\n")[0] + "\n}")["first"]
    fixes: list[Any] = [each["text"] for each in family["fixes"] if each["kind"] == "fix"]
    for text in fixes:
        setting = text.partition(" in the kernel: ")[0] if text.startswith("asm") else text.partition(":")[0]
        if setting.startswith("asm"):
            built(folder, bounds, option, setting, source, name)
        else:
            built(folder, setting.partition(" in place")[0], option, source=source, name=name)
        check = ["check", "spillscan-build.json", "--baseline", "spillscan-baseline.jsonl", *launched]
        status, output = spillscan(folder, *check)
        assert status == 0, f"{text}\n{output}"
    return len(fixes)


@pytest.mark.oracle
@pytest.mark.parametrize(("bounds", "option", "launch"), LIMITS)
def test_an_applied_fix_is_not_red(bounds: str, option: str, launch: str, tmp_path: Path) -> None:
    assert loop(tmp_path, bounds, option, launch)


@pytest.mark.oracle
@pytest.mark.parametrize(("source", "kernel", "bounds", "option", "launch"), OF_FIXTURES)
def test_fixes_of_fixtures(source: str, kernel: str, bounds: str, option: str, launch: str, tmp_path: Path) -> None:
    loop(tmp_path, bounds, option, launch, (ROOT / "fixtures/sources" / source).read_text(), kernel)


@pytest.mark.oracle
def test_bounds_of_the_code_win_in_tries(tmp_path: Path) -> None:
    """A log does not show launch bounds, the compilation does."""
    built(tmp_path, "__launch_bounds__(64, 24)", "-Xptxas -v")
    command = ["nvcc", "-arch=sm_90", "-Xptxas", "-v", "-c", "k.cu", "-o", "k.o"]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    (tmp_path / "build.log").write_text(f"{shlex.join(command)}\n{printed}")
    status, output = spillscan(tmp_path, "advise", "build.log", "--launch", "*=512", "--try", "--config", "none")
    assert (status, "fix     __launch_bounds__(64, " in output) == (0, True), output
