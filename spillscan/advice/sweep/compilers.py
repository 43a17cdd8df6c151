"""Compilers: from a unit to PTX and from PTX to machine code, many settings at once; what comes out the same is
compiled once, and what was compiled is kept by content.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import structs

from spillscan.advice.sweep import ptx
from spillscan.advice.sweep.command_line import TranslationUnit
from spillscan.advice.sweep.front_end import Cache, FailedError, FrontEnd, Module, key, reason
from spillscan.advice.sweep.model import AS_IS, Setting
from spillscan.advice.sweep.toolkits import Processes, Toolkit
from spillscan.output.progress import Progress

_SOURCE, _CUBIN = "kernel.ptx", "kernel.cubin"
_MOST_NAMES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What came of one compilation."""

    log: bytes = b""
    """What ``ptxas -v`` printed."""
    cubin: bytes = b""
    """What it wrote."""
    failure: str = ""
    """Why there is neither, one line; empty where there is."""
    status: int | None = 0
    """Exit status; ``None`` where no compiler ran."""
    cached: bool = False
    """Whether it was compiled in an earlier run."""
    in_ptx: bool = False
    """Whether bounds of a CUDA source stand in its PTX alone: in the source they may make other PTX."""


def command(
    toolkit: Toolkit, arch: str, module: Module, cap: int | None, only: Sequence[str], more: Sequence[str] = ()
) -> list[str]:
    """ptxas's words, for files of fixed names in the current folder. ``only`` names the entries to compile, which are
    then compiled as in the whole module (measured); of relocatable code, or without names, all are. Of an option that
    is given twice ptxas takes the last: ``more``.
    """
    capped = [] if cap is None else [f"-maxrregcount={cap}"]
    some = (
        ["-e", ",".join(only)] if only and len(only) <= _MOST_NAMES and "--compile-only" not in module.options else []
    )
    return [toolkit.ptxas, "-v", f"-arch={arch}", *module.options, *capped, *more, *some, _SOURCE, "-o", _CUBIN]


def compile_at(
    setting: Setting,
    toolkit: Toolkit,
    arch: str,
    module: Module,
    cap: int | None,
    only: Sequence[str],
    processes: Processes,
    cache: Cache,
) -> Compiled:
    """Compile ``module`` at ``setting``; ``cap`` is the build's own, which only a cap of the sweep replaces."""
    text = ptx.rewritten(module.text, setting).encode("utf-8", "surrogateescape")
    capped = setting.registers if setting.kind == "cap" else cap
    words = command(toolkit, arch, module, capped, only, setting.words("ptxas"))
    name = key("cubin", toolkit.banner, text, *words[1:], *_contents(setting))
    kept = cache.get(name)
    if kept is not None and len(kept) == 2:
        return Compiled(log=kept[0], cubin=kept[1], cached=True)
    with tempfile.TemporaryDirectory(prefix="spillscan-") as folder:
        with open(os.path.join(folder, _SOURCE), "wb") as file:
            file.write(text)
        ended = processes.run(words, folder)
        try:
            with open(os.path.join(folder, _CUBIN), "rb") as file:
                cubin = file.read()
        except OSError:
            cubin = b""
    if ended.status or ended.why or not cubin:
        return Compiled(failure=reason("ptxas", ended), status=ended.status)
    cache.put(name, ended.err, cubin)
    return Compiled(log=ended.err, cubin=cubin)


def _contents(setting: Setting) -> Iterator[bytes]:
    """Of files that options name, such as those of ``--apply-controls``."""
    for knob in setting.knobs:
        if os.path.isabs(knob.value):
            with contextlib.suppress(OSError):
                yield Path(knob.value).read_bytes()


_Value = TypeVar("_Value")
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class CompileTarget:
    """A unit for one arch by one release of ptxas."""

    unit: TranslationUnit
    """What is compiled."""
    toolkit: Toolkit
    """Whose ptxas compiles it."""
    front_end: Toolkit | None
    """Whose nvcc makes its PTX; ``None`` of a unit that is PTX."""
    arch: str
    """Real arch."""

    def at(self, setting: Setting) -> CompileTarget:
        """The same with what a setting gives nvcc; of an option that is given twice nvcc takes the last."""
        words = setting.words("nvcc")
        return replace(self, unit=replace(self.unit, options=(*self.unit.options, *words))) if words else self

    def by_hand(self, setting: Setting) -> tuple[str, ...]:
        """The command that compiles it, in the folder of the unit's own; bounds and pragmas stand in the source."""
        cap = setting.registers if setting.kind == "cap" else self.unit.cap
        capped = [] if cap is None else [f"-maxrregcount={cap}"]
        more = setting.words("ptxas")
        if self.front_end is None or self.front_end.nvcc is None:
            words = ["-v", f"-arch={self.arch}", *capped, *more, self.unit.safe_path]
            return (self.toolkit.ptxas, *words, "-o", _CUBIN)
        target = f"arch={self.unit.virtual(self.arch)},code={self.arch}"
        options = [*self.at(setting).unit.options, *capped, *(word for each in more for word in ("-Xptxas", each))]
        words = [*options, "-Xptxas", "-v", "-gencode", target, "-cubin", self.unit.safe_path]
        return (self.front_end.nvcc, *words, "-o", _CUBIN)


class CompileRequest(NamedTuple):
    """One compilation."""

    target: CompileTarget
    setting: Setting
    chosen: Callable[[ptx.PtxEntry], bool] | None = None
    """Which entries are to be compiled; ``None``: all."""


class Compilers:
    """As many compilers as may run at once, with a memory."""

    def __init__(self, processes: Processes, cache: Cache, workers: int, progress: Progress) -> None:
        self._processes, self._cache = processes, cache
        self.workers = workers
        """How many run at once."""
        self._progress = progress
        self._memory: dict[tuple[object, ...], Future[object]] = {}
        self._lock = threading.Lock()
        self.compiled = self.failed = 0

    def compile(self, requests: Sequence[CompileRequest]) -> list[Compiled]:
        """The outcome of each request, in their order.

        Where the user interrupts it, every compiler is ended; what is done stays in the cache.
        """
        pool = ThreadPoolExecutor(self.workers)
        try:
            running = {pool.submit(self._outcome, *request): request for request in requests}
            pending = set(running)
            self._progress.expect(len(running))
            while pending:
                ended, pending = wait(pending, _PAUSE_SECONDS, FIRST_COMPLETED)
                for future in ended:
                    self._count(future.result())
                first = next((request for future, request in running.items() if future in pending), requests[-1])
                self._progress.reach(len(running) - len(pending), _described(*first[:2]))
            return [future.result() for future in running]
        except BaseException:
            self._processes.stop()
            raise
        finally:
            self._progress.close()
            pool.shutdown(wait=True, cancel_futures=True)

    def entries(self, target: CompileTarget, setting: Setting = AS_IS) -> tuple[ptx.PtxEntry, ...]:
        """Its kernels, as its PTX declares them; none where there is no PTX."""
        try:
            return ptx.entries(self._module(target, setting).text)
        except FailedError:
            return ()

    def _count(self, outcome: Compiled) -> None:
        if outcome.failure:
            self.failed += 1
        elif not outcome.cached:
            self.compiled += 1

    def _outcome(
        self, target: CompileTarget, setting: Setting, chosen: Callable[[ptx.PtxEntry], bool] | None
    ) -> Compiled:
        own = target.unit.cap
        try:
            module = self._module(target, setting)
        except FailedError as error:
            return Compiled(failure=str(error), status=error.status)
        entries = [entry for entry in ptx.entries(module.text) if chosen is None or chosen(entry)]
        only = [entry.symbol for entry in entries] if chosen else []
        made = compile_at(setting, target.toolkit, target.arch, module, own, only, self._processes, self._cache)
        there = target.unit.is_ptx or all(ptx.has(entry, setting) for entry in entries)
        return made if there else replace(made, in_ptx=True)

    def _module(self, target: CompileTarget, setting: Setting) -> Module:
        target, cap = target.at(setting), setting.registers if setting.kind == "cap" else target.unit.cap
        unit, front_end, arch = target.unit, target.front_end, target.arch
        if unit.is_ptx:
            return self._once((unit.file,), lambda: Module(text=_read(unit.file)))
        assert front_end is not None
        nvcc = FrontEnd(unit, front_end, arch, self._processes, self._cache)
        about = (unit, front_end.ptxas, arch)
        source, options = self._once(about, nvcc.prepare)
        if setting.kind in ("bounds", "maxnreg"):
            bounds = structs.replace(setting, knobs=())
            with contextlib.suppress(FailedError):  # else they are put into the PTX alone
                return self._once(
                    (*about, cap, bounds), lambda: Module(text=nvcc.bounded(source, cap, bounds), options=options)
                )
        return self._once((*about, cap), lambda: Module(text=nvcc.ptx(source, cap), options=options))

    def _once(self, name: tuple[object, ...], make: Callable[[], _Value]) -> _Value:
        """What ``make`` gives, made by the first who asks; the others wait."""
        with self._lock:
            future = self._memory.get(name)
            mine = future is None
            if future is None:
                future = self._memory[name] = Future()
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:
                future.set_exception(error)
        return future.result()  # type: ignore[return-value]


def _described(target: CompileTarget, setting: Setting) -> str:
    return f"{target.unit.file} {target.arch} {target.toolkit.version} {setting.label}"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise FailedError(f"{path}: {error.strerror}") from None
