"""Match the shared libraries of two builds, so that kernels are compared within their library first.

Packages ship the same code in several libraries (``lib_cuda120.so``, ``lib_cuda129.so``), and each release ships other
libraries. A library is matched by its path below the inputs' common folder, by its file name, by its toolkit and archs,
and by its name without versions, in this order; each only if it matches exactly one library on either side. A library
without a counterpart was added or removed as a whole. Objects and cubins are not libraries here, since their names say
little.
"""

from __future__ import annotations

import os.path
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache

from spillscan.model import Kernel

_SHARED = re.compile(r"[^:]*\.(?:so|dll|pyd|dylib)(?:\.\d+)*(?=:|\Z)")
_VERSION = re.compile(r"[.-][0-9a-f]{8}(?=\.)|[\d._-]+")
"""Versions, and the digest that auditwheel adds to the name of a library that it copies into a wheel."""

Group = tuple[list[Kernel], list[Kernel]]
"""Kernels of the base and of the head to compare with each other."""


def below_root(kernels: Iterable[Kernel]) -> Callable[[str], str]:
    """Function that makes an input's path relative to the common folder of all inputs of ``kernels``."""
    inputs = {kernel.origins[0].input for kernel in kernels if kernel.origins}
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
    names = [[name for name in side if name] for side in sides]
    if not names[0] or not names[1]:
        return [(list(base), list(head))]
    pairs = _matched(sides[0], sides[1])
    groups = [(sides[0].get("", []), sides[1].get("", []))]
    groups += [(kernels, sides[1][pairs[name]] if name in pairs else []) for name, kernels in sides[0].items() if name]
    groups += [([], kernels) for name, kernels in sides[1].items() if name and name not in pairs.values()]
    return groups


def _libraries(kernels: Sequence[Kernel]) -> dict[str, list[Kernel]]:
    below = cache(below_root(kernels))
    members: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        members[library_of(kernel, below)].append(kernel)
    return dict(members)


def _matched(base: dict[str, list[Kernel]], head: dict[str, list[Kernel]]) -> dict[str, str]:
    """Matched libraries: name in the head by name in the base."""
    left, right = ([name for name in side if name] for side in (base, head))
    if len(left) == len(right) == 1:
        return {left[0]: right[0]}
    matches: dict[str, str] = {}

    def join(ours: Iterable[str], theirs: Iterable[str], key: Callable[[str, list[Kernel]], Hashable]) -> None:
        sides: list[dict[Hashable, list[str]]] = [defaultdict(list), defaultdict(list)]
        for at, (names, members) in enumerate(((ours, base), (theirs, head))):
            for name in names:
                if name not in (matches.values() if at else matches):
                    sides[at][key(name, members[name])].append(name)
        for same, mine in sides[0].items():
            others = sides[1].get(same, [])
            if len(mine) == len(others) == 1:
                matches[mine[0]] = others[0]

    for key in (_path, _file, _made, _unversioned):
        join(left, right, key)
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
