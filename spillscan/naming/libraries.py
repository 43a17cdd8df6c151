"""Match the shared libraries of two builds, so that kernels are compared within their library first; and the files of
two versions of a package, so that their sizes are.

Packages ship the same code in several libraries (``lib_cuda120.so``, ``lib_cuda129.so``), and each release ships other
libraries. A library is matched by its path below the inputs' common folder, by its file name, by its toolkit and archs,
and by its name without versions, in this order; each only if it matches exactly one library on either side. A library
without a counterpart was added or removed as a whole. Objects and cubins are not libraries here, since their names say
little: as files, they are matched only by path and file name.
"""

from __future__ import annotations

import os.path
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import TypeVar

from spillscan.model import Kernel

_LIBRARY = r"[^:]*\.(?:so|dll|pyd|dylib)(?:\.\d+)*"
_SHARED = re.compile(rf"{_LIBRARY}(?=:|\Z)")
_VERSION = re.compile(r"[.-][0-9a-f]{8}(?=\.)|[\d._-]+")
"""Versions, and the digest that auditwheel adds to the name of a library that it copies into a wheel."""
_RELEASE = re.compile(r"-[^-+]+(\+[^-]*)?(?:-\d[^-]*)?(?=(?:-[^-]+){3}\.whl(?: > |\Z))")
"""Version of a wheel with its local part (the group) and build number
(https://packaging.python.org/en/latest/specifications/binary-distribution-format/)."""
_VERSIONED = re.compile(rf"{_LIBRARY}|.*\.(?:whl|zip|conda|tgz|tar(?:\.\w+)?)")
"""Files whose names may contain a version: shared libraries and packages."""

_T = TypeVar("_T")
Group = tuple[list[Kernel], list[Kernel]]
"""Kernels of the base and of the head to compare with each other."""


def below_root(kernels: Iterable[Kernel]) -> Callable[[str], str]:
    """Function that makes an input's path relative to the common folder of all inputs of ``kernels``."""
    return _below(kernel.origins[0].input for kernel in kernels if kernel.origins)


def _below(inputs: Iterable[str]) -> Callable[[str], str]:
    folders = {os.path.dirname(path) for path in inputs}
    mixed = len({path.startswith("/") for path in folders}) > 1
    root = "" if mixed or not folders else os.path.commonpath(folders)
    return lambda path: path.removeprefix(root).lstrip("/") if root else path


def library_of(kernel: Kernel, below: Callable[[str], str]) -> str:
    """The shared library of a kernel: a file of the build or a member of a package; empty if it is in none."""
    if not kernel.origins or kernel.origins[0].format != "binary":
        return ""
    path = below(kernel.origins[0].input)
    if member := _SHARED.match(kernel.key.unit):
        return member[0]
    return path if _SHARED.fullmatch(path) else ""


def copies(kernels: Iterable[Kernel], holder: Callable[[Kernel], str]) -> dict[int, str]:
    """``holder`` of each kernel (the path of its library or source) whose name and arch occur in several holders.

    By ``id`` of the kernel; shortened to as much of the path as tells the holders apart.
    """
    found_in: dict[Hashable, dict[tuple[str, str, str], list[Kernel]]] = defaultdict(lambda: defaultdict(list))
    for kernel in kernels:
        if path := holder(kernel):
            origin = kernel.origins[0].input if kernel.origins else ""
            shown = posixpath.basename(path), path, f"{origin}:{path}"
            found_in[kernel.named_by, kernel.key.arch][shown].append(kernel)
    places: dict[int, str] = {}
    for holders in found_in.values():
        if len(holders) > 1:
            taken = Counter(name for shown in holders for name in set(shown))
            for shown, several in holders.items():
                places.update((id(kernel), next(name for name in shown if taken[name] == 1)) for kernel in several)
    return places


def whole(some: Iterable[Kernel], kernels: Sequence[Kernel]) -> dict[str, int]:
    """Libraries whose kernels are all in ``some``, with their number of kernels.

    ``kernels`` are those of the whole build. Empty if the build is a single library.
    """
    below = cache(below_root(kernels))
    totals = Counter(library_of(kernel, below) for kernel in kernels)
    counts = Counter(library_of(kernel, below) for kernel in some)
    return {name: number for name, number in counts.items() if name and number == totals[name] and len(totals) > 1}


def by_library(base: Sequence[Kernel], head: Sequence[Kernel]) -> list[Group]:
    """Groups of kernels to compare with each other, one per library.

    One side is empty if the library has no counterpart. Kernels in no library form one group.
    """
    sides = [_libraries(base), _libraries(head)]
    loose = [side.pop("", []) for side in sides]
    if not sides[0] or not sides[1]:
        return [(list(base), list(head))]
    pairs = _alone(*sides) or _matched(sides[0], sides[1], (_path, _file, _made, _unversioned))
    groups = [(loose[0], loose[1])]
    groups += [(kernels, sides[1][pairs[name]] if name in pairs else []) for name, kernels in sides[0].items()]
    groups += [([], kernels) for name, kernels in sides[1].items() if name not in pairs.values()]
    return groups


def counterparts(
    base: Mapping[str, Iterable[str]], head: Mapping[str, Iterable[str]]
) -> Callable[[str, str, str], tuple[str, str, str]]:
    """Function that replaces the names of an input, its archive member and a unit in it by those of their counterparts.

    ``base`` and ``head``: archive members by input. Without a counterpart, or in ``head``, a name stays as it is.
    """
    sides = [{name: below(name) for name in side} for side in (base, head) for below in [_below(side)]]
    files = _alone(*sides) or _matched(sides[0], sides[1], _OF_FILES)
    members = {
        ours: _matched({name: name for name in base[ours]}, {name: name for name in head[theirs]}, _OF_FILES)
        for ours, theirs in files.items()
    }

    def renamed(file: str, member: str, unit: str) -> tuple[str, str, str]:
        inner = members.get(file, {}).get(member, member)
        own = member.rpartition(" > ")[2]
        if own and unit.startswith(own):
            unit = inner.rpartition(" > ")[2] + unit.removeprefix(own)
        return files.get(file, file), inner, unit

    return renamed


def _alone(base: Iterable[str], head: Iterable[str]) -> dict[str, str]:
    """The only names of both sides, which need nothing in common; empty if a side has several."""
    ours, theirs = [*base], [*head]
    return {ours[0]: theirs[0]} if len(ours) == len(theirs) == 1 else {}


def _libraries(kernels: Sequence[Kernel]) -> dict[str, list[Kernel]]:
    below = cache(below_root(kernels))
    members: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        members[library_of(kernel, below)].append(kernel)
    return dict(members)


_Key = Callable[[str, _T], Hashable]
"""What a name, with what it stands for, must have in common with its counterpart."""


def _matched(base: Mapping[str, _T], head: Mapping[str, _T], keys: Iterable[_Key[_T]]) -> dict[str, str]:
    """Matched names: name in the head by name in the base."""
    matches: dict[str, str] = {}
    for key in keys:
        sides: list[dict[Hashable, list[str]]] = [defaultdict(list), defaultdict(list)]
        for side, members, known in zip(sides, (base, head), ({*matches}, {*matches.values()}), strict=True):
            for name in members:
                if name not in known:
                    side[key(name, members[name])].append(name)
        for same, mine in sides[0].items():
            others = sides[1].get(same, [])
            if len(mine) == len(others) == 1:
                matches[mine[0]] = others[0]
    return matches


def _path(name: str, kernels: list[Kernel]) -> Hashable:
    return name


def _file(name: str, kernels: list[Kernel]) -> Hashable:
    return posixpath.basename(name.rstrip("/"))


def _made(name: str, kernels: list[Kernel]) -> Hashable:
    makers = {kernel.sass.maker.version for kernel in kernels if kernel.sass and kernel.sass.maker}
    return _unversioned(name, kernels), frozenset(makers), frozenset(kernel.key.arch for kernel in kernels)


def _unversioned(name: str, kernels: list[Kernel]) -> Hashable:
    return _VERSION.sub("", posixpath.basename(name.rstrip("/")))


_OF_FILES: tuple[_Key[str], ...] = (
    lambda name, path: name,
    lambda name, path: path,
    lambda name, path: posixpath.basename(path),
    lambda name, path: _RELEASE.sub(r"\1", path),
    lambda name, path: _RELEASE.sub("", path),
    lambda name, path: (posixpath.dirname(path), _unversioned(path, [])) if _VERSIONED.fullmatch(path) else path,
    lambda name, path: _unversioned(path, []) if _VERSIONED.fullmatch(path) else path,
)
"""Keys of files, each with its path below the common folder; the first comes first, so that no name is given twice."""
