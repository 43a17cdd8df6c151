"""Translation units to compile: a PTX file, a CUDA source, or a recorded command of nvcc."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from spillscan.builds.commands import Command, commands, is_database
from spillscan.builds.compilation import Compilation, parse
from spillscan.model.patterns import matches
from spillscan.model.symbols import short_name
from spillscan.output.errors import InputError, UsageError
from spillscan.output.nouns import count
from spillscan.reading import pipeline

NO_PTXAS = "put a toolkit's bin on the PATH, set CUDA_HOME, or pip install 'spillscan[sweep]'"
_WORD = re.compile(r"[A-Za-z_]\w*")


class Unit(NamedTuple):
    """One translation unit."""

    path: str
    """Path of its source, relative to the current folder."""
    words: tuple[str, ...] = ()
    """nvcc and its arguments; empty for PTX."""
    folder: str = ""
    """Folder in which the command runs; empty: the current one."""

    @property
    def is_ptx(self) -> bool:
        """Whether it is PTX, which ptxas compiles alone."""
        return not self.words


def units(text: str, globs: Sequence[str], archs: Sequence[str] = ()) -> list[Unit]:
    """Units named by an argument of the command.

    From a list of compilations (``compile_commands.json``, a run file), selects those whose objects, or else sources,
    contain kernels that match ``globs``. ``archs``: archs for a plain source. Raises :class:`~spillscan.SpillscanError`
    if nothing can be compiled.
    """
    if is_database(text):
        return _listed(text, [each for each in commands(text) if _by_nvcc(each.words)], globs)
    if " " in text and not os.path.exists(text):
        return [_of_words(shlex.split(text))]
    if not os.path.isfile(text):
        raise InputError(f"{text}: no such file", "pass a PTX file, a CUDA source, or a quoted nvcc command")
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
        if found := shutil.which(name, path=path):
            return os.path.abspath(found)
    if name == "nvcc":
        raise UsageError("a CUDA source needs nvcc, which was not found", "install a toolkit, or pass PTX (nvcc -ptx)")
    raise UsageError("no ptxas found", NO_PTXAS)


def _listed(path: str, listed: Sequence[Command], globs: Sequence[str]) -> list[Unit]:
    if not globs and len(listed) > 1:
        raise UsageError(f"{path} lists {count(len(listed), 'source')}", "choose kernels with --kernel GLOB")
    chosen = listed if len(listed) == 1 else [each for each in listed if _may_hold(each, globs)]
    found = [_of_words(each.words, each.folder, each.source) for each in chosen]
    if not found:
        built = sum(os.path.isfile(each.object) for each in listed)
        raise InputError(
            f"no source in {path} is known to contain {' or '.join(globs)}",
            f"{built:,} of {count(len(listed), 'object')} are built, and show which kernels they contain",
        )
    return found


def _of_words(words: Sequence[str], folder: str = "", source: str = "") -> Unit:
    """Unit of a command, whose words are kept unchanged, including response files."""
    found = _by_nvcc(words)
    if found is None:
        raise UsageError(f"{shlex.join(words)[:200]!r} does not call nvcc", "quote one command: 'nvcc … -c x.cu'")
    return Unit(source or found.source or words[-1], found.words, folder)


def _by_nvcc(words: Sequence[str]) -> Compilation | None:
    found = parse(words)
    return found if found is not None and found.tool == "nvcc" else None


def _may_hold(command: Command, globs: Sequence[str]) -> bool:
    """Whether the object contains one of the kernels or, without an object, the source mentions one."""
    if os.path.isfile(command.object):
        try:
            kernels = pipeline.scan(command.object).kernels
        except InputError:
            kernels = ()
        if kernels:
            return any(matches(kernel, glob) for kernel in kernels for glob in globs)
    try:
        with open(command.source, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return False
    return any(max(_WORD.findall(short_name(glob)), key=len, default="") in text for glob in globs)
