"""Grammars: their Lark parsers, and regular expressions for bulk text.

A format is defined by its grammar alone. :func:`parse` parses a line with Lark. If millions of lines are to be scanned,
an expression is derived from a rule instead: the whole block of a regular kernel, prefixes of CI services, lines of
SASS listings. ``make grammar`` saves both in ``compiled/``, because composing a parser takes longer than reading most
logs. Saved ones that are missing, or belong to another grammar text or Lark version, are composed again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from spillscan.output.files import shipped

if TYPE_CHECKING:
    from lark import Lark
    from lark.grammar import Symbol

COMPILED = os.path.join(os.path.dirname(__file__), "compiled")
PARSED = ("ptxas", "nvlink", "usage", "buildstep", "buildfailure")
"""Grammars whose parsers read logs."""


@cache
def text(name: str) -> str:
    """Source of grammar ``name``."""
    with open(_path(name), encoding="utf-8") as file:
        return file.read()


def _path(name: str) -> str:
    return os.path.join(shipped("grammars"), f"{name}.lark")


@cache
def checksum(name: str) -> str:
    """Checksum of the grammar and of those that it imports."""
    texts = [text(each) for each in (name, *re.findall(r"^%import \.(\w+)", text(name), re.M))]
    return f"{crc32(chr(10).join(texts).encode()):08x}"


# ---- parsers -------------------------------------------------------------------------------------------------------


@cache
def load(name: str) -> Lark:
    """LALR parser of grammar ``name``, with every rule as a start; loaded from ``compiled/`` or composed."""
    import lark

    with suppress(OSError), open(os.path.join(COMPILED, f"{name}.lalr"), "rb") as file:
        if file.readline().decode() == stamp(name):
            return lark.Lark.load(file)
    return compose(name)


def stamp(name: str) -> str:
    """First line of a saved parser, which identifies its Lark version and grammar."""
    import lark

    return f"{lark.__version__} {checksum(name)}\n"


def compose(name: str) -> Lark:
    """Build the parser of grammar ``name`` from its source."""
    return _lark(name, parser="lalr")


@cache
def lexer(name: str) -> Lark:
    """Rules and terminals of the grammar, without a parser."""
    return _lark(name, parser=None, lexer="basic")


def _lark(name: str, **options: Any) -> Lark:
    from lark import Lark

    starts = list(dict.fromkeys(re.findall(r"(?m)^[?!]?([a-z]\w*)(?:\.-?\d+)?\s*:", text(name))))
    return Lark(text(name), start=starts, source_path=_path(name), maybe_placeholders=False, **options)


@lru_cache(maxsize=4096)
def parse(name: str, start: str, line: str) -> tuple[str, dict[str, str]] | None:
    """Alternative of ``start`` that matches ``line``, and its tokens by name of visible terminal; ``None`` if none
    does."""
    from lark import Token
    from lark.exceptions import UnexpectedInput

    try:
        tree = load(name).parse(line, start=start)
    except UnexpectedInput:
        return None
    tokens = {local_name(each.type): str(each) for each in tree.scan_values(lambda each: isinstance(each, Token))}
    rule = next((each for each in tree.children if not isinstance(each, Token)), tree) if tree.data == start else tree
    return local_name(str(rule.data)), {key: each for key, each in tokens.items() if not key.startswith("ANON_")}


def local_name(qualified: str) -> str:
    """Name without Lark's import prefix: ``usage__barriers`` → ``barriers``."""
    return qualified.lstrip("_").rpartition("__")[2]


@cache
def openings(name: str) -> tuple[str, ...]:
    """Literal texts with which rules begin."""
    by_name = {each.name: each.pattern for each in load(name).terminals}
    first = dict.fromkeys(rule.expansion[0].name for rule in load(name).rules if rule.expansion)
    return tuple(by_name[each].value for each in first if each in by_name and by_name[each].type == "str")


def scan_words(name: str) -> tuple[str, ...]:
    """Literal texts, one of which is in every line that the grammar describes; listed in its ``scan`` comments."""
    return tuple(word for line in re.findall(r"(?m)^// scan: (.*)$", text(name)) for word in json.loads(line))


# ---- expressions ---------------------------------------------------------------------------------------------------

_SASS = "sass"
"""Default grammar, used by most readers of machine code."""
EXPRESSIONS = "expressions.json"


@cache
def _compiled() -> dict[str, dict[str, str]]:
    with suppress(OSError, ValueError), open(os.path.join(COMPILED, EXPRESSIONS), encoding="utf-8") as file:
        content: dict[str, dict[str, str]] = json.load(file)
        return {name: each for name, each in content.items() if each["checksum"] == checksum(name)}
    return {}


def _derived(name: str, what: str, write: Callable[[Lark], str]) -> str:
    known = _compiled().setdefault(name, {"checksum": checksum(name)})
    if what not in known:
        known[what] = write(lexer(name))
    return known[what]


class RuleExpressions:
    """Regular expressions for rules of a grammar.

    Terminals are possessive, as in a lexer, so no expression scans a text twice. Their priorities are ignored.
    """

    def __init__(self, lark: Lark) -> None:
        self._terminals = {terminal.name: terminal for terminal in lark.terminals}
        self._expansions: dict[str, list[tuple[Symbol, ...]]] = {}
        for rule in lark.rules:
            self._expansions.setdefault(str(rule.origin.name), []).append(tuple(rule.expansion))
        self._captured: set[str] = set()

    def rule(self, name: str, capture: bool = True) -> str:
        """Expression for one rule."""
        once = [each for each in self._expansions[name] if not each or each[0].name != name]
        if len(once) == len(self._expansions[name]):
            return self._choice(once, capture)
        return f"(?>{self._choice(once, capture=False)})+"  # a repetition

    def _choice(self, expansions: list[tuple[Symbol, ...]], capture: bool) -> str:
        """Alternatives with common beginnings and ends factored out, so that an optional part is written once."""
        longest = max(expansions, key=len)
        if not longest:
            return ""
        first = self._symbol(longest[0], capture)
        rest = [each[1:] for each in expansions if each[:1] == longest[:1]]
        others = [each for each in expansions if each[:1] != longest[:1]]
        following = self._choice(rest, capture)
        if set(rest) == set(others):
            return f"(?:{first})?{following}"
        return f"(?:{first}{following}|{self._choice(others, capture)})" if others else first + following

    def _symbol(self, symbol: Symbol, capture: bool) -> str:
        name = str(symbol.name)
        if not symbol.is_term:
            return self.rule(name, capture)
        expression = self._terminals[name].pattern.to_regexp()
        if self._terminals[name].pattern.type == "re":
            expression = f"(?>{expression})"
        hidden = name.startswith("_") or getattr(symbol, "filter_out", False)  # an unnamed literal
        if capture and not hidden and name not in self._captured:
            self._captured.add(name)
            return f"(?P<{name.lower()}>{expression})"
        return f"(?:{expression})"


def expression(rule: str, name: str = _SASS) -> str:
    """Regular expression for ``rule`` of grammar ``name``.

    The first occurrence of a visible terminal becomes a group, named in lower case. Rules must not be recursive, except
    through Lark's ``*`` and ``+``.
    """
    return _derived(name, f"rule {rule}", lambda lark: RuleExpressions(lark).rule(rule))


@cache
def line(rule: str, name: str = _SASS) -> re.Pattern[bytes]:
    """:func:`expression`, compiled for bytes."""
    return re.compile(expression(rule, name).encode())


@cache
def text_line(rule: str, name: str) -> re.Pattern[str]:
    """:func:`expression`, compiled for text."""
    return re.compile(expression(rule, name))


def kernel_block() -> bytes:
    """Expression for the whole block of a regular kernel, whose two names must be equal."""
    second_name = f"(?:(?>{terminal('PLAIN_SYMBOL', 'ptxas')}))"
    return expression("kernel_block", "ptxas").replace(second_name, "(?P=plain_symbol)").encode()


def terminal(terminal_name: str, name: str = _SASS) -> str:
    """Expression for one terminal of grammar ``name``."""
    return _derived(
        name, f"terminal {terminal_name}", lambda lark: lark.get_terminal(terminal_name).pattern.to_regexp()
    )


# ---- output of `make grammar` ---------------------------------------------------------------------------------------

_RULES = (
    ("kernel_block", "ptxas"),
    ("written", "ptxas"),
    ("dated", "prefix"),
    ("clock", "prefix"),
    ("writer", "prefix"),
)
_TERMINALS = (
    *((name, "buildstep") for name in ("COUNT", "PERCENT", "STATUS")),
    *(("PLACE", "buildfailure"), ("TARGET", "nvlink"), ("PLAIN_SYMBOL", "ptxas")),
)
_LINES = ("sass", "nvdisasm", "res_usage", "ptxas", "nvlink", "usage")
"""Grammars of whose rules that consist of terminals, each has an expression."""


def compiled() -> Iterator[tuple[str, bytes]]:
    """(name, content) of each file of ``compiled/``; the same bytes in each process with ``PYTHONHASHSEED=0``."""
    from io import BytesIO

    from lark.parsers import lalr_analysis

    # By content instead of address: Lark numbers the states of a parser in the order of a set.
    analysis: Any = lalr_analysis
    analysis.LR0ItemSet.__hash__ = lambda states: hash(states.kernel)
    _compiled().clear()
    for rule, name in _RULES:
        expression(rule, name)
    for each, name in _TERMINALS:
        terminal(each, name)
    for name in _LINES:
        for rule in [str(each.origin.name) for each in lexer(name).rules if all(s.is_term for s in each.expansion)]:
            expression(rule, name)
    yield EXPRESSIONS, json.dumps(_compiled(), indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    for name in PARSED:
        saved = BytesIO()
        parser = compose(name)
        parser.options.options["source_path"] = f"{name}.lark"  # independent of this checkout's folder
        parser.save(saved)
        yield f"{name}.lalr", stamp(name).encode() + saved.getvalue()


def write() -> None:
    """Write ``compiled/``."""
    os.makedirs(COMPILED, exist_ok=True)
    for name, content in compiled():
        with open(os.path.join(COMPILED, name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    write()
