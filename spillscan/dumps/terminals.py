"""Regular expressions of whole lines, put together from a grammar's own rules and terminals.

A rule that is a plain sequence of terminals, some of them optional, is a line. Its expression is theirs in the same
order, each terminal with a name that Lark keeps (no leading underscore) as a group of that name in lower case.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from spillscan import grammar

if TYPE_CHECKING:
    from lark import Lark

NAME = "sass"


def terminal(lark: Lark, name: str) -> str:
    """The expression of one terminal."""
    return lark.get_terminal(name).pattern.to_regexp()


def rule_expression(lark: Lark, rule: str, only: str = "") -> str:
    """The expression of a rule that is a sequence of terminals; a rule of any other form is a mistake.

    ``only`` leaves the group of that name alone, which makes a search through many lines quicker.
    """
    expansions = {
        tuple(symbol.name for symbol in expansion.expansion)
        for expansion in lark.rules
        if expansion.origin.name == rule
    }
    if not expansions:
        raise LookupError(f"no rule {rule} in this grammar")
    longest = max(expansions, key=len)
    optional = [any(_without(longest, index) == shorter for shorter in expansions) for index in range(len(longest))]
    choices = product(*(((name,), ()) if may else ((name,),) for name, may in zip(longest, optional, strict=True)))
    if expansions != {sum(choice, ()) for choice in choices}:
        raise ValueError(f"rule {rule} is not a sequence of terminals")
    parts = []
    for name, may in zip(longest, optional, strict=True):
        expression = terminal(lark, name)
        group = name.lower()
        hidden = name.startswith("_") or only not in ("", group)
        expression = f"(?:{expression})" if hidden else f"(?P<{group}>{expression})"
        parts.append(expression + "?" * may)
    return "".join(parts)


def _without(names: tuple[str, ...], index: int) -> tuple[str, ...]:
    return names[:index] + names[index + 1 :]


@cache
def line(rule: str, name: str = NAME) -> re.Pattern[bytes]:
    """The compiled expression of a line rule of grammar ``name``, over bytes."""
    return re.compile(rule_expression(lexer(name), rule).encode())


@cache
def line_starts(rule: str, name: str = NAME, only: str = "") -> re.Pattern[bytes]:
    """As :func:`line`, but only where a line begins, to go through many lines at once."""
    return re.compile(b"(?m:^)" + rule_expression(lexer(name), rule, only).encode())


@cache
def parser(name: str = NAME) -> Lark:
    """The grammar with every rule as a start."""
    return grammar.load(name, *_starts(name))


@cache
def lexer(name: str = NAME) -> Lark:
    """The grammar's rules and terminals, without a parser: ready in a fraction of the time."""
    from lark import Lark

    return Lark(
        grammar.text(name),
        parser=None,
        lexer="basic",
        start=list(_starts(name)),
        source_path=str(grammar.folder() / f"{name}.lark"),
        maybe_placeholders=False,
    )


def _starts(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"(?m)^[?!]?([a-z]\w*)\s*:", grammar.text(name))))
