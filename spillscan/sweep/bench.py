"""Compiles many settings of many units at once, in the order asked for whatever ends first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from spillscan.output.progress import Progress
from spillscan.sweep import ptx
from spillscan.sweep.cache import Cache
from spillscan.sweep.commands import Unit
from spillscan.sweep.frontend import FailedError, FrontEnd, Module
from spillscan.sweep.jobs import Outcome, compile_at
from spillscan.sweep.process import Crew
from spillscan.sweep.settings import Setting
from spillscan.sweep.toolkits import Toolkit

_Value = TypeVar("_Value")
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Target:
    """A unit for one arch by one release of ptxas."""

    unit: Unit
    """What is compiled."""
    toolkit: Toolkit
    """Whose ptxas compiles it."""
    front_end: Toolkit | None
    """Whose nvcc makes its PTX; ``None`` of a unit that is PTX."""
    arch: str
    """Real arch."""


Chosen = Callable[[Target, Setting, ptx.Entry], bool]
"""Whether an entry of a target is to be compiled at a setting."""


class Bench:
    """A crew of compilers with a memory."""

    def __init__(self, crew: Crew, cache: Cache, workers: int, progress: Progress) -> None:
        self._crew, self._cache = crew, cache
        self._workers = workers
        self._progress = progress
        self._memory: dict[tuple[object, ...], Future[object]] = {}
        self._lock = threading.Lock()
        self.compiled = self.failed = 0

    def compile(self, requests: Sequence[tuple[Target, Setting]], chosen: Chosen | None = None) -> list[Outcome]:
        """The outcome of each request, in their order; with ``chosen``, of the entries that it chooses.

        Where the user interrupts it, every compiler is ended; what is done stays in the cache.
        """
        pool = ThreadPoolExecutor(self._workers)
        try:
            running = {pool.submit(self._outcome, *request, chosen): request for request in requests}
            pending = set(running)
            self._progress.expect(len(running))
            while pending:
                ended, pending = wait(pending, _PAUSE_SECONDS, FIRST_COMPLETED)
                for future in ended:
                    self._count(future.result())
                first = next((request for future, request in running.items() if future in pending), requests[-1])
                self._progress.reach(len(running) - len(pending), _described(*first))
            return [future.result() for future in running]
        except BaseException:
            self._crew.stop()
            raise
        finally:
            self._progress.close()
            pool.shutdown(wait=True, cancel_futures=True)

    def entries(self, target: Target) -> tuple[ptx.Entry, ...]:
        """Its kernels, as its PTX declares them; none where there is no PTX."""
        try:
            return ptx.entries(self._module(target, target.unit.cap).text)
        except FailedError:
            return ()

    def _count(self, outcome: Outcome) -> None:
        if outcome.failure:
            self.failed += 1
        elif not outcome.cached:
            self.compiled += 1

    def _outcome(self, target: Target, setting: Setting, chosen: Chosen | None) -> Outcome:
        own = target.unit.cap
        try:
            module = self._module(target, setting.registers if setting.kind == "cap" else own)
        except FailedError as error:
            return Outcome(failure=str(error))
        only = [entry.symbol for entry in ptx.entries(module.text) if chosen(target, setting, entry)] if chosen else []
        return compile_at(setting, target.toolkit, target.arch, module, own, only, self._crew, self._cache)

    def _module(self, target: Target, cap: int | None) -> Module:
        unit, front_end, arch = target.unit, target.front_end, target.arch
        if unit.is_ptx:
            return self._once((unit.path,), lambda: Module(text=_read(unit.path)))
        assert front_end is not None
        nvcc = FrontEnd(unit, front_end, arch, self._crew, self._cache)
        about = (unit, front_end.ptxas, arch)
        source, options = self._once(about, nvcc.prepare)
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


def _described(target: Target, setting: Setting) -> str:
    return f"{target.unit.path} {target.arch} {target.toolkit.version} {setting.label}"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise FailedError(f"{path}: {error.strerror}") from None
