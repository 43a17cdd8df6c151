"""Compile one translation unit at one setting, by the steps of its own command.

``nvcc --dryrun`` prints the steps of a command; only those that lead to one cubin are run. The preprocessor gets a
header, before all others, that makes launch bounds empty and puts a mark after ``__global__``. Each setting replaces
the mark and is compiled to PTX, where the bounds are verified. A kernel without exactly the requested bounds is
compiled from edited PTX, and its result is marked so.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import NamedTuple

from spillscan.advice.sweep import ptx
from spillscan.advice.sweep.settings import AS_IS, FIRST_WITH_MAXNREG, Setting, release
from spillscan.advice.sweep.units import Unit, tool
from spillscan.output.errors import InputError

_TIMEOUT_SECONDS = 600
_MARK = "__spillscan_bounds__"
_HEADER = (
    f"#include <cuda_runtime.h>\n#undef __global__\n#define __global__ __attribute__((global)) {_MARK}\n"
    + "".join(
        f"#undef {name}\n#define {name}(...)\n" for name in ("__launch_bounds__", "__maxnreg__", "__block_size__")
    )
)
LIMIT = re.compile(r"--?maxrregcount[= ](\d+)")
_VERSION = re.compile(rb"\bV(\d+(?:\.\d+)+)")
_VARIABLE = re.compile(r"\$(\w+)")
_ERROR = re.compile("error|fatal", re.IGNORECASE)
_Words = list[str]


class FailedError(Exception):
    """A step failed; the message is one line."""


class Compiled(NamedTuple):
    """Result of one run of ptxas."""

    symbols: tuple[str, ...]
    """Kernels that were compiled."""
    log: bytes = b""
    """Output of ``ptxas -v``."""
    cubin: bytes = b""
    failure: str = ""
    """Why there is no cubin, in one line."""
    in_ptx: bool = False
    """Whether bounds of a CUDA source were edited into its PTX; in the source they may give other code."""


class _Steps(NamedTuple):
    """Commands that lead to one cubin."""

    before: list[_Words]
    """Steps up to preprocessed source."""
    front_end: _Words
    """Step from there to PTX."""
    ptxas: _Words
    environment: dict[str, str]


class Module:
    """One translation unit for one arch: its PTX as built, and compilation at any setting."""

    def __init__(self, unit: Unit, arch: str, folder: Path, index: int = 0) -> None:
        """``index``: number of the ptxas run in the unit's command."""
        self.unit, self.arch = unit, arch
        self._folder, self._index = folder, index
        self._written: dict[Setting, tuple[str, _Words]] = {}
        self._marked: Path | None = None
        """Folder with the preprocessed, marked source; ``None`` if it does not compile with the header."""
        if unit.is_ptx:
            self.text = Path(unit.path).read_text("utf-8", "surrogateescape")
            self._ptxas, self._environment = [tool("ptxas"), f"-arch={arch}", unit.path, "-o", ""], dict(os.environ)
        else:
            steps = self._preprocessed(unit.words, folder / "as-is")
            self.text, self._ptxas, self._environment = self._front_end(steps), steps.ptxas, steps.environment
            header = folder / "bounds.h"
            header.write_text(_HEADER)
            self._words = [unit.words[0], "-include", str(header), *unit.words[1:]]
            with suppress(FailedError):
                self._preprocessed(self._words, folder / "marked")
                self._marked = folder / "marked"
        self.kernels = ptx.kernels(self.text)
        version = _VERSION.search(_run([self._ptxas[0], "--version"], "", dict(os.environ)))
        self.version = version[1].decode() if version else ""
        """Release of ptxas, such as ``13.0.88``."""

    @property
    def options(self) -> str:
        """Options of ptxas."""
        return " ".join(self._ptxas[1:])

    @cached_property
    def _as_built(self) -> list[Compiled]:
        """All kernels compiled together, as in the build: code depends on the constants of the other kernels."""
        return self._assembled(self.text, self._ptxas, self.kernels)

    def compile(self, setting: Setting, symbols: Collection[str]) -> list[Compiled]:
        """Compile the kernels ``symbols`` at ``setting``."""
        if setting == AS_IS:
            every = len(symbols) == len(self.kernels)
            return self._as_built if every else self._assembled(self.text, self._ptxas, symbols)
        compiled: list[Compiled] = []
        if self._marked and not setting.shared_spills:
            old = setting.limit is not None and release(self.version) < FIRST_WITH_MAXNREG
            with suppress(FailedError):
                text, words = self._by_header(self._marked, setting, old=old)
                compiled = self._assembled(text, words, self._confirmed(text, symbols, AS_IS if old else setting))
        left = set(symbols).difference(*(each.symbols for each in compiled))
        text = ptx.rewritten(self.text, setting) if left else ""
        confirmed = self._confirmed(text, sorted(left), setting)
        edited = self._assembled(text, self._ptxas, confirmed)
        refused = tuple(left.difference(confirmed))
        edited += [Compiled(refused, failure="not tried: these bounds cannot be set in its PTX")] if refused else []
        return compiled + [each._replace(in_ptx=not self.unit.is_ptx) for each in edited]

    def _by_header(self, marked: Path, setting: Setting, *, old: bool) -> tuple[str, _Words]:
        """PTX compiled at ``setting`` with the header, and the ptxas command.

        ``old``: before 12.4, limits are an option: the last one counts, and only if a kernel has no bounds.
        """
        if setting not in self._written:
            words = [*self._words, f"-maxrregcount={setting.limit}"] if old else self._words
            mark = b"" if old else setting.attribute.encode()
            with TemporaryDirectory(dir=self._folder) as place:
                for file in marked.iterdir():
                    Path(place, file.name).write_bytes(file.read_bytes().replace(_MARK.encode(), mark))
                steps = self._steps(words, Path(place))
                if old and LIMIT.findall(" ".join(steps.ptxas))[-1:] != [str(setting.limit)]:
                    raise FailedError("a later compiler option overrides this limit")
                self._written[setting] = self._front_end(steps), steps.ptxas
        return self._written[setting]

    def _confirmed(self, text: str, symbols: Collection[str], setting: Setting) -> list[str]:
        """Kernels with exactly the bounds of ``setting`` in the PTX ``text``."""
        made = ptx.kernels(text)
        return [each for each in symbols if each in made and made[each].has(setting, self.kernels[each])]

    def _assembled(self, text: str, words: _Words, symbols: Collection[str]) -> list[Compiled]:
        """Compile kernels of ``text`` with ptxas: together, or each alone if that fails."""
        if not symbols:
            return []
        relocatable = "--compile-only" in words or "-c" in words
        only = [] if relocatable or len(symbols) == len(self.kernels) else ["-e", ",".join(symbols)]
        own, output = next(each for each in words[1:] if each.endswith(".ptx")), words.index("-o") + 1
        with TemporaryDirectory(dir=self._folder) as place:
            source, cubin = Path(place, "kernel.ptx"), Path(place, "kernel.cubin")
            source.write_text(text, "utf-8", "surrogateescape")
            here = [str(cubin if at == output else source if each == own else each) for at, each in enumerate(words)]
            try:
                log = _run([here[0], "-v", *only, *here[1:]], self.unit.folder, self._environment)
                return [Compiled(tuple(symbols), log, cubin.read_bytes())]
            except FailedError as error:
                failed = Compiled(tuple(symbols), failure=str(error))
        if len(symbols) == 1 or relocatable:
            return [failed]
        return [made for each in symbols for made in self._assembled(text, words, [each])]

    def _front_end(self, steps: _Steps) -> str:
        """Run the front end and return its PTX."""
        _run(steps.front_end, self.unit.folder, steps.environment)
        return Path(steps.front_end[steps.front_end.index("-o") + 1]).read_text("utf-8", "surrogateescape")

    def _preprocessed(self, words: Sequence[str], place: Path) -> _Steps:
        """Steps of a command that keeps its files in ``place``, run up to preprocessed source."""
        place.mkdir()
        for file in self._folder.glob("as-is/*module_id"):  # names of static kernels depend on it
            shutil.copy(file, place)
        steps = self._steps(words, place)
        for step in steps.before:
            if not any(map(os.path.exists, _made(step))):
                _run(step, self.unit.folder, steps.environment)
        return steps

    def _steps(self, words: Sequence[str], keep: Path) -> _Steps:
        steps, environment = dry_run(words, self.unit.folder, keep)
        last = [at for at, step in enumerate(steps) if _tool(step) == "ptxas"][self._index]
        needed, wanted = [], set(steps[last])
        for step in reversed(steps[:last]):
            if not wanted.isdisjoint(_made(step)):
                needed.append(step)
                wanted.update(step)
        if not needed:
            raise FailedError("the command compiles no CUDA source; for PTX, pass the file alone")
        front_end, *before = needed
        return _Steps(before[::-1], front_end, steps[last], environment)


class Workshop:
    """Modules of the compiled units, each made once, in a temporary folder."""

    def __init__(self) -> None:
        self._temporary = TemporaryDirectory(prefix="spillscan-")
        self._made: dict[tuple[Unit, int, str], Module] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()

    def modules(self, unit: Unit, archs: Sequence[str] = ()) -> list[Module]:
        """Modules of ``unit`` for ``archs``, by default for all archs of its command.

        Raises :class:`~spillscan.InputError` if it cannot be compiled.
        """
        try:
            made = self._archs(unit)
            if unit.is_ptx and archs:
                made = list(archs)
            if missing := [arch for arch in archs if arch not in made]:
                known = ", ".join(dict.fromkeys(made))
                hint = f"choose one of its archs with --arch: {known}"
                raise InputError(f"{unit.path} is not compiled for {missing[0]}", hint)
            with self._lock:
                return [self._module(unit, arch, at) for at, arch in enumerate(made) if not archs or arch in archs]
        except FailedError as error:
            raise InputError(f"{unit.path} does not compile: {error}") from None

    def _archs(self, unit: Unit) -> list[str]:
        """Arch of each ptxas run; for PTX, its target."""
        if unit.is_ptx:
            if own := ptx.target(Path(unit.path).read_text("utf-8", "surrogateescape")):
                return [own]
            raise InputError(f"{unit.path} is not PTX: it has no .target", "create it with nvcc -ptx")
        steps, _ = dry_run(unit.words, unit.folder, Path(self._temporary.name))
        runs = [step for step in steps if _tool(step) == "ptxas"]
        if archs := [word[6:] for step in runs for word in step if word.startswith("-arch=")]:
            return archs
        raise InputError(f"nvcc produces no machine code from {unit.path}", "use options such as -c -arch=sm_90")

    def _module(self, unit: Unit, arch: str, index: int) -> Module:
        key = unit, index, arch
        if key not in self._made:
            self._made[key] = Module(unit, arch, Path(mkdtemp(dir=self._temporary.name)), index)
        return self._made[key]


def dry_run(words: Sequence[str], folder: str, keep: Path) -> tuple[list[_Words], dict[str, str]]:
    """Steps of an nvcc command that keeps its files in ``keep``, and their environment."""
    command = [*words, "--keep", "--keep-dir", str(keep), "-t", "1", "--dryrun"]
    output = _run(command, folder, dict(os.environ)).decode("utf-8", "surrogateescape")
    steps: list[_Words] = []
    variables: dict[str, str] = {}
    for line in output.splitlines():
        name, equals, value = line.removeprefix("#$ ").partition("=")
        if equals and name.isidentifier():
            variables[name] = value
        elif line.startswith("#$ ") and not line.startswith("#$ --"):
            steps.append(shlex.split(_VARIABLE.sub(lambda match: variables.get(match[1], match[0]), line[3:])))
    environment = os.environ | variables
    for step in steps:
        step[0] = shutil.which(step[0], path=environment["PATH"]) or step[0]
    return [each for each in steps if _tool(each) != "ptxas" or "-o" in each], environment  # else it only checks PTX


def _tool(step: Sequence[str]) -> str:
    return os.path.basename(step[0])


def _made(step: Sequence[str]) -> _Words:
    """Files written by a step and read by a device step."""
    options = ("-o", *["--module_id_file_name"] * ("--gen_module_id_file" in step))
    return [word for option, word in pairwise(step) if option in options]


def _run(command: Sequence[str], folder: str, environment: dict[str, str]) -> bytes:
    """Run a program and return what it prints. Raises FailedError if it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=folder or None,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"{_tool(command)} took more than {_TIMEOUT_SECONDS} s") from None
    except OSError as error:
        raise FailedError(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        why = next(filter(_ERROR.search, lines), lines[-1] if lines else f"exit status {done.returncode}")
        raise FailedError(f"{_tool(command)}: {why.strip()}")
    return done.stdout
