"""TOML text as nodes: the table ``tool.spillscan``, and the lines on which its keys stand.

The standard library's parser tells no lines. They are found by reading headers and keys once more: a key inside an
inline table or a list of several lines has the line of the key that holds it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

from spillscan.errors import UsageError
from spillscan.policy.nodes import Node, Plain

TABLE = ("tool", "spillscan")
"""Where a policy stands in ``pyproject.toml``."""

_Path = tuple[str | int, ...]

_WORD = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DOTTED = rf"{_WORD}(?:\s*\.\s*{_WORD})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_WORDS = re.compile(_WORD)


def parse(text: str, name: str) -> Node | None:
    """The table ``tool.spillscan``; ``None`` where there is none."""
    try:
        document = tomllib.loads(text)
    except ValueError as error:  # most are TOMLDecodeError; a number of very many digits is not
        raise UsageError(_placed(str(error), text, name)) from None
    except RecursionError:
        raise UsageError(f"{name}: nested too deep") from None
    table: object = document
    for key in TABLE:
        if not isinstance(table, Mapping) or key not in table:
            return None
        table = table[key]
    return _node(table, TABLE, _lines(text), name)


def _placed(message: str, text: str, name: str) -> str:
    """The parser's message as ``file:line: …``."""
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    if not found:
        return f"{name}: broken TOML: {message}"
    line = found[1] or str(text.count("\n") + 1)
    return f"{name}:{line}: broken TOML: {message[: found.start()]}"


def _lines(text: str) -> dict[_Path, int]:
    """1-based line of each header and key, by path; elements of an array of tables are numbered."""
    lines: dict[_Path, int] = {}
    counts: dict[_Path, int] = {}
    here: _Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            here = _numbered(_words(header[2]), counts)
            if header[1] == "[[":
                counts[here] = counts.get(here, -1) + 1
                lines.setdefault(here, number)
                here = (*here, counts[here])
            lines.setdefault(here, number)
        elif key := _KEY.match(line):
            path = (*here, *_words(key[1]))
            for end in range(len(here) + 1, len(path) + 1):
                lines.setdefault(path[:end], number)
    return lines


def _words(dotted: str) -> _Path:
    return tuple(word.strip("\"'") for word in _WORDS.findall(dotted))


def _numbered(path: _Path, counts: Mapping[_Path, int]) -> _Path:
    """``path`` with the number of the present element behind each array of tables but the last word."""
    found: _Path = ()
    for word in path[:-1]:
        found = (*found, word)
        if found in counts:
            found = (*found, counts[found])
    return (*found, path[-1])


def _node(value: object, path: _Path, lines: Mapping[_Path, int], name: str) -> Node:
    known = next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)
    inner: Plain
    if isinstance(value, Mapping):
        inner = {str(key): _node(item, (*path, str(key)), lines, name) for key, item in value.items()}
    elif isinstance(value, list):
        inner = [_node(item, (*path, index), lines, name) for index, item in enumerate(value)]
    elif isinstance(value, str | int | float | bool):
        inner = value
    else:  # a date or a time
        raise UsageError(f"{name}:{known}: {value} is not read", "write a word or a whole number")
    return Node(inner, f"{name}:{known}")
