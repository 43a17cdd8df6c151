"""What build systems write down of the compilations that a build is to run: ``compile_commands.json``, as CMake, ninja,
Bear and Bazel's extractors write it, ``build.ninja``, CMake's makefiles; and the one that a record file names.

https://clang.llvm.org/docs/JSONCompilationDatabase.html, https://ninja-build.org/manual.html#ref_ninja_file
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Any, NamedTuple

from spillscan.builds import buildfile, compilation, records
from spillscan.output.errors import InputError

_MOST_BYTES = 1 << 30
_AGAIN = "let the build system write it again"


class Command(NamedTuple):
    """One compilation of what may hold device code."""

    words: tuple[str, ...]
    """Its command line."""
    folder: str
    """Where it runs."""
    source: str
    """What it compiles, as seen from here."""
    object: str
    """What it writes, as seen from here; empty where it does not say."""

    @property
    def by_nvcc(self) -> bool:
        """Whether nvcc is its compiler."""
        parsed = compilation.parse(self.words)
        return parsed is not None and parsed.tool == "nvcc"


def is_database(path: str) -> bool:
    """Whether a file is called as such a list is, or is what ``spillscan run`` kept."""
    name = os.path.basename(path)
    listed = name.startswith("compile_commands") or name == buildfile.NAME
    return listed and name.endswith(".json") and os.path.isfile(path)


def commands(path: str) -> list[Command]:
    """The compilations of CUDA code in ``path``, each object once, in their order.

    Raises :class:`~spillscan.InputError` where the file is no such list, or lists none of them.
    """
    if os.path.basename(path) == buildfile.NAME and (build := buildfile.read(path)) is not None:
        units = [kept.unit for kept in build.units if kept.unit.command]
        return [Command(each.command, each.folder, each.source, each.object) for each in units]
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise InputError(f"{path} is larger than {_MOST_BYTES:,} bytes", "give the folder of one project")
        with open(path, "rb") as file:
            entries = json.loads(file.read())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON", _AGAIN) from None
    if not isinstance(entries, list):
        raise InputError(f"{path} is not a list of compilations", _AGAIN)
    found = [_command(entry, path, number) for number, entry in enumerate(entries, 1)]
    by_object = {each.object or each.source: each for each in found if each is not None}
    if not by_object:
        raise InputError(f"{path} names no compilation of CUDA code, of {len(entries):,}", "give that of the CUDA part")
    return list(by_object.values())


def recorded(path: str) -> Command | None:
    """The compilation whose record ``path`` is; ``None`` where it is no record, or does not name one of CUDA code."""
    said = records.recorded(path)
    parsed = None if said is None else compilation.parse(said.command)
    if said is None or parsed is None:
        return None
    try:
        return _command({"directory": said.folder, "arguments": said.command, "file": parsed.source}, path, 1)
    except InputError:
        return None


def _command(entry: Any, path: str, number: int) -> Command | None:
    top = os.path.dirname(path)
    try:
        said = entry.get("arguments")
        words = shlex.split(entry["command"]) if said is None else list(said)
        folder, source, output = entry["directory"], entry["file"], entry.get("output", "")
        if not all(isinstance(word, str) and "\0" not in word for word in (*words, folder, source, output)):
            raise TypeError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{path}: entry {number} is not a compilation", _AGAIN) from None
    parsed = compilation.parse(words)
    if (
        parsed is None
        or not parsed.compiles
        or not compilation.holds_device_code([*words[parsed.tool_index :], source])
    ):
        return None
    place = seen_from_here(os.path.join(top, folder), top)
    wanted = parsed.object or output
    return Command(
        words=tuple(words),
        folder=place,
        source=seen_from_here(os.path.join(top, folder, source), top),
        object=seen_from_here(os.path.join(top, folder, wanted), top) if wanted else "",
    )


def seen_from_here(path: str, top: str) -> str:
    """``path`` below the folder of the list as that is called, or below the current one where that is called from here
    (CMake's sources lie beside its build folder): so that it is the same in each checkout."""
    for place in (top,) if os.path.isabs(top) else (top, ""):
        below = os.path.relpath(os.path.realpath(path), os.path.realpath(place or os.curdir))
        if below.split(os.sep, 1)[0] != os.pardir:
            return os.path.normpath(os.path.join(place, below))
    return os.path.normpath(path)
