"""The grammars: parsers that Lark makes of them, and expressions for text that comes in bulk.

A grammar is the only statement of a format. :func:`parse` gives a line to Lark, whose tree becomes a message. An
expression is derived from a rule where millions of lines are passed by: the whole block of a regular kernel, prefixes
of CI services, lines of SASS listings. ``make grammar`` writes both into ``compiled/``, because to compose a parser
takes longer than to read most logs; what is missing there, or is of another text or another Lark, is made anew.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any
from zlib import crc32

from spillscan.output.folders import shipped

if TYPE_CHECKING:
    from lark import Lark, Tree

COMPILED = os.path.join(os.path.dirname(__file__), "compiled")
PARSED = ("ptxas", "nvlink", "usage", "buildstep", "buildfailure")
"""The grammars by whose parsers logs are read."""


@cache
def text(name: str) -> str:
    """The source of grammar ``name``."""
    with open(_path(name), encoding="utf-8") as file:
        return file.read()


def _path(name: str) -> str:
    return os.path.join(shipped("grammars"), f"{name}.lark")


@cache
def checksum(name: str) -> str:
    """Another one for another text of the grammar or of those that it imports."""
    texts = [text(each) for each in (name, *re.findall(r"^%import \.(\w+)", text(name), re.M))]
    return f"{crc32(chr(10).join(texts).encode()):08x}"


# ---- parsers -------------------------------------------------------------------------------------------------------


@cache
def load(name: str) -> Lark:
    """The LALR parser of grammar ``name``, with every rule as a start: as it was saved, or composed."""
    import lark

    with suppress(OSError), open(os.path.join(COMPILED, f"{name}.lalr"), "rb") as file:
        if file.readline().decode() == stamp(name):
            return lark.Lark.load(file)
    return compose(name)


def stamp(name: str) -> str:
    """The first line of a saved parser: what it was made of."""
    import lark

    return f"{lark.__version__} {checksum(name)}\n"


def compose(name: str) -> Lark:
    """The parser of grammar ``name``, from its text."""
    return _lark(name, parser="lalr")


@cache
def lexer(name: str) -> Lark:
    """The grammar's rules and terminals, without a parser."""
    return _lark(name, parser=None, lexer="basic")


def _lark(name: str, **options: Any) -> Lark:
    from lark import Lark

    starts = list(dict.fromkeys(re.findall(r"(?m)^[?!]?([a-z]\w*)(?:\.-?\d+)?\s*:", text(name))))
    return Lark(text(name), start=starts, source_path=_path(name), maybe_placeholders=False, **options)


def tree(name: str, start: str, line: str) -> Tree[Any] | None:
    """What rule ``start`` of grammar ``name`` makes of ``line``; ``None``: it does not describe it."""
    from lark.exceptions import UnexpectedInput

    try:
        return load(name).parse(line, start=start)
    except UnexpectedInput:
        return None


@lru_cache(maxsize=4096)
def parse(name: str, start: str, line: str) -> tuple[str, dict[str, str]] | None:
    """The rule among those that ``start`` chooses from that describes ``line``, and its tokens by the names of visible
    terminals; ``None``: none does."""
    found = tree(name, start, line)
    if found is None:
        return None
    from lark import Token

    tokens = {local_name(each.type): str(each) for each in found.scan_values(lambda each: isinstance(each, Token))}
    rule = (
        next((each for each in found.children if not isinstance(each, Token)), found) if found.data == start else found
    )
    return local_name(str(rule.data)), {key: each for key, each in tokens.items() if not key.startswith("ANON_")}


def local_name(qualified: str) -> str:
    """``usage__barriers`` -> ``barriers``: Lark prefixes what a grammar imports from another."""
    return qualified.lstrip("_").rpartition("__")[2]


def literals(name: str) -> tuple[str, ...]:
    """The literal texts of a grammar."""
    return tuple(each.pattern.value for each in load(name).terminals if each.pattern.type == "str")


@cache
def openings(name: str) -> tuple[str, ...]:
    """The literal texts with which rules begin."""
    by_name = {each.name: each.pattern for each in load(name).terminals}
    first = dict.fromkeys(rule.expansion[0].name for rule in load(name).rules if rule.expansion)
    return tuple(by_name[each].value for each in first if each in by_name and by_name[each].type == "str")


def scan_words(name: str) -> tuple[str, ...]:
    """Literal texts of which one stands in every line that the grammar describes, as its comments say."""
    return tuple(word for line in re.findall(r"(?m)^// scan: (.*)$", text(name)) for word in json.loads(line))


# ---- expressions ---------------------------------------------------------------------------------------------------

_SASS = "sass"
"""The grammar whose lines most readers of machine code ask for."""
EXPRESSIONS = "expressions.json"
Forms = tuple[tuple[str, str], ...]


@cache
def _compiled() -> dict[str, dict[str, str]]:
    with suppress(OSError, ValueError), open(os.path.join(COMPILED, EXPRESSIONS), encoding="utf-8") as file:
        found: dict[str, dict[str, str]] = json.load(file)
        return {name: each for name, each in found.items() if each["checksum"] == checksum(name)}
    return {}


def _derived(name: str, what: str, write: Callable[[], str]) -> str:
    known = _compiled().setdefault(name, {"checksum": checksum(name)})
    if what not in known:
        known[what] = write()
    return known[what]


def expression(name: str, rule: str) -> str:
    """A regular expression for what ``rule`` of grammar ``name`` describes. A visible terminal becomes a named group
    where it first occurs. Rules that refer to themselves do not qualify, but for Lark's ``*`` and ``+``."""
    from spillscan.reading.expressions import RuleExpressions

    return _derived(name, f"rule {rule}", lambda: RuleExpressions(lexer(name)).rule(rule))


@cache
def pattern(name: str, rule: str) -> re.Pattern[bytes]:
    """:func:`expression`, compiled for bytes."""
    return re.compile(expression(name, rule).encode())


def kernel_block() -> bytes:
    """The expression of the whole block of a regular kernel: its properties are those of the kernel that it names."""
    name = re.escape("(?P<PROPERTIES_SYMBOL>") + r".*?\)\)"
    return re.sub(name, "(?P=ENTRY_SYMBOL)", expression("ptxas", "kernel_block"), flags=re.DOTALL).encode()


def terminal(terminal_name: str, name: str = _SASS) -> str:
    """The expression of one terminal of grammar ``name``."""
    return _derived(name, f"terminal {terminal_name}", lambda: _terminal(lexer(name), terminal_name))


def _terminal(lark: Lark, name: str) -> str:
    return lark.get_terminal(name).pattern.to_regexp()


def rule_expression(lark: Lark, rule: str) -> str:
    """The expression of a rule that is a sequence of terminals, some of them optional; of any other form it is a
    mistake. Each visible terminal is a group of its name in lower case."""
    expansions = {
        tuple(symbol.name for symbol in expansion.expansion)
        for expansion in lark.rules
        if expansion.origin.name == rule
    }
    if not expansions:
        raise LookupError(f"no rule {rule} in this grammar")
    longest = max(expansions, key=len)
    optional = [longest[:at] + longest[at + 1 :] in expansions for at in range(len(longest))]
    choices = product(*(((name,), ()) if may else ((name,),) for name, may in zip(longest, optional, strict=True)))
    if expansions != {sum(choice, ()) for choice in choices}:
        raise ValueError(f"rule {rule} is not a sequence of terminals")
    parts = []
    for name, may in zip(longest, optional, strict=True):
        group = "?:" if name.startswith("_") else f"?P<{name.lower()}>"
        parts.append(f"({group}{_terminal(lark, name)}){'?' * may}")
    return "".join(parts)


def line_expression(rule: str, name: str = _SASS) -> str:
    """:func:`rule_expression` of a line rule of grammar ``name``."""
    return _derived(name, f"line {rule}", lambda: rule_expression(lexer(name), rule))


def _named_choices(lark: Lark, rule: str) -> str:
    """The expression of a rule's alternatives that have a name, each a group of it; a name of several is left out."""
    forms: dict[str, list[str]] = {}
    for each in lark.rules:
        if each.origin.name == rule and each.alias:
            parts = ((symbol.name, _terminal(lark, symbol.name)) for symbol in each.expansion)
            pieces = (f"(?:{form})" if name.startswith("_") else f"({form})" for name, form in parts)
            forms.setdefault(str(each.alias), []).append("".join(pieces))
    return "|".join(f"(?P<{name}>{each[0]})" for name, each in forms.items() if len(each) == 1)


def choice_expression(rule: str, name: str) -> str:
    """An expression of a rule's named alternatives: the group that matches in full names the alternative."""
    return _derived(name, f"choices {rule}", lambda: _named_choices(lexer(name), rule))


@cache
def choices(rule: str, name: str) -> re.Pattern[str]:
    """:func:`choice_expression`, compiled."""
    return re.compile(choice_expression(rule, name))


@cache
def line(rule: str, name: str = _SASS) -> re.Pattern[bytes]:
    """The compiled expression of a line rule of grammar ``name``, over bytes."""
    return re.compile(line_expression(rule, name).encode())


@cache
def line_starts(rule: str, name: str = _SASS) -> re.Pattern[bytes]:
    """As :func:`line`, but only where a line begins, to go through many lines at once."""
    return re.compile(b"(?m:^)" + line_expression(rule, name).encode())


# ---- what `make grammar` writes ------------------------------------------------------------------------------------

_RULES = (("ptxas", "kernel_block"), ("prefix", "dated"), ("prefix", "clock"), ("prefix", "writer"))
_TERMINALS = (
    *(("buildstep", name) for name in ("COUNT", "PERCENT", "STATUS")),
    *(("buildfailure", "PLACE"), ("nvlink", "TARGET")),
)
_LINES = ("sass", "nvdisasm", "res_usage", "ptxas", "nvlink")


def compiled() -> Iterator[tuple[str, bytes]]:
    """(name, content) of each file of ``compiled/``."""
    from io import BytesIO

    _compiled().clear()
    for name, rule in _RULES:
        expression(name, rule)
    for name, each in _TERMINALS:
        terminal(each, name)
    choice_expression("clause", "usage")
    for name in _LINES:
        for rule in {str(each.origin.name) for each in lexer(name).rules}:
            with suppress(ValueError, KeyError):  # it is no sequence of terminals
                line_expression(rule, name)
    yield EXPRESSIONS, json.dumps(_compiled(), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    for name in PARSED:
        saved = BytesIO()
        parser = compose(name)
        parser.options.options["source_path"] = f"{name}.lark"  # not the folder of this checkout
        parser.save(saved)
        yield f"{name}.lalr", stamp(name).encode() + saved.getvalue()


def write() -> None:
    """Write ``compiled/`` anew. Equal parsers are equal bytes only with PYTHONHASHSEED=0."""
    os.makedirs(COMPILED, exist_ok=True)
    for name, content in compiled():
        with open(os.path.join(COMPILED, name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    write()
