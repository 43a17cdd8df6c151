"""Where kernels are defined, found by their names in source files: the line of the name behind ``__global__``.

A reader of declarations, not of C++: macros are not expanded and conditions not evaluated, so a place that comes from
here is said to be found by name, and where several definitions fit a kernel none is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import NamedTuple

from spillscan.model.demangled import Function

MARK = "__global__"
_HIDDEN = re.compile(
    r"//(?:[^\n\\]|\\.)*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\\n]|\\.)*\"?|(?<![0-9A-Fa-f])'(?:[^'\\\n]|\\.)*'?", re.DOTALL
)
"""Comments and literals; one that nothing ends goes on to the end of the line, or of the file."""
_NAME = re.compile(r"\s*([\w#]+)")
_ATTRIBUTES = frozenset(("__launch_bounds__", "__maxnreg__", "__cluster_dims__", "__block_size__", "__attribute__"))
_ATTRIBUTES |= {"alignas", "decltype", "__declspec", "typeof", MARK}
_BRACE = re.compile("[{}]")
_LONGEST_HEAD = 4096
"""Characters between ``__global__`` and the end of the parameters."""


class Definition(NamedTuple):
    """A kernel as a source file defines it."""

    path: str
    """Relative to the repository's root, forward slashes."""
    line: int
    """1-based, of the name."""
    last: int
    """The line on which its body ends; that of its name, where braces do not say it."""
    parameters: int
    """How many it takes."""


_Named = tuple[str, Definition]


class Definitions:
    """The definitions in the source files of a repository: ``paths`` of those that may hold some, and how one is
    ``read``. No file is read before a kernel is looked for, and others than its own only where that does not help."""

    def __init__(self, paths: Callable[[], Iterable[str]] = tuple, read: Callable[[str], str] = str) -> None:
        self._paths = paths
        self._read = cache(lambda path: [*definitions(path, read(path))])

    def of(self, name: str, source: str = "") -> Definition | None:
        """The one that defines the kernel of a demangled ``name``; ``None`` where there is none, or several fit.
        ``source``: the file that it was compiled from, whose definitions come first."""
        function = Function(name)
        found = _fitting(self._read(source), function.base) if source else []
        if not found:
            found = [*self._named.get(function.base, ()), *_fitting(self._pasted, function.base)]
        known = function.end is not None  # C names no parameters
        alike = [each for each in found if known and each.parameters == len(function.parameters)] or found
        return alike[0] if len(alike) == 1 else None

    @cached_property
    def _all(self) -> list[_Named]:
        return [each for path in self._paths() for each in self._read(path)]

    @cached_property
    def _named(self) -> Mapping[str, Sequence[Definition]]:
        found: dict[str, list[Definition]] = {}
        for name, each in self._all:
            found.setdefault(name, []).append(each)
        return found

    @cached_property
    def _pasted(self) -> list[_Named]:
        """Those whose names a macro puts together of parts: ``gemm_##TYPE``."""
        return [(name, each) for name, each in self._all if "##" in name]


def _fitting(found: Iterable[_Named], base: str) -> list[Definition]:
    return [each for name, each in found if name == base or ("##" in name and _made_of(name).fullmatch(base))]


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
            name, place, parameters, body = found
            line, counted = line + plain.count("\n", counted, place), place
            last = line + plain.count("\n", place, _closed(plain, body, end) or place)
            yield name, Definition(path, line, last, parameters)
        at = following


def _declarator(text: str, begin: int, end: int) -> tuple[str, int, int, int] | None:
    """(name, its offset, its parameters, where its body begins) of the definition that begins at ``begin``; ``None``
    where it is none."""
    depth, opened = 0, -1
    found: tuple[str, int, int] | None = None
    for at in range(begin, min(end, begin + _LONGEST_HEAD)):
        sign = text[at]
        if sign == "(":
            opened = opened if depth else at
            depth += 1
        elif sign == ")":
            depth -= 1
            named = None if depth else _name_before(text, begin, opened)
            if named is not None and named[0] not in _ATTRIBUTES:
                found = *named, _count(text[opened + 1 : at])
        elif sign in ";{}" and not depth:
            return (*found, at) if found is not None and sign == "{" else None
    return None


def _closed(text: str, opened: int, end: int) -> int | None:
    """Where the brace that is ``opened`` is closed; ``None`` where it is not before ``end``, as behind conditions that
    open it twice."""
    depth = 0
    for brace in _BRACE.finditer(text, opened, end):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.start()
    return None


def _name_before(text: str, begin: int, end: int) -> tuple[str, int] | None:
    """The name that ends before ``end``, and its offset; parts that a macro puts together are one name."""
    head = text[begin:end]
    for pair in (" ##", "## "):
        head = head.replace(pair, "##".center(len(pair), "#"))
    named = _NAME.match(head[::-1])
    return None if named is None else (re.sub("#+", "##", named[1][::-1]), end - named.end())


def _count(parameters: str) -> int:
    """How many parameters a list of them holds."""
    text = parameters.strip()
    if text in ("", "void"):
        return 0
    depth = commas = 0
    for sign in text:
        depth += (sign in "(<[{") - (sign in ")>]}")
        commas += sign == "," and not depth
    return 1 + commas


@cache
def _made_of(name: str) -> re.Pattern[str]:
    """The names that a macro makes of ``gemm_##TYPE``: which of the parts are its parameters is not known, but that one
    of them is; the longest is taken for text."""
    parts = [part for part in name.split("#") if part]
    text = max(parts, key=len)
    before, behind = (
        r"\w+" if others else "" for others in (parts[: parts.index(text)], parts[parts.index(text) + 1 :])
    )
    return re.compile(f"{before}{re.escape(text)}{behind}")
