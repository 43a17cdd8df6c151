"""Translation units to compile: a PTX file, a CUDA source, or a recorded command of nvcc."""

from __future__ import annotations

import glob
import importlib.util
import os
import shlex
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from spillscan.builds import record
from spillscan.builds.compilation import parse
from spillscan.model.patterns import matches
from spillscan.output.errors import InputError, UsageError
from spillscan.output.nouns import count
from spillscan.reading import pipeline

NO_PTXAS = "put a toolkit's bin on the PATH, set CUDA_HOME, or pip install 'spillscan[sweep]'"


class Unit(NamedTuple):
    """One translation unit."""

    path: str
    """Path of its source, relative to the current folder."""
    words: tuple[str, ...] = ()
    """nvcc and its arguments; empty for PTX."""
    folder: str = ""
    """Folder in which the command runs; empty: the current one."""
    object: str = ""
    """Output of a recorded command, relative to the current folder; else empty."""

    @property
    def is_ptx(self) -> bool:
        """Whether it is PTX, which ptxas compiles alone."""
        return not self.words

    @property
    def is_bare(self) -> bool:
        """Whether it is a source that is compiled without options other than its archs."""
        return bool(self.words) and all(each == "-c" or each.startswith("-gencode=") for each in self.words[1:-1])


def units(text: str, globs: Sequence[str], archs: Sequence[str] = ()) -> list[Unit]:
    """Units named by an argument of the command.

    Of a run file, those with kernels that match ``globs``. ``archs``: archs for a plain source. Raises
    :class:`~spillscan.SpillscanError` if nothing can be compiled.
    """
    if record.is_one(text):
        return _recorded(text, globs)
    if " " in text and not os.path.exists(text):
        return [_of_words(shlex.split(text))]
    if not (exists := os.path.isfile(text)) or not text.endswith((".ptx", ".cu")):
        what = "neither PTX (.ptx) nor a CUDA source (.cu)" if exists else "no such file"
        raise InputError(f"{what}: {text}", "pass a PTX file, a CUDA source, or a quoted nvcc command")
    if text.endswith(".ptx"):
        return [Unit(text)]
    targets = [f"-gencode=arch=compute_{arch[3:]},code={arch}" for arch in archs]
    return [Unit(text, (tool("nvcc"), *targets, "-c", text))]


def tool(name: str) -> str:
    """Path of nvcc or ptxas: the first of PATH, CUDA_HOME, /usr/local/cuda, PyPI's wheels. Raises UsageError."""
    spec = importlib.util.find_spec("nvidia")
    wheels = [glob.escape(place) for place in (spec.submodule_search_locations or () if spec else ())]
    homes = [os.environ.get("CUDA_HOME") or ".", "/usr/local/cuda"]
    homes += [home for place in wheels for name in ("cu[0-9]*", "cuda_nvcc") for home in glob.glob(f"{place}/{name}")]
    for path in (None, *(os.path.join(home, "bin") for home in homes)):
        if program := shutil.which(name, path=path):
            return os.path.abspath(program)
    if name == "nvcc":
        raise UsageError("no nvcc found to compile CUDA source", "install a toolkit, put nvcc on the PATH, or pass PTX")
    raise UsageError("no ptxas found", NO_PTXAS)


def _recorded(path: str, globs: Sequence[str]) -> list[Unit]:
    calls = [each for each in record.read(path).compilations if _nvcc(each.command)]
    if not globs and len(calls) > 1:
        raise UsageError(f"no kernel chosen from {count(len(calls), 'source')} in {path}", "pass --kernel GLOB")
    kernels = [each for each in pipeline.scan(path).kernels if any(matches(each, glob) for glob in globs)]
    files = {each.key.unit for each in kernels} | {origin.input for each in kernels for origin in each.origins}
    chosen = calls if len(calls) == 1 else [each for each in calls if not files.isdisjoint((each.object, each.source))]
    if not chosen:
        wanted = " or ".join(globs) or "a kernel"
        raise InputError(f"{path} has no compilation of {wanted}", "check the name, or pass a quoted nvcc command")
    return [Unit(each.source, _nvcc(each.command), each.folder, each.object) for each in chosen]


def _of_words(words: Sequence[str]) -> Unit:
    """Unit of a command, whose words are kept unchanged, including response files."""
    if not (own := _nvcc(words)):
        raise UsageError(f"{shlex.join(words)[:200]!r} does not call nvcc", "pass an nvcc command: 'nvcc … -c x.cu'")
    made = parse(own)
    return Unit(made.source if made and made.source else own[-1], own)


def _nvcc(words: Sequence[str]) -> tuple[str, ...]:
    """nvcc and its arguments, without launchers such as ccache; empty if the command does not call nvcc."""
    call = parse(words)
    return call.words if call is not None and call.tool == "nvcc" else ()
