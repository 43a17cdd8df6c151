"""What tests of sweeps share: a ptxas of PyPI, stand-ins for compilers, and points by hand."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from spillscan.advice.sweep.model import Depth, Point, Setting
from tests.conftest import FIXTURES

PTX = FIXTURES / "ptx" / "sweep.ptx"
RELEASE = "12.9"
"""Of the ptxas among the packages for development."""


def program(path: Path, code: str) -> Path:
    """A program of Python ``code`` at ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nimport os, sys, time, pathlib\n{code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def toolkit(folder: Path, version: str, ptxas: str = "", nvcc: str = "") -> Path:
    """A folder like a toolkit's; its ptxas says its version, and runs the code ``ptxas`` for anything else."""
    banner = f'if "--version" in sys.argv:\n    print("Cuda compilation tools, release 1, V{version}")\n    sys.exit(0)'
    program(folder / "bin" / "ptxas", f"{banner}\n{ptxas}")
    if nvcc:
        program(folder / "bin" / "nvcc", nvcc)
    return folder


def point(registers: int, warps: int, *, spills: int = 0, loops: int = 0, blocks: int | None = None) -> Point:
    """A point of so many spilled bytes, ``loops`` of them in loops."""
    depths = tuple(
        Depth(depth=depth, instructions=size // 4, bytes=size)
        for depth, size in ((1, loops), (0, spills - loops))
        if size
    )
    return Point(
        setting=Setting(kind="cap", registers=registers),
        registers=registers,
        spill_store_bytes=spills,
        spill_load_bytes=0,
        depths=depths,
        warps=warps,
        max_warps=64,
        blocks=blocks,
        threads=None if blocks is None else 256,
    )
