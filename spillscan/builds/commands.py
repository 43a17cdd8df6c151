"""Compile commands of CUDA sources, from a run file or ``compile_commands.json`` (CMake, ninja, Bear, Bazel).

https://clang.llvm.org/docs/JSONCompilationDatabase.html
"""

from __future__ import annotations

import os
import re
import subprocess
from functools import cache
from typing import NamedTuple

import msgspec

from spillscan.builds import record, tree
from spillscan.builds.compilation import holds_device_code, parse, split
from spillscan.output.errors import InputError
from spillscan.output.nouns import count

_MOST_BYTES = 1 << 30
_AGAIN = "regenerate it with the build system"
_VERSION = re.compile(rb"\bV(\d+(?:\.\d+)+)")


class Command(NamedTuple):
    """A compile command for a source that may contain device code."""

    words: tuple[str, ...]
    """Command line."""
    folder: str
    """Working directory."""
    source: str
    """Source, relative to the current folder if possible."""
    object: str
    """Output, relative to the current folder if possible."""


class _Entry(msgspec.Struct):
    """One entry of a compilation database."""

    directory: str
    file: str
    command: str = ""
    arguments: tuple[str, ...] = ()
    output: str = ""


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
        calls = [each for each in record.read(path).calls if each.status == 0 and each.source]
        return [Command(each.command, each.folder, each.source, each.object) for each in calls]
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise InputError(f"{path} is larger than {_MOST_BYTES:,} bytes", "pass the build folder of one project")
        with open(path, "rb") as file:
            data = file.read()
        if b"\\u0000" in data:
            raise ValueError("a NUL character")
        entries = msgspec.json.decode(data, type=list[_Entry])
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a compilation database: {error}", _AGAIN) from None
    top = os.path.dirname(os.path.abspath(path))
    by_object = {each.object or each.source: each for each in (_command(entry, top) for entry in entries) if each}
    if not by_object:
        raise InputError(
            f"{path} has no CUDA source among {count(len(entries), 'entry', 'entries')}",
            "pass the database of the CUDA code",
        )
    return list(by_object.values())


def _command(entry: _Entry, top: str) -> Command | None:
    words = entry.arguments or tuple(split(entry.command))
    made = parse(words)
    if made is None or not made.compiles or not holds_device_code([*made.words, entry.file]):
        return None
    folder = os.path.join(top, entry.directory)
    output = made.output or entry.output or os.path.splitext(os.path.basename(entry.file))[0] + ".o"
    source, output = (tree.shown(os.path.normpath(os.path.join(folder, each))) for each in (entry.file, output))
    return Command(words, folder, source, output)


@cache
def version_of(compiler: str) -> str:
    """Release of a CUDA tool, such as ``13.0.88``; empty if it reports none."""
    try:
        said = subprocess.run([compiler, "--version"], capture_output=True, check=False, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    found = _VERSION.search(said)
    return found[1].decode() if found else ""
