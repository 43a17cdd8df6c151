"""What build systems write down of the compilations that a build is to run: ``compile_commands.json``, as CMake, ninja,
Bear and Bazel's extractors write it, ``build.ninja``, CMake's makefiles; the one that a record file names; and which of
them a build folder is to hold.

https://clang.llvm.org/docs/JSONCompilationDatabase.html, https://ninja-build.org/manual.html#ref_ninja_file
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct, field

from spillscan.builds import buildfile, compilation, records
from spillscan.builds.compilation import HOST_SOURCES, SOURCES
from spillscan.model.units import Unit
from spillscan.output.errors import InputError

_MOST_BYTES = 1 << 30
_LONGEST_PATH = 1 << 12
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
    listed = name.startswith("compile_commands") and name.endswith(".json")
    return os.path.isfile(path) and (listed or buildfile.is_one(path))


def commands(path: str) -> list[Command]:
    """The compilations of CUDA code in ``path``, each object once, in their order.

    Raises :class:`~spillscan.InputError` where the file is no such list, or lists none of them.
    """
    if buildfile.is_one(path) and (build := buildfile.read(path)) is not None:
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
        words = compilation.split(entry["command"], whole=True) if said is None else list(said)
        folder, source, output = entry["directory"], entry["file"], entry.get("output", "")
        if not all(isinstance(word, str) and "\0" not in word for word in (*words, folder, source, output)):
            raise TypeError
        os.fsencode("".join((*words, folder, source, output)))  # half a character of JSON is in no path
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
    real = os.path.join(real_path(path), "")
    for place in (top,) if os.path.isabs(top) else (top, ""):
        folder = os.path.join(real_path(place or os.curdir), "")
        if real.startswith(folder):
            return os.path.normpath(os.path.join(place, real[len(folder) :] or os.curdir))
    return os.path.normpath(path)


def real_path(path: str) -> str:
    """``path`` without links. One longer than any system takes leads nowhere: following it costs the square of its
    length."""
    return os.path.realpath(path) if len(path) < _LONGEST_PATH else os.path.abspath(path)


# ``build.ninja``: which edges compile CUDA sources, and which of them a build without a target runs.
#
# Only what says so is read: ``build``, ``default``, ``include``, ``subninja`` and the variables of the file itself
# (https://ninja-build.org/manual.html#ref_ninja_file).

_LARGEST_BYTES = 1 << 28
_MOST_FILES = 1000
_MOST_GROWN = 64
"""Times its size that a file may grow by its variables."""
_CONTINUED = re.compile(r"\$\r?\n[ \t]*")
_TOKEN = re.compile(r"(?:\$[ :$|]|[^\s:|])+|:|\|\|?@?")
_VARIABLE = re.compile(r"\$(?:\{([\w.-]+)\}|([\w-]+)|([ :$|]))")
_DEVICE = tuple(suffix for suffix in SOURCES if suffix not in (*HOST_SOURCES, ".cubin"))


class Edge(Struct, frozen=True):
    """One ``build`` statement; paths as ninja takes them, from the folder of the first file."""

    outputs: tuple[str, ...]
    rule: str
    inputs: tuple[str, ...]
    """Explicit, implicit and order-only."""


class _Manifest(Struct):
    edges: list[Edge] = field(default_factory=list)
    defaults: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    left: int = 0
    """Characters that variables may still put into the text: one may name another twice, which names a third twice."""

    def expanded(self, text: str) -> str:
        """``text`` with the values of its variables."""
        return _VARIABLE.sub(self._value, text) if "$" in text else text

    def _value(self, found: re.Match[str]) -> str:
        value = found[3] or self.variables.get(found[1] or found[2], "")
        self.left -= len(value)
        if self.left < 0:
            raise OSError("variables that grow out of bounds")
        return value


def compilations(path: str) -> list[tuple[str, str]] | None:
    """(source, object) of each edge that compiles a CUDA source and that a build without a target runs, as seen from
    the folder of ``path``; ``None`` where the file cannot be read."""
    manifest = _Manifest()
    try:
        _read(path, os.path.dirname(path), manifest)
    except (OSError, ValueError, RecursionError):
        return None
    wanted = _needed(manifest)
    return [
        (source, edge.outputs[0])
        for edge in manifest.edges
        if edge.outputs and edge.rule != "phony" and not wanted.isdisjoint(edge.outputs)
        for source in edge.inputs[:1]
        if source.endswith(_DEVICE) and edge.outputs[0].endswith((".o", ".obj"))
    ]


def _needed(manifest: _Manifest) -> set[str]:
    """All that the default targets depend on; without any, all that there is."""
    by_output = {output: edge for edge in manifest.edges for output in edge.outputs}
    if not manifest.defaults:
        return set(by_output)
    found: set[str] = set()
    waiting = list(manifest.defaults)
    while waiting:
        output = waiting.pop()
        if output not in found:
            found.add(output)
            edge = by_output.get(output)
            waiting += () if edge is None else edge.inputs
    return found


def _read(path: str, top: str, manifest: _Manifest) -> None:
    if path in manifest.files:
        return
    manifest.files.add(path)
    size = os.path.getsize(path)
    if size > _LARGEST_BYTES or len(manifest.files) > _MOST_FILES:
        raise OSError(f"{path} is too large")
    manifest.left += _MOST_GROWN * size
    with open(path, encoding="utf-8") as file:
        text = _CONTINUED.sub("", file.read())
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "build":
            manifest.edges.append(_edge(rest, manifest))
        elif word == "default":
            manifest.defaults += [token for token in _paths(rest, manifest) if token != ":"]
        elif word in ("include", "subninja"):
            _read(os.path.normpath(os.path.join(top, manifest.expanded(rest.strip()))), top, manifest)
        elif line[:1].strip() and not line.startswith("#") and "=" in line:
            name, _, value = line.partition("=")
            manifest.variables[name.strip()] = manifest.expanded(value.strip())


def _edge(text: str, manifest: _Manifest) -> Edge:
    outputs: list[str] = []
    inputs: list[str] = []
    rule = ""
    behind = False
    for token in _paths(text, manifest):
        if token == ":":
            behind = True
        elif token.startswith("|"):
            continue
        elif not behind:
            outputs.append(token)
        elif not rule:
            rule = token
        else:
            inputs.append(token)
    return Edge(tuple(outputs), rule, tuple(inputs))


def _paths(text: str, manifest: _Manifest) -> Iterator[str]:
    for token in _TOKEN.findall(text):
        yield token if token in (":", "|", "||", "|@") else os.path.normpath(manifest.expanded(token))


# What a build folder is to hold: by ``build.ninja``, else by ``compile_commands.json`` and, of CMake's makefiles, what
# ``all`` makes. Only what a build without a target runs: a test that nobody asked for is missing to nobody.

_TARGET = re.compile(r"(?:.*/)?CMakeFiles/[^/]+\.dir(?=/)")
_RULE = re.compile(r"^([^\s:#]+):[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_DEEPEST = 4
_LEFT_OUT = frozenset({".git", "CMakeFiles", "_deps", "node_modules"})


def expected(folder: str) -> list[Unit]:
    """The compilations of CUDA code that ``folder``, or a folder in it, is to hold; each object once. What a list names
    elsewhere is of another folder, from which this one was copied."""
    found: dict[str, Unit] = {}
    here = os.path.join(real_path(folder), "")
    for place in _build_folders(folder):
        for unit in _of_folder(place):
            made = real_path(unit.object)
            if made.startswith(here):
                found.setdefault(made, unit)
    return list(found.values())


def whole_lists(units: Iterable[Unit]) -> set[str]:
    """The lists, of those that name these ``units``, that name all that is to be compiled: a generator's. What watched
    a build (Bear) names what that compiled."""
    lists = {os.path.realpath(path) for unit in units for path in unit.evidence}
    return {
        path
        for path in lists
        if os.path.basename(path) == "build.ninja"
        or (
            os.path.basename(path) == "compile_commands.json"
            and os.path.exists(os.path.join(os.path.dirname(path), "CMakeCache.txt"))
        )
    }


def _build_folders(folder: str) -> Iterator[str]:
    depth = folder.rstrip(os.sep).count(os.sep)
    for place, folders, files in os.walk(folder):
        if place.count(os.sep) - depth >= _DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        if "build.ninja" in files or "compile_commands.json" in files:
            yield place


def _of_folder(place: str) -> Iterator[Unit]:
    file = os.path.join(place, "build.ninja")
    listed: list[Command] = []
    database = os.path.join(place, "compile_commands.json")
    if os.path.exists(database):
        try:
            listed = commands(database)
        except InputError:  # of no CUDA code, or damaged: then it expects nothing
            listed = []
    by_object = {real_path(each.object): each for each in listed if each.object}
    edges = compilations(file) if os.path.exists(file) else None
    if edges is not None:
        for source, made in edges:
            path = os.path.join(place, made)
            command = by_object.get(real_path(path))
            yield Unit(
                source=seen_from_here(os.path.join(place, source), place),
                object=os.path.normpath(path),
                folder=place if command is None else command.folder,
                command=() if command is None else command.words,
                evidence=(file,),
            )
        return
    needed = _needed_targets(place)
    for command in listed:
        target = _TARGET.match(os.path.relpath(command.object, place)) if command.object else None
        if command.object and (needed is None or target is None or f"{target[0]}/all" in needed):
            yield Unit(
                source=command.source,
                object=command.object,
                folder=command.folder,
                command=command.words,
                evidence=(database,),
            )


def _needed_targets(place: str) -> set[str] | None:
    """What ``all`` of CMake's makefiles depends on; ``None`` where there are none."""
    try:
        with open(os.path.join(place, "CMakeFiles", "Makefile2"), encoding="utf-8", errors="replace") as file:
            rules = _RULE.findall(file.read())
    except OSError:
        return None
    below: dict[str, list[str]] = {}
    for target, needs in rules:
        below.setdefault(target, []).append(needs)
    found: set[str] = set()
    waiting = ["all"]
    while waiting:
        target = waiting.pop()
        if target not in found:
            found.add(target)
            waiting += below.get(target, ())
    return found
