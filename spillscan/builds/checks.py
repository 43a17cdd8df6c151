"""Compiler checks: calls with which configure steps try a compiler, and their files. Some are meant to fail."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

from spillscan.builds.tree import is_since

if TYPE_CHECKING:
    from spillscan.builds.record import Call

_PROGRAM = re.compile(r"(?:cmake\d*|meson(?:\.py)?|configure)(?:\.exe)?")
_OTHER_STEPS = frozenset(("--build", "--install", "-P", "-E", "compile", "install", "test", "dist"))
_BUILD_FOLDER = re.compile(r"(.*?)/(?:CMakeFiles|meson-private)(?:/|\Z)")
_FILE = re.compile(
    r"CMakeFiles/(?:[\d.]+/(?:CompilerId|CMakeDetermineCompilerABI)|CMakeScratch|CMakeTmp"
    r"|CMake(?:Error|Output)\.log$|CMakeConfigureLog\.yaml$)|/share/cmake[^/]*/Modules/"
    r"|(?:^|/)(?:meson-private/|meson-logs/|config\.log$)"
)
_WRITTEN_LAST = ("CMakeFiles/TargetDirectories.txt", "meson-private/install.dat", "config.status")
"""Files that a successful configure step writes last."""


def is_configure_step(words: Sequence[str]) -> bool:
    """Whether the command ``words`` configures a build, and does not build."""
    return any(map(_PROGRAM.fullmatch, map(os.path.basename, words[:2]))) and _OTHER_STEPS.isdisjoint(words)


def is_check(call: Call) -> bool:
    """Whether a successful configure step made the call, without a source file of the build."""
    steps = (each for each in call.ancestors if any(map(_PROGRAM.fullmatch, map(os.path.basename, each[1:3]))))
    if not is_configure_step((step := next(steps, ("",)))[1:]):
        return False
    places = {os.path.join(step[0], word.removeprefix("-B")) for word in step}
    places |= {match[1] for word in (call.folder, *call.command) if (match := _BUILD_FOLDER.match(word))}
    ended_well = any(is_since(os.path.join(*each), call.began_ns) for each in product(places, _WRITTEN_LAST))
    return ended_well and all(not os.path.exists(path) or is_of_check(path) for path in map(call.path, call.sources))


def is_of_check(path: str) -> bool:
    """Whether ``path`` belongs to a compiler check of CMake or Meson, or is a log of such checks."""
    return _FILE.search(path.replace("\\", "/")) is not None
