"""Definitions of kernels in source files, found by name: the line of the name after ``__global__``.

This parses declarations, not C++: macros are not expanded, conditions not evaluated, and names that a macro pastes from
parts not found. Such a place is marked as found by name, and if several definitions match a kernel, none is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import NamedTuple

from spillscan.model.symbols import Function

MARK = "__global__"
_HIDDEN = re.compile(
    r"//(?:[^\n\\]|\\.)*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*\"?|(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)*'?", re.DOTALL
)
"""Comments and literals; an unterminated one extends to the end of the line, or of the file."""
_NAME = re.compile(r"\s*(\w+)\s*(#?)")
"""Reversed text before parameters: the name, and whether a macro pastes it from parts."""
_ATTRIBUTES = frozenset(("__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__block_size__", "__attribute__"))
_ATTRIBUTES |= {"alignas", "decltype", "__declspec", "typeof", MARK}
_SIGN = re.compile("[(){};]")
_LONGEST_HEAD = 4096
"""Most characters between ``__global__`` and the end of the parameters."""


class Definition(NamedTuple):
    """Definition of a kernel in a source file."""

    path: str
    """Path relative to the repository's root, with forward slashes."""
    line: int
    """1-based line of the name."""


class Definitions:
    """Definitions in the source files of a repository.
    ``paths`` gives the files that may contain some, ``read`` the text of a file. No file is read before a kernel is
    looked up, and files other than the kernel's own only if that does not help.
    """

    def __init__(self, paths: Callable[[], Iterable[str]] = tuple, read: Callable[[str], str] = str) -> None:
        self._paths = paths
        self._read = cache(lambda path: [*definitions(path, read(path))])

    def of(self, name: str, source: str = "") -> Definition | None:
        """Definition of the kernel with a demangled ``name``; ``None`` if there is none, or several match.

        ``source``: file that the kernel was compiled from, whose definitions come first.
        """
        wanted = Function(name).base
        found = [each for base, each in self._read(source) if base == wanted] if source else []
        found = found or self._named.get(wanted, [])
        return found[0] if len(found) == 1 else None

    @cached_property
    def _named(self) -> Mapping[str, list[Definition]]:
        found: dict[str, list[Definition]] = {}
        for path in self._paths():
            for name, each in self._read(path):
                found.setdefault(name, []).append(each)
        return found


def definitions(path: str, text: str) -> Iterable[tuple[str, Definition]]:
    """(name, definition) of each kernel that a source file defines."""
    if MARK not in text:
        return
    plain = _HIDDEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    line, counted = 1, 0
    at = plain.find(MARK)
    while at >= 0:
        following = plain.find(MARK, at + len(MARK))
        end = following if following >= 0 else len(plain)
        if found := _declarator(plain, at, end):
            name, place = found
            line, counted = line + plain.count("\n", counted, place), place
            yield name, Definition(path, line)
        at = following


def _declarator(text: str, begin: int, end: int) -> tuple[str, int] | None:
    """(name, its offset) of a definition at ``begin``, or ``None``."""
    depth, opened = 0, -1
    found: tuple[str, int] | None = None
    for sign in _SIGN.finditer(text, begin, min(end, begin + _LONGEST_HEAD)):
        if sign[0] == "(":
            opened = opened if depth else sign.start()
            depth += 1
        elif sign[0] == ")":
            depth -= 1
            named = None if depth else _NAME.match(text[begin:opened][::-1])
            if named and named[1][::-1] not in _ATTRIBUTES:
                found = ("" if named[2] else named[1][::-1]), opened - named.end(1)
        elif not depth:
            return found if found and found[0] and sign[0] == "{" else None
    return None
