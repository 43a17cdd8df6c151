"""Compilers and disassemblers of the fixtures' toolchains, run by oracles."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.conftest import FIXTURES, ROOT

sys.path.insert(0, str(FIXTURES))

from maker.toolchains import Toolchains, default_cache, download

__all__ = ["FIXTURES", "ROOT", "default_cache", "download", "ptx", "root", "said", "tool"]
TOOLCHAINS = Toolchains(FIXTURES / "cases.yaml", None)
NVRTC = "nvrtc-11.7"


@cache
def root(toolchain: str) -> Path:
    """Folder of a toolchain of ``cases.yaml``."""
    return TOOLCHAINS.root(toolchain)


def tool(toolchain: str, name: str) -> Path:
    """A program of a toolchain."""
    return root(toolchain) / "bin" / name


def said(*words: object, errors: bool = False, cwd: Path | None = None, **variables: str) -> str:
    """Output of a program, or what it writes to standard error; it must succeed. Its folder is first on the path."""
    command = [str(word) for word in words]
    path = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **variables}
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, env=environment, cwd=cwd
    )
    if done.returncode:
        raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stderr if errors else done.stdout


def ptx(text: str, target: Path, *options: str) -> Path:
    """PTX of a CUDA source, for any architecture; the headers of the fixtures' sources can be included."""
    source = target.with_suffix(".cu")
    source.write_text(text)
    flags = ("--gpu-architecture=compute_52", "--std=c++14", "-default-device", *options)
    maker, library = FIXTURES / "maker" / "libraries.py", str(root(NVRTC) / "lib")
    command = (sys.executable, maker, "nvrtc", *flags, source, "-o", target)
    said(*command, cwd=FIXTURES / "sources", LD_LIBRARY_PATH=library)
    return target
