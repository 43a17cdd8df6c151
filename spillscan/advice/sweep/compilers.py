"""Compilers: from a CUDA source to PTX, as nvcc itself does it, and from PTX to machine code, many settings at once.

nvcc gives its front end the register cap, and the PTX depends on it (measured: 13.0, six of seven sources). So each cap
has PTX of its own; what comes out the same is compiled once, and what was compiled is kept by content.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from spillscan.advice.sweep import ptx
from spillscan.advice.sweep.command_line import TranslationUnit
from spillscan.advice.sweep.model import AS_IS, Setting
from spillscan.advice.sweep.toolkits import Ended, Processes, Toolkit
from spillscan.output.progress import Progress

_MOST_BYTES = 1 << 30


def key(*parts: str | bytes) -> str:
    """A hash of all parts; no two lists of parts share one."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


class Cache:
    """A folder of results by content hash, no entry of it half-written; ``None`` keeps nothing. What cannot be read,
    or is damaged, is not there: it is made anew."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str) -> tuple[bytes, ...] | None:
        """The pieces kept under ``name``."""
        if self._folder is None:
            return None
        try:
            data = self._place(name).read_bytes()
        except OSError:
            return None
        packed = zlib.decompressobj()
        try:
            body = packed.decompress(data, _MOST_BYTES)
            return msgspec.msgpack.decode(body, type=tuple[bytes, ...]) if packed.eof else None  # the checksum is right
        except (zlib.error, msgspec.DecodeError):
            return None

    def put(self, name: str, *pieces: bytes) -> None:
        """Keep ``pieces``; a full or read-only disk keeps nothing, and no result is the worse for it."""
        if self._folder is None:
            return
        body = zlib.compress(msgspec.msgpack.encode(pieces), 1)
        place = self._place(name)
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, draft = tempfile.mkstemp(dir=place.parent, prefix=".")
            try:
                with open(handle, "wb") as file:
                    file.write(body)
                os.replace(draft, place)
            except OSError:
                os.unlink(draft)
                raise

    def _place(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / name[:2] / name


_PTX = "kernel.ptx"
_SET_HERE = ("-arch=", "--gpu-name=", "-maxrregcount=", "--maxrregcount=")


class FailedError(Exception):
    """A compiler failed; the text is why, one line."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """PTX, and how to compile it."""

    text: str
    """The PTX."""
    options: tuple[str, ...] = ()
    """ptxas's options besides arch, cap and files."""


class FrontEnd:
    """nvcc on one unit for one arch."""

    def __init__(self, unit: TranslationUnit, toolkit: Toolkit, arch: str, processes: Processes, cache: Cache) -> None:
        assert toolkit.nvcc is not None
        self._unit, self._toolkit, self._arch = unit, toolkit, arch
        self._processes, self._cache = processes, cache
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
        name = key("ptx", self._toolkit.banner, source, self._unit.file, *self._unit.options, *words)
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
        command = [self._nvcc, *self._unit.options, *words, self._unit.safe_path]
        ended = self._processes.run(command, self._unit.folder or None)
        if ended.status or ended.why:
            raise FailedError(reason("nvcc", ended), ended.status)
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
            return ptx.entries(self._module(target.at(setting), target.unit.cap).text)
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
            module = self._module(target.at(setting), setting.registers if setting.kind == "cap" else own)
        except FailedError as error:
            return Compiled(failure=str(error), status=error.status)
        only = [entry.symbol for entry in ptx.entries(module.text) if chosen(entry)] if chosen else []
        return compile_at(setting, target.toolkit, target.arch, module, own, only, self._processes, self._cache)

    def _module(self, target: CompileTarget, cap: int | None) -> Module:
        unit, front_end, arch = target.unit, target.front_end, target.arch
        if unit.is_ptx:
            return self._once((unit.file,), lambda: Module(text=_read(unit.file)))
        assert front_end is not None
        nvcc = FrontEnd(unit, front_end, arch, self._processes, self._cache)
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


def _described(target: CompileTarget, setting: Setting) -> str:
    return f"{target.unit.file} {target.arch} {target.toolkit.version} {setting.label}"


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise FailedError(f"{path}: {error.strerror}") from None
