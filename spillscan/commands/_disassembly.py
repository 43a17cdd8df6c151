"""The text of one kernel's machine code, by nvdisasm: the one thing about a binary that spillscan leaves to a tool."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from spillscan.errors import InputError, UsageError

if TYPE_CHECKING:
    from spillscan.model.code import SassFunction

_SECTION = "//-"
_TIMEOUT_SECONDS = 600


def nvdisasm() -> str:
    """The program: on the path, of a toolkit, or of the PyPI wheel. Raises where there is none."""
    homes = [Path(home) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    wheel = importlib.util.find_spec("nvidia")
    for place in wheel.submodule_search_locations or () if wheel else ():
        homes += sorted(Path(place).glob("*/bin"), reverse=True)
    for folder in (None, *homes):
        if found := shutil.which("nvdisasm", path=folder):
            return found
    raise UsageError("--sass needs nvdisasm", "pip install 'spillscan[cuda]', or put a CUDA toolkit's on the PATH")


def text_of(function: SassFunction, cubin: bytes) -> str:
    """What nvdisasm prints for one function of a cubin, with source lines where it has line information."""
    program = nvdisasm()
    with tempfile.TemporaryDirectory(prefix="spillscan-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [program, "-c", "-gi", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{program} failed: {error}") from error
    listing = done.stdout.decode(errors="replace")
    lines = listing.splitlines()
    heads = [index for index, line in enumerate(lines) if line.startswith(_SECTION)]
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        if lines[begin].split()[1:2] == [f".text.{function.symbol}"]:
            return "\n".join(lines[begin:end]).rstrip()
    said = (done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[0]
    raise InputError(f"{program} does not print {function.symbol} of {function.arch}: {said}", "is it recent enough?")
