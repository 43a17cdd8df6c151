"""Shared code of the sweep tests: PyPI's ptxas, nvcc if there is one, and runs of both by hand."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.conftest import FIXTURES, ROOT
from tests.conftest import run as command

PTX = FIXTURES / "ptx" / "sweep.ptx"
_NVIDIA = find_spec("nvidia")
PTXAS = next(
    Path(place, "cuda_nvcc", "bin", "ptxas") for place in (_NVIDIA and _NVIDIA.submodule_search_locations) or ["/"]
)
NVCC = shutil.which("nvcc")
_ENTRY = re.compile(
    r"Compiling entry function '(\S+)' for '(\S+)'\n.*\n.*?(\d+) bytes stack frame, (\d+) bytes spill stores,"
    r" (\d+) bytes spill loads\n.*Used (\d+) registers"
)
Metrics = dict[str, tuple[int, int, int, int]]
"""Registers, stack, spill stores and spill loads, by symbol."""


def run(*words: str | Path, folder: Path = ROOT, path: str = "", **environment: str) -> tuple[int, str, str]:
    """Status, output and messages of the command, with no toolkit but PyPI's ptxas and what is in ``path``."""
    places = [*([path] if path else []), str(PTXAS.parent), "/usr/bin", "/bin"]
    variables = os.environ | {"PYTHONPATH": str(ROOT), "PATH": ":".join(places), **environment}
    variables.pop("CUDA_HOME", None)
    done = command(*words, cwd=folder, env=variables)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def curves(*words: str | Path, **keywords: Any) -> list[dict[str, Any]]:
    """The curves of `sweep -f json`."""
    status, said, errors = run("sweep", *words, "-f", "json", **keywords)
    assert status == 0, errors
    found: list[dict[str, Any]] = json.loads(said)["curves"]
    return found


def metrics_of(log: str) -> Metrics:
    """Metrics of each kernel in the output of ``ptxas -v``, by a regular expression."""
    return {each[1]: (int(each[6]), int(each[3]), int(each[4]), int(each[5])) for each in _ENTRY.finditer(log)}


@cache
def by_hand(text: str, arch: str, *options: str) -> Metrics:
    """Output of ptxas for a PTX module."""
    with TemporaryDirectory() as folder:
        source = Path(folder, "k.ptx")
        source.write_text(text)
        words = [PTXAS, "-v", f"-arch={arch}", *options, source, "-o", Path(folder, "k.cubin")]
        return metrics_of(subprocess.run(words, check=True, capture_output=True, text=True).stderr)
