"""The build that inputs come from, looked at where it was made: folders, scripts, variables, packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from spillscan.advice.jobs import BuildSystem
from spillscan.advice.shown import (
    PACKAGE_OF_PROGRAM,
    TOOLKIT,
    Shown,
    asked_for,
    compiles_for_its_gpu,
    configures,
    required,
)
from spillscan.advice.trying import surroundings
from spillscan.builds import configured, record
from spillscan.builds.configured import Configured
from spillscan.builds.record import BuildRecord
from spillscan.builds.run import toolkit
from spillscan.model import Build
from spillscan.model.symbols import natural
from spillscan.output.errors import InputError

_SCRIPTS = ("setup.py", "CMakeLists.txt", "Makefile", "GNUmakefile", "makefile", "meson.build")


def shown(inputs: Sequence[str], build: Build, found: BuildSystem | None) -> Shown:
    """The build that ``inputs`` come from, of a repository whose top is the current folder; ``found``: what that looks
    like. CMake configures it once more, to see what was given."""
    root = os.path.realpath(os.curdir)
    file, path = _watched(inputs)
    folder = _configured(inputs, file, found, root)
    texts = [text_of(name) or "" for name in _SCRIPTS]
    environment = asked_for(texts, os.environ)
    around = surroundings(os.environ) | environment
    command = file.runs[-1].command if file is not None and file.runs else ()
    options: Mapping[str, str] = {}
    sure = True
    if folder is not None and not configures(command):
        options, sure = configured.given(folder, around)
    return Shown(
        root=root,
        inputs=tuple(os.path.relpath(each) + "/" * os.path.isdir(each) for each in inputs),
        configured=folder,
        options=options,
        sure=sure,
        watched=command,
        place=_place(file, path),
        release=release_of(build, folder),
        archs=tuple(sorted({each.key.arch for each in build.kernels if each.key.arch}, key=natural)),
        native=sum(compiles_for_its_gpu(unit.command) for unit in build.units),
        environment=environment,
        requires=required(text_of("setup.py") or "", _project()),
        packages=_packages(folder.paths) if folder is not None else (),
        programs=programs([*texts, *options.values(), *(text_of(word) or word for word in command)]),
        submodules=os.path.exists(".gitmodules"),
        toolkit=toolkit() or TOOLKIT,
    )


def _watched(inputs: Iterable[str]) -> tuple[BuildRecord | None, str]:
    """What ``spillscan run`` kept, and where; (``None``, nothing) where none of the inputs is that."""
    for path in inputs:
        with suppress(InputError):
            if os.path.isfile(path) and record.is_one(path):
                return record.read(path), path
    return None, ""


def _place(file: BuildRecord | None, path: str) -> str:
    """Where the command of such a file ran, seen from here; empty: here, or nothing says where."""
    if file is None or not file.runs:
        return ""
    place = os.path.relpath(file.runs[-1].folder)
    return "" if place == os.curdir else place


def _configured(
    inputs: Sequence[str], file: BuildRecord | None, found: BuildSystem | None, root: str
) -> Configured | None:
    """The build folder; of the repository alone, not of what lies beside it."""
    places = [*inputs, *({call.folder for call in file.calls} if file is not None else ())]
    looks = [configured.above(place) for place in places]
    looks += [configured.below(place) for place in inputs if os.path.isdir(place)]
    if found is not None and found.name in ("CMake", "scikit-build", "Meson") and not any(looks):
        looks.append(configured.below(os.curdir))
    inside = (each for each in looks if each is not None and f"{each.source}/".startswith(f"{root}/"))
    return next(inside, None)


def release_of(build: Build, folder: Configured | None) -> str:
    """The release of the compiler that made ``build``; empty where nothing says."""
    said = [folder.release] if folder is not None else []
    return max((*said, *build.toolkits), key=natural, default="")


def _project() -> Mapping[str, object]:
    try:
        return tomllib.loads(text_of("pyproject.toml") or "")
    except tomllib.TOMLDecodeError:
        return {}


def programs(texts: Iterable[str]) -> tuple[str, ...]:
    """The programs that these scripts and values name, and that are here."""
    words = {word for text in texts for word in re.findall(r"(?<![\w.-])[a-z]+(?:-[a-z]+)?(?![\w.-])", text)}
    return tuple(name for name in PACKAGE_OF_PROGRAM if name in words and shutil.which(name))


_TOO_COMMON = 2
"""Packages that own a folder; of more, none is meant."""
_NOT_NEEDED = ("COMMAND",)
"""Ends of the names by which CMake's ``CTest`` keeps what it finds."""
_COMPILERS = ("CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_Fortran_COMPILER", "CMAKE_CUDA_HOST_COMPILER")


def _packages(paths: Mapping[str, str]) -> tuple[str, ...]:
    """The packages of this machine that have what CMake found, where dpkg knows."""
    wanted = [
        path
        for name, path in paths.items()
        if (not name.startswith("CMAKE_") or name in _COMPILERS) and not name.endswith(_NOT_NEEDED)
    ]
    if not wanted or shutil.which("dpkg") is None:
        return ()
    done = subprocess.run(["dpkg", "-S", *wanted], capture_output=True, text=True, check=False)
    owners = [
        line.rpartition(": ")[0].split(", ") for line in done.stdout.splitlines() if not line.startswith("diversion")
    ]
    found = {name.partition(":")[0] for names in owners if len(names) <= _TOO_COMMON for name in names}
    return tuple(sorted(found))


def text_of(path: str) -> str | None:
    """The text of a file; ``None`` where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None
