"""Compile commands of CUDA sources, from a run file or ``compile_commands.json`` (CMake, ninja, Bear, Bazel).

https://clang.llvm.org/docs/JSONCompilationDatabase.html
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from spillscan.builds import compilation, record
from spillscan.output.errors import InputError

_MOST_BYTES = 1 << 30
_LONGEST_PATH = 1 << 12
_AGAIN = "let the build system write it again"


class Command(NamedTuple):
    """A compile command for a source that may contain device code."""

    words: tuple[str, ...]
    """Command line."""
    folder: str
    """Working directory."""
    source: str
    """Source, relative to the current folder if possible."""
    object: str
    """Output, relative to the current folder if possible; empty if not specified."""

    @property
    def by_nvcc(self) -> bool:
        """Whether nvcc is the compiler."""
        parsed = compilation.parse(self.words)
        return parsed is not None and parsed.tool == "nvcc"


def is_database(path: str) -> bool:
    """Whether a file is a run file, or named like a compilation database."""
    name = os.path.basename(path)
    listed = name.startswith("compile_commands") and name.endswith(".json") and os.path.isfile(path)
    return listed or record.is_one(path)


def commands(path: str) -> list[Command]:
    """The compilations of CUDA code in ``path``, each object once, in their order.

    Raises InputError if the file is no compilation database, or lists no CUDA code.
    """
    if record.is_one(path):
        build = record.read(path)
        calls = [each for each in (build.calls if build else ()) if each.status == 0 and each.source]
        return [Command(each.command, each.folder, each.source, each.object) for each in calls]
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


def _command(entry: Any, path: str, number: int) -> Command | None:
    top = os.path.dirname(path)
    try:
        said = entry.get("arguments")
        words = compilation.split(entry["command"], whole=True) if said is None else list(said)
        folder, source, output = entry["directory"], entry["file"], entry.get("output", "")
        if not all(isinstance(word, str) and "\0" not in word for word in (*words, folder, source, output)):
            raise TypeError
        os.fsencode("".join((*words, folder, source, output)))  # lone surrogates from JSON are in no path
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
    """``path`` below the database's folder, spelled as that was named, else relative to the current folder.

    CMake's sources are outside its build folder. The result is the same in each checkout.
    """
    real = os.path.join(real_path(path), "")
    for place in (top,) if os.path.isabs(top) else (top, ""):
        folder = os.path.join(real_path(place or os.curdir), "")
        if real.startswith(folder):
            return os.path.normpath(os.path.join(place, real[len(folder) :] or os.curdir))
    return os.path.normpath(path)


def real_path(path: str) -> str:
    """``path`` without links.

    A path longer than any system allows is not resolved, since that would take time quadratic in its length.
    """
    return os.path.realpath(path) if len(path) < _LONGEST_PATH else os.path.abspath(path)
