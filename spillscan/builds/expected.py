"""Which compilations a build folder is to hold, as its build system wrote them down: by ``build.ninja``, else by
``compile_commands.json`` and, of CMake's makefiles, what ``all`` makes.

Only what a build without a target runs is expected: a test or an example that nobody asked for is missing to nobody.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from spillscan.builds import databases, ninja
from spillscan.model.units import Unit
from spillscan.output.errors import InputError

_TARGET = re.compile(r"(?:.*/)?CMakeFiles/[^/]+\.dir(?=/)")
_RULE = re.compile(r"^([^\s:#]+):[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_DEEPEST = 4
_LEFT_OUT = frozenset({".git", "CMakeFiles", "_deps", "node_modules"})


def expected(folder: str) -> list[Unit]:
    """The compilations of CUDA code that ``folder``, or a folder in it, is to hold; each object once. What a list names
    elsewhere is of another folder, from which this one was copied."""
    found: dict[str, Unit] = {}
    here = os.path.join(os.path.realpath(folder), "")
    for place in _build_folders(folder):
        for unit in _of_folder(place):
            made = os.path.realpath(unit.object)
            if made.startswith(here):
                found.setdefault(made, unit)
    return list(found.values())


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
    listed: list[databases.Command] = []
    database = os.path.join(place, "compile_commands.json")
    if os.path.exists(database):
        try:
            listed = databases.commands(database)
        except InputError:  # of no CUDA code, or damaged: then it expects nothing
            listed = []
    commands = {os.path.realpath(each.object): each for each in listed if each.object}
    edges = ninja.compilations(file) if os.path.exists(file) else None
    if edges is not None:
        for source, made in edges:
            path = os.path.join(place, made)
            command = commands.get(os.path.realpath(path))
            yield Unit(
                source=databases.seen_from_here(os.path.join(place, source), place),
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
