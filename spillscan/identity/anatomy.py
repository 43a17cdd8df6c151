"""The parts of a kernel's full name that likeness compares: scopes, base name, template arguments, parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from spillscan.identity.symbol import canonical
from spillscan.names import demangle

_MARK = re.compile(r"[<>(){}\[\],]|::| ")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TOKEN = re.compile(r"[A-Za-z_]\w*|-?\d+|[*&]+")
_QUALIFIER = re.compile(r"(?:[A-Za-z_]\w*|\(anonymous namespace\))::")
_UNNAMED = "(anonymous namespace)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """A name, taken apart. Kernels of one build share equal texts by being cut from one."""

    scopes: tuple[str, ...]
    """Namespaces and classes, outermost first, with their template arguments."""
    base: str
    """The function's own name."""
    words: tuple[str, ...]
    """The words of the base name, in lower case: ``softmaxRows_v2`` has softmax, rows, v, 2."""
    arguments: tuple[str, ...]
    """Template arguments."""
    parameters: tuple[str, ...]
    """Parameter types."""

    @property
    def template(self) -> tuple[tuple[str, ...], str]:
        """What all instances of a template share."""
        return self.scopes, self.base


@lru_cache(maxsize=16384)
def anatomy(symbol: str) -> Anatomy:
    """The parts of ``symbol``, mangled or not; a name that has no parts is all base."""
    name = demangle(canonical(symbol))
    scopes, start, depth = [], 0, 0
    angle = end = None  # where the arguments of the last component open, and where the parameters do
    for mark in _MARK.finditer(name):
        what, at = mark[0], mark.start()
        if what in "<({[":
            if depth == 0 and what == "(" and not name.startswith(_UNNAMED, at) and at > start:
                end = at
                break
            if depth == 0 and what == "<":
                angle = at
            depth += 1
        elif what in ">)}]":
            depth = max(0, depth - 1)
        elif depth == 0 and what == "::":
            scopes.append(name[start:at])
            start, angle = mark.end(), None
        elif depth == 0 and what == " ":  # behind the type that a template returns
            scopes, start, angle = [], mark.end(), None
    stop = len(name) if end is None else end
    base = name[start : stop if angle is None else angle]
    return Anatomy(
        scopes=tuple(scopes),
        base=base,
        words=tuple(word.lower() for word in _WORD.findall(base)),
        arguments=() if angle is None else _items(name[angle + 1 : name.rfind(">", angle, stop)]),
        parameters=() if end is None else _items(name[end + 1 : name.rfind(")")]),
    )


def tokens(texts: tuple[str, ...]) -> list[str]:
    """Identifiers, numbers and pointers in ``texts``."""
    return _TOKEN.findall(" ".join(texts))


def unqualified(text: str) -> str:
    """``ns::Op<a::b>*`` -> ``Op<b>*``: what stays when code moves to another namespace."""
    return _QUALIFIER.sub("", text)


def _items(text: str) -> tuple[str, ...]:
    """What stands between the outer commas."""
    if not text:
        return ()
    if "," not in text:
        return (text,)
    items, start, depth = [], 0, 0
    for mark in _MARK.finditer(text):
        what = mark[0]
        if what in "<({[":
            depth += 1
        elif what in ">)}]":
            depth -= 1
        elif what == "," and depth == 0:
            items.append(text[start : mark.start()].strip())
            start = mark.end()
    return (*items, text[start:].strip())
