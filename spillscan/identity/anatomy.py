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


def _unqualified(text: str) -> str:
    return _QUALIFIER.sub("", text)


class Items:
    """A list of types or values, prepared for being compared many times."""

    __slots__ = ("plain", "texts", "tokens")

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        """As the demangler writes them."""
        self.plain = tuple(map(_unqualified, texts))
        """``ns::Op<a::b>*`` as ``Op<b>*``: what stays when code moves to another namespace."""
        self.tokens = frozenset(_TOKEN.findall(" ".join(self.plain)))
        """Identifiers, numbers and pointers in them."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Anatomy:
    """A name, taken apart."""

    scopes: Items
    """Namespaces and classes, outermost first, with their template arguments."""
    base: str
    """The function's own name."""
    words: frozenset[str]
    """The words of the base name, in lower case: ``softmaxRows_v2`` has softmax, rows, v, 2."""
    arguments: Items
    """Template arguments."""
    parameters: Items
    """Parameter types."""

    @property
    def template(self) -> tuple[tuple[str, ...], str]:
        """What all instances of a template share."""
        return self.scopes.texts, self.base


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
        scopes=_prepared(tuple(scopes)),
        base=base,
        words=frozenset(word.lower() for word in _WORD.findall(base)),
        arguments=_NOTHING if angle is None else _listed(name[angle + 1 : name.rfind(">", angle, stop)]),
        parameters=_NOTHING if end is None else _listed(name[end + 1 : name.rfind(")")]),
    )


_NOTHING = Items(())


@lru_cache(maxsize=16384)
def _prepared(texts: tuple[str, ...]) -> Items:
    return Items(texts)


@lru_cache(maxsize=16384)
def _listed(text: str) -> Items:
    return Items(_items(text))


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
