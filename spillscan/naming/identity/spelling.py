"""What a name is made of, as texts: its path, template arguments and parameters; the identifiers and lists in those."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from spillscan.model.demangled import UNNAMED, Function
from spillscan.model.symbols import demangle
from spillscan.naming.identity.symbol import canonical

Name = tuple[str, str, str]
"""(scopes and base name, template arguments of the base name, parameters), as texts."""

IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_MANGLED = re.compile(r"S[0-9A-Z]*_|T\d*_|L[a-z]n?\d+E|(\d+)|[^STL\d]+|.", re.DOTALL)
_VALUE = re.compile(r"n?\d+E")
_WHOLE = re.compile(r"[\w$]+")
_OWNER = re.compile(r"[\w$]*\Z")
BUILTIN = {"void", "bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double"}
BUILTIN |= {"const", "volatile", "true", "false", "anon", "auto"}
"""Words that nobody chose."""
PATH, ARGUMENTS, PARAMETERS = 0, 1, 2
"""Places in a name."""


@lru_cache(maxsize=1 << 16)
def spelled(symbol: str) -> Name:
    """The parts of ``symbol``, mangled or not; a name that has no parts is all base."""
    function = Function(demangle(canonical(symbol)).replace(UNNAMED, "anon").replace(", ", ",").replace("> >", ">>"))
    texts = [
        function.text[at + 1 : function.closing[at]] if at is not None else "" for at in (function.angle, function.end)
    ]
    return "::".join((*function.scopes, function.base)), texts[0], texts[1]


@lru_cache(maxsize=1 << 13)
def words(symbol: str) -> Sequence[str]:
    """The identifiers in ``symbol``, without demangling it."""
    if not symbol.startswith("_Z"):
        return IDENTIFIER.findall(symbol)
    found, at, end, before = [], 2, len(symbol), ""
    while at < end:
        token = _MANGLED.match(symbol, at)
        assert token is not None
        at = token.end()
        if token[1] and len(token[1]) < 5:
            found.append(symbol[at : at + int(token[1])])
            at += int(token[1])
            if before == "L" and (value := _VALUE.match(symbol, at)):  # of an enumerator
                at = value.end()
        before = token[0]
    return found


def identifiers(text: str) -> set[str]:
    """The words in ``text`` that a person chose."""
    return set(IDENTIFIER.findall(text)) - BUILTIN


def base_word(name: Name) -> str:
    """The last identifier of its path; empty where it has none."""
    found = IDENTIFIER.findall(name[PATH])
    return found[-1] if found else ""


def shape(name: Name) -> tuple[str, int, str]:
    """(path, number of template arguments, parameters): what instances of one template have in common."""
    return name[0], len(arguments_of(name[1])), name[2]


def slots(name: Name) -> set[tuple[str, int, int, str]]:
    """(path, which list, index, text) of each of its arguments and parameters."""
    return {
        (name[0], which, *place) for which in (ARGUMENTS, PARAMETERS) for place in enumerate(arguments_of(name[which]))
    }


@lru_cache(maxsize=1 << 12)
def taken_out(text: str) -> list[tuple[int, tuple[str, ...], str]]:
    """Each run of up to two arguments of a list: (index, the run, the list with the run masked)."""
    items = arguments_of(text)
    return [
        (at, tuple(items[at : at + size]), ",".join((*items[:at], "\0", *items[at + size :])))
        for size in (0, 1, 2)
        for at in range(len(items) - size + 1)
    ]


@lru_cache(maxsize=1 << 12)
def arguments_of(text: str) -> list[str]:
    """The arguments of a list, by its outer commas."""
    return [text[start:end] for level, _, _, start, end in _spans(text) if level == 1]


@lru_cache(maxsize=1 << 12)
def nested(text: str) -> list[tuple[str, int, str, str]]:
    """Each argument of a list in the list: (owner, index, argument, text without it)."""
    found = []
    for level, owner, index, start, end in _spans(text):
        if level > 1:
            low, high = (start - 1, end) if index else (start, end + (text[end : end + 1] == ","))
            found.append((owner, index, text[start:end], text[:low] + text[high:]))
    return found


def _spans(text: str) -> Iterator[tuple[int, str, int, int, int]]:
    """(level, owner, index, start, end) of each argument of each list."""
    opened: list[tuple[str, int, int]] = []
    owner, start, index = "", 0, 0
    for at, mark in enumerate(f"{text},"):
        if mark in "<([{":
            opened.append((owner, start, index))
            before = _OWNER.search(text, max(0, at - 80), at)
            owner, start, index = "" if before is None else before[0], at + 1, 0
        elif mark in ",>)]}":
            if at > start:
                yield len(opened) + 1, owner, index, start, at
            if mark == ",":
                start, index = at + 1, index + 1
            elif opened:
                owner, start, index = opened.pop()


def masked(text: str, word: str) -> str:
    """``text`` with ``word`` taken out wherever it stands as a whole."""
    return _WHOLE.sub(lambda found: "\1" if found[0] == word else found[0], text) if word and word in text else text
