"""How a build folder was configured, as CMake and Meson wrote it down: what was given that is not their default.

CMake keeps each option's value, not who gave it. So the project is configured once more beside it, without options, and
what comes out otherwise was given; again with those, since an option may bring others, until nothing is left.
"""

from __future__ import annotations

import ast
import configparser
import glob
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct

from spillscan.builds.commands import real_path

_ENTRY = re.compile(r"(?:^(//.*)\n)?^([^\s#/=:][^=:\n]*):([A-Z]+)=(.*)$", re.MULTILINE)
_GIVEN = "No help, variable specified on the command line."
_NOT_OPTIONS = frozenset({"INTERNAL", "STATIC"})
COMPILER = "CMAKE_CUDA_COMPILER"
_OWN = frozenset({
    "CMAKE_CUDA_COMPILER_LAUNCHER", COMPILER, "CMAKE_EXPORT_COMPILE_COMMANDS", "CUDAToolkit_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR", "CUDA_NVCC_EXECUTABLE", "CMAKE_INSTALL_PREFIX", "CMAKE_MAKE_PROGRAM",
})  # fmt: skip
"""What a job says in its own way, what comes with its toolkit, and what decides nothing of kernels."""
_ROUNDS = 6
_SECONDS = 600
_DEEPEST = 4
_LARGEST = 64 << 20
_LONGEST_LITERAL = 1 << 16
_RELEASE = re.compile(r'CMAKE_CUDA_COMPILER_VERSION "([\d.]+)"')
_PATHS = ("PATH", "FILEPATH")


class Entry(Struct, frozen=True):
    """An option of a configured folder."""

    value: str
    kind: str = "STRING"
    """CMake's type."""
    given: bool = False
    """It says itself that it comes from the command line."""


class Configured(Struct, frozen=True, kw_only=True):
    """A build folder, as its build system says it was made."""

    system: str
    """``CMake``, ``scikit-build`` or ``Meson``."""
    folder: str
    """The build folder, absolute."""
    source: str
    """The folder of the sources, absolute."""
    entries: Mapping[str, Entry]
    """All options, given or not."""
    program: str = ""
    """The build system's command."""
    version: str = ""
    """Its version: ``3.25.1``."""
    generator: str = ""
    """CMake's: ``Ninja``."""
    release: str = ""
    """The compiler's: ``13.0.88``; empty where nothing says."""

    @property
    def launcher(self) -> str:
        """The compiler launcher that CMake has; empty: none."""
        entry = self.entries.get("CMAKE_CUDA_COMPILER_LAUNCHER")
        return "" if entry is None else entry.value

    @property
    def paths(self) -> dict[str, str]:
        """What it found or was given outside of its sources, by option."""
        inside = (os.path.join(self.source, ""), os.path.join(self.folder, ""))
        return {
            name: each.value
            for name, each in self.entries.items()
            if each.kind in _PATHS and os.path.isabs(each.value) and os.path.exists(each.value)
            if not os.path.join(each.value, "").startswith(inside)
        }


def above(path: str) -> Configured | None:
    """The build folder that ``path`` is or lies in, up to the top of its repository; ``None`` where none says."""
    folder = os.path.realpath(path)
    while (found := of_folder(folder)) is None:
        if os.path.exists(os.path.join(folder, ".git")) or os.path.dirname(folder) == folder:
            return None
        folder = os.path.dirname(folder)
    return found


def below(path: str) -> Configured | None:
    """The first build folder in ``path``, of sources that are of the same repository as ``path``."""
    for place, folders, files in os.walk(path):
        depth = os.path.relpath(place, path).count(os.sep)
        folders[:] = sorted(name for name in folders if name != ".git") if depth < _DEEPEST else []
        if {"CMakeCache.txt", "meson-private"} & {*files, *folders}:
            return of_folder(os.path.realpath(place))
    return None


def of_folder(folder: str) -> Configured | None:
    """How ``folder`` itself was configured; ``None`` where neither CMake nor Meson says."""
    entries = cache_of(os.path.join(folder, "CMakeCache.txt"))
    if entries is None:
        return _meson(folder)

    def said(name: str) -> str:
        return entries[name].value if name in entries else ""

    version = ".".join(said(f"CMAKE_CACHE_{part}_VERSION") for part in ("MAJOR", "MINOR", "PATCH"))
    compiler = _text(os.path.join(folder, "CMakeFiles", version, "CMakeCUDACompiler.cmake"))
    release = _RELEASE.search(compiler)
    return Configured(
        system="scikit-build" if os.path.exists(os.path.join(folder, "CMakeInit.txt")) else "CMake",
        folder=folder,
        source=real_path(said("CMAKE_HOME_DIRECTORY") or folder),
        entries={name: entry for name, entry in entries.items() if entry.kind not in _NOT_OPTIONS},
        program=said("CMAKE_COMMAND"),
        version=version,
        generator=said("CMAKE_GENERATOR"),
        release=release[1] if release else "",
    )


def cache_of(path: str) -> dict[str, Entry] | None:
    """The entries of a ``CMakeCache.txt`` (``NAME:TYPE=VALUE`` below a line of help); ``None`` where there is none."""
    text = _text(path)
    return {
        name.strip('"'): Entry(value, kind, given=_GIVEN in about or kind == "UNINITIALIZED")
        for about, name, kind, value in _ENTRY.findall(text)
    } or None


def _meson(folder: str) -> Configured | None:
    """By ``meson-private/cmd_line.txt``, in which Meson keeps what it was given."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(_text(os.path.join(folder, "meson-private", "cmd_line.txt")))
    except configparser.Error:
        return None
    if not parser.has_section("options"):
        return None
    source = re.search(r'"source": *"([^"]+)"', _text(os.path.join(folder, "meson-info", "meson-info.json")))
    entries = {}
    for name, value in parser["options"].items():
        entries[name] = Entry(_plain(value), given=True)
    return Configured(
        system="Meson",
        folder=folder,
        source=real_path(source[1] if source else os.path.dirname(folder)),
        entries=entries,
        program="meson",
    )


def _plain(value: str) -> str:
    """What is meant where a release of Meson quotes words, and writes lists as Python does."""
    if len(value) > _LONGEST_LITERAL:  # Python takes hundreds of bytes for each sign of it
        return value
    with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        literal = ast.literal_eval(value)
        return ",".join(literal) if isinstance(literal, list) else literal if isinstance(literal, str) else value
    return value


def seconds(folder: str) -> float | None:
    """What the longest run of ninja took in a build folder, as far as its log says; ``None`` where it has none."""
    ends = re.findall(r"^\d+\t(\d{1,15})\t", _text(os.path.join(folder, ".ninja_log")), re.MULTILINE)
    return max(map(int, ends)) / 1000 if ends else None


_RULES = ("CMakeFiles/rules.ninja", "build.ninja")
_COMPILES = re.compile(r"^(?:  command = |\t)(.*\bnvcc\b.*)$", re.MULTILINE)


def compilers(folder: str) -> list[str]:
    """How a build folder calls nvcc, launchers first, as ninja's rules or CMake's makefiles have it."""
    texts = [_text(os.path.join(folder, name)) for name in _RULES]
    if not any(texts):
        texts = [
            _text(path) for path in glob.glob(os.path.join(glob.escape(folder), "**", "build.make"), recursive=True)
        ]
    return [line for text in texts for line in _COMPILES.findall(text)]


def given(build: Configured, environment: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """The options that ``build`` was given, and whether that is sure: CMake comes to the same folder with them. Where
    it does not, those that say so themselves, and all that the project declares for its users. ``environment``: in
    which it is configured once more."""
    if build.system == "Meson":
        return {name: entry.value for name, entry in build.entries.items()}, True
    wanted = {name: entry for name, entry in build.entries.items() if name not in _OWN and _is_set(entry)}
    rounds = _ROUNDS if os.path.basename(build.program).startswith("cmake") else 0  # whatever a file says
    found = {name: entry.value for name, entry in wanted.items() if entry.given}
    for _ in range(rounds):
        fresh, whole = _fresh(build, found, environment)
        differing = {
            name: entry.value
            for name, entry in wanted.items()
            if name not in found and name in fresh and fresh[name].value != entry.value
        }
        if not differing and whole:
            return found, True
        if not differing and (COMPILER in found or COMPILER not in build.entries):
            break
        found |= differing or {COMPILER: build.entries[COMPILER].value}  # some projects need it given
    declared = {
        name: entry.value
        for name, entry in wanted.items()
        if entry.kind in ("BOOL", "STRING") and not name.startswith(("CMAKE_", "CUDA_", "FETCHCONTENT_"))
    }
    return declared | found, False


def _is_set(entry: Entry) -> bool:
    return bool(entry.value) and not entry.value.endswith("-NOTFOUND")


def _fresh(
    build: Configured, options: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[Mapping[str, Entry], bool]:
    """What CMake keeps where the project is configured with ``options`` alone, as if in the folder of ``build``; and
    whether it came to its end."""
    with tempfile.TemporaryDirectory(prefix="spillscan-configure-") as folder:
        home = os.path.join(folder, "home")
        os.mkdir(home)
        place = os.path.join(folder, "build")
        command = [build.program, "-S", build.source, "-B", place, "-G", build.generator]
        first = os.path.join(build.folder, "CMakeInit.txt")  # of scikit-build: what it tells CMake itself
        command += ["-C", first] if os.path.exists(first) else []
        command += [f"-D{name}={value}" for name, value in options.items()]
        compiler = build.entries.get(COMPILER, build.entries.get("CUDA_NVCC_EXECUTABLE"))
        own = {"HOME": home, **({"CUDACXX": compiler.value} if compiler else {})}
        try:
            done = subprocess.run(
                command,
                env={**environment, **own},
                cwd=build.source,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return {}, False
        entries = cache_of(os.path.join(place, "CMakeCache.txt")) or {}
        here = {
            name: Entry(entry.value.replace(place, build.folder), entry.kind, entry.given)
            for name, entry in entries.items()
        }
        return here, done.returncode == 0


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST).replace("\0", "\ufffd")  # which no path may hold
    except OSError:
        return ""
