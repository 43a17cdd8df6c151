"""The oracle: a whole dump parsed by Lark, a token a lexeme. Slow (a few MB/s); tests hold the readers against it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from lark import Token, Tree

from spillscan.reading import grammar

_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


@dataclass(slots=True)
class Parsed:
    """A function as the parse tree has it."""

    symbol: str
    opcodes: Counter[str] = field(default_factory=Counter)
    local: list[tuple[int, bool, int, tuple[str, ...]]] = field(default_factory=list)
    """(address, store, bytes, text in the brackets) of each access to local memory."""


def parse(text: str) -> list[Parsed]:
    """Every function of a complete, well-formed dump; anything else is an error of Lark."""
    tree = grammar.load("sass_lexemes").parse(text, start="start")
    return [_function(node) for node in tree.children if isinstance(node, Tree) and node.data == "function"]


def _function(node: Tree[Token]) -> Parsed:
    parsed = Parsed(str(node.children[0]).removeprefix("Function : "))
    for child in node.children[1:]:
        if not isinstance(child, Tree) or child.data != "instruction":
            continue
        address = next(token for token in child.children if isinstance(token, Token) and token.type == "ADDRESS")
        opcode = next(token for token in child.children if isinstance(token, Token) and token.type == "OPCODE")
        name, *modifiers = opcode.split(".")
        parsed.opcodes[name] += 1
        if name in ("STL", "LDL"):
            place = next(iter(child.find_data("location")))
            inside = tuple(str(token) for token in place.children[1:-1])
            width = next((_WIDTHS[part] for part in modifiers if part in _WIDTHS), 4)
            parsed.local.append((int(address[2:-2], 16), name == "STL", width, inside))
    return parsed
