"""Compiler checks: calls with which configure steps try a compiler, and their files. Some are meant to fail."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spillscan.builds import tree

if TYPE_CHECKING:
    from spillscan.builds.record import Call

_CMAKE = re.compile(r"cmake\d*(?:\.exe)?\Z")
_BUILD_FOLDER = re.compile(r"(.*?)/(?:CMakeFiles|meson-private)(?:/|\Z)")
_FILE = re.compile(
    r"CMakeFiles/(?:[\d.]+/(?:CompilerId|CMakeDetermineCompilerABI)|CMakeScratch|CMakeTmp"
    r"|CMake(?:Error|Output)\.log$|CMakeConfigureLog\.yaml$)|/share/cmake[^/]*/Modules/"
    r"|(?:^|/)(?:meson-private/|meson-logs/|conftest\.\w+$|config\.log$)"
)
_WRITTEN_LAST = ("CMakeFiles/TargetDirectories.txt", "meson-private/install.dat", "config.status")
"""Files that a successful configure step writes last."""


def is_check(call: Call) -> bool:
    """Whether a successful configure step made the call, without a source file of the build."""
    step = next((each for each in call.ancestors if _configures(each[1:]) is not None), None)
    if step is None or not _configures(step[1:]):
        return False
    places = {os.path.join(step[0], word.removeprefix("-B")) for word in step}
    places |= {found[1] for word in (call.folder, *call.command) if (found := _BUILD_FOLDER.match(word))}
    last = [tree.entry_of(os.path.join(place, name)) for place in places for name in _WRITTEN_LAST]
    ended_well = any(entry is not None and entry[1] >= call.began_ns for entry in last)
    return ended_well and all(not os.path.exists(path) or is_of_check(path) for path in map(call.path, call.sources))


def is_of_check(path: str) -> bool:
    """Whether ``path`` belongs to a compiler check of CMake, Meson or a configure script, or to its log."""
    return _FILE.search(path.replace("\\", "/")) is not None


def _configures(words: Sequence[str]) -> bool | None:
    """Whether a command is a configure step; ``None`` if it is another program."""
    names = [os.path.basename(word) for word in words[:3]]
    if names and _CMAKE.match(names[0]):
        return not {"--build", "-P", "-E", "--install"} & set(words)
    if any(name in ("meson", "meson.py") for name in names):
        return bool({"setup", "regenerate"} & set(words))
    return True if "configure" in names[:2] else None
