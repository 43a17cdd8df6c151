"""From a CUDA source to PTX, and the options that nvcc then gives ptxas: all as nvcc itself would do it.

nvcc tells its front end the register cap, and the PTX depends on it (measured: 13.0, six of seven sources). So each cap
has PTX of its own; what comes out the same is compiled once.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from dataclasses import dataclass

from spillscan.sweep.cache import Cache, key
from spillscan.sweep.commands import Unit
from spillscan.sweep.process import Crew, Ended
from spillscan.sweep.toolkits import Toolkit

_PTX = "kernel.ptx"
_SET_HERE = ("-arch=", "--gpu-name=", "-maxrregcount=", "--maxrregcount=")


class FailedError(Exception):
    """A compiler failed; the text is why, one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """PTX, and how to compile it."""

    text: str
    """The PTX."""
    options: tuple[str, ...] = ()
    """ptxas's options besides arch, cap and files."""


class FrontEnd:
    """nvcc on one unit for one arch."""

    def __init__(self, unit: Unit, toolkit: Toolkit, arch: str, crew: Crew, cache: Cache) -> None:
        assert toolkit.nvcc is not None
        self._unit, self._toolkit, self._arch = unit, toolkit, arch
        self._crew, self._cache = crew, cache
        self._nvcc = toolkit.nvcc

    def prepare(self) -> tuple[str, tuple[str, ...]]:
        """(hash of the preprocessed source, options for ptxas). Raises :class:`FailedError`."""
        preprocessed = self._run("-E", *self._for(self._unit.virtual(self._arch)))
        said = self._run("-cubin", "-o", "kernel.cubin", *self._for(self._arch), "--dryrun")
        options = ptxas_options(said.err.decode("utf-8", "surrogateescape"))
        if options is None:
            raise FailedError("nvcc --dryrun names no ptxas")
        return key(preprocessed.out), options

    def ptx(self, source: str, cap: int | None) -> str:
        """PTX at a cap, of the preprocessed source with that hash. Raises :class:`FailedError`."""
        words = [*self._for(self._unit.virtual(self._arch)), *([] if cap is None else [f"-maxrregcount={cap}"])]
        name = key("ptx", self._toolkit.banner, source, self._unit.path, *self._unit.options, *words)
        if kept := self._cache.get(name):
            return kept[0].decode("utf-8", "surrogateescape")
        with tempfile.TemporaryDirectory(prefix="spillscan-") as folder:
            target = os.path.join(folder, _PTX)
            self._run("-ptx", "-o", target, *words)
            with open(target, "rb") as file:
                data = file.read()
        self._cache.put(name, data)
        return data.decode("utf-8", "surrogateescape")

    def _for(self, code: str) -> tuple[str, ...]:
        return ("-gencode", f"arch={self._unit.virtual(self._arch)},code={code}")

    def _run(self, *words: str) -> Ended:
        ended = self._crew.run([self._nvcc, *self._unit.options, *words, self._unit.safe_path])
        if ended.status or ended.why:
            raise FailedError(reason("nvcc", ended))
        return ended


def ptxas_options(said: str) -> tuple[str, ...] | None:
    """ptxas's options from what ``nvcc --dryrun`` prints, without arch, cap and files; ``None`` where it runs none."""
    found = None
    for line in said.splitlines():
        if not line.startswith("#$ "):
            continue
        try:
            words = shlex.split(line[3:])
        except ValueError:
            continue
        if words and os.path.basename(words[0]) in ("ptxas", "ptxas.exe"):
            found = words[1:]
    if found is None:
        return None
    options: list[str] = []
    rest = iter(found)
    for word in rest:
        if word == "-o":
            next(rest, None)
        elif not word.endswith(".ptx") and not word.startswith(_SET_HERE) and word not in ("-v", "-m64"):
            options.append(word)
    return tuple(options)


def reason(tool: str, ended: Ended) -> str:
    """Why a compiler failed: its first line that names an error, else its last, else its exit status."""
    if ended.why:
        return f"{tool}: {ended.why}"
    lines = [
        line.strip() for line in (ended.err + b"\n" + ended.out).decode(errors="replace").splitlines() if line.strip()
    ]
    errors = [line for line in lines if "error" in line.lower() or "fatal" in line.lower()]
    said = errors[0] if errors else lines[-1] if lines else ""
    ending = f"ended by signal {-ended.status}" if ended.status < 0 else f"exit status {ended.status}"
    return said or f"{tool}: {ending}"
