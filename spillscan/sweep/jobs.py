"""One run of ptxas: a module, an arch, a setting. What it printed and wrote is kept by content."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from spillscan.sweep import ptx
from spillscan.sweep.cache import Cache, key
from spillscan.sweep.frontend import Module, reason
from spillscan.sweep.process import Crew
from spillscan.sweep.settings import Setting
from spillscan.sweep.toolkits import Toolkit

_SOURCE, _CUBIN = "kernel.ptx", "kernel.cubin"
_MOST_NAMES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one compilation."""

    log: bytes = b""
    """What ``ptxas -v`` printed."""
    cubin: bytes = b""
    """What it wrote."""
    failure: str = ""
    """Why there is neither, one line; empty where there is."""
    cached: bool = False
    """Whether it was compiled in an earlier run."""


def command(toolkit: Toolkit, arch: str, module: Module, cap: int | None, only: Sequence[str]) -> list[str]:
    """ptxas's words, for files of fixed names in the current folder. ``only`` names the entries to compile, which are
    then compiled as in the whole module (measured); of relocatable code, or without names, all are.
    """
    capped = [] if cap is None else [f"-maxrregcount={cap}"]
    some = (
        ["-e", ",".join(only)] if only and len(only) <= _MOST_NAMES and "--compile-only" not in module.options else []
    )
    return [toolkit.ptxas, "-v", f"-arch={arch}", *module.options, *capped, *some, _SOURCE, "-o", _CUBIN]


def compile_at(
    setting: Setting,
    toolkit: Toolkit,
    arch: str,
    module: Module,
    cap: int | None,
    only: Sequence[str],
    crew: Crew,
    cache: Cache,
) -> Outcome:
    """Compile ``module`` at ``setting``; ``cap`` is the build's own, which only a cap of the sweep replaces."""
    text = ptx.rewritten(module.text, setting).encode("utf-8", "surrogateescape")
    words = command(toolkit, arch, module, setting.registers if setting.kind == "cap" else cap, only)
    name = key("cubin", toolkit.banner, text, *words[1:])
    kept = cache.get(name)
    if kept is not None and len(kept) == 2:
        return Outcome(log=kept[0], cubin=kept[1], cached=True)
    with tempfile.TemporaryDirectory(prefix="spillscan-") as folder:
        with open(os.path.join(folder, _SOURCE), "wb") as file:
            file.write(text)
        ended = crew.run(words, folder)
        try:
            with open(os.path.join(folder, _CUBIN), "rb") as file:
                cubin = file.read()
        except OSError:
            cubin = b""
    if ended.status or ended.why or not cubin:
        return Outcome(failure=reason("ptxas", ended))
    cache.put(name, ended.err, cubin)
    return Outcome(log=ended.err, cubin=cubin)
