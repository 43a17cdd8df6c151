"""Finds, compiles and caches the grammars, and derives bulk scanners from a grammar's own terminals.

A grammar is the only statement of a format. Where text comes in bulk, a regular expression derived from the grammar's
rules (:func:`pattern`) finds and cuts it; Lark parses what the expression does not cover. A rule that is a plain
sequence of terminals, some of them optional, is a line (:func:`line`): each terminal with a name that Lark keeps (no
leading underscore) is a group of that name in lower case.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING
from zlib import crc32

from spillscan.output.folders import kept, remember, remembered, shipped

if TYPE_CHECKING:
    from lark import Lark, Token, Tree
    from lark.grammar import Symbol

_STARTS = {
    "ptxas": (
        "report",
        "line",
        "kernel_block",
        "function_block",
        "entry_line",
        "properties_line",
        "usage_line",
        "registers",
        "globals",
        "figures_line",
    ),
    "nvlink": ("report", "line", "figures_line"),
    "prefix": ("prefix",),
    "buildstep": ("line",),
    "buildfailure": ("line", "last"),
}


def text(name: str) -> str:
    """The source of grammar ``name``."""
    return (shipped("grammars") / f"{name}.lark").read_text(encoding="utf-8")


@cache
def load(name: str, *starts: str) -> Lark:
    """Grammar ``name``, compiled for LALR. Without ``starts`` the start rules are the grammar's usual ones.

    Compiling takes longer than reading most logs, so Lark keeps what it compiled for the next run, by a hash of the
    grammar's text, its options and Lark's version.
    """
    from lark import Lark

    return Lark(
        text(name),
        parser="lalr",
        start=list(starts or _STARTS.get(name, ("start",))),
        cache=_compiled(name, bool(starts)),
        source_path=str(shipped("grammars") / f"{name}.lark"),
        maybe_placeholders=False,
    )


def _compiled(name: str, every_start: bool) -> str | bool:
    """The file that keeps a compiled grammar; ``False`` where none can be kept."""
    try:
        folder = kept("grammars")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a home that is read-only, or none
        return False
    return str(folder / (f"{name}-lines.lark" if every_start else f"{name}.lark"))


def parse(name: str, line: str, start: str | None = None) -> Tree[Token] | None:
    """``line`` by grammar ``name``; ``None`` where the grammar does not describe it."""
    from lark.exceptions import UnexpectedInput

    try:
        return load(name).parse(line, start=start)
    except UnexpectedInput:
        return None


def local_name(qualified: str) -> str:
    """``usage__barriers`` -> ``barriers``: Lark prefixes what a grammar imports from another."""
    return qualified.lstrip("_").rpartition("__")[2]


@cache
def pattern(
    name: str, rule: str, lines: tuple[tuple[str, int], ...] = (), repeated: tuple[tuple[str, str], ...] = ()
) -> re.Pattern[bytes]:
    """:func:`expression`, compiled for bytes."""
    return re.compile(expression(name, rule, lines, repeated).encode())


def expression(
    name: str, rule: str, lines: tuple[tuple[str, int], ...] = (), repeated: tuple[tuple[str, str], ...] = ()
) -> str:
    """A regular expression that matches what ``rule`` of grammar ``name`` matches.

    A visible terminal becomes a named group where it first occurs outside a repetition. ``lines``: (rule, how many
    lines it has); it becomes one group of its own name, in which any lines may stand: whoever reads them, and reads
    equal ones once, asks the rule's own pattern. ``repeated``: (terminal, another before it whose very text it must
    be). Only regular rules qualify: the one recursion allowed is Lark's own expansion of ``*`` and ``+``.
    """
    what = " ".join(("pattern", rule, *(f"{each}" for pair in (*lines, *repeated) for each in pair)))
    writer = partial(_RegexWriter, lines=dict(lines), repeated=dict(repeated))
    return _derived(name, what, lambda: writer(load(name)).rule(rule))


@cache
def alternatives(name: str, rule: str) -> re.Pattern[bytes]:
    """One expression for a rule whose alternatives are sequences of terminals: a group of its alias's name around each,
    and groups without names around its visible terminals."""
    return re.compile(_derived(name, f"alternatives {rule}", lambda: _alternatives(load(name), rule)).encode())


def _alternatives(lark: Lark, rule: str) -> str:
    terminals = {terminal.name: terminal for terminal in lark.terminals}
    rules = [
        (each.alias or rule, [terminals[str(symbol.name)] for symbol in each.expansion])
        for each in lark.rules
        if each.origin.name == rule
    ]
    found: dict[str, list[str]] = {}
    # The lexer tries terminals by priority; so does the alternation.
    for alias, words in sorted(rules, key=lambda each: -min(word.priority for word in each[1])):
        parts = (f"({'?:' if word.name.startswith('_') else ''}{word.pattern.to_regexp()})" for word in words)
        found.setdefault(local_name(alias), []).append("".join(parts))
    return "|".join(f"(?P<{alias}>{'|'.join(branches)})" for alias, branches in found.items())


def _derived(name: str, what: str, write: Callable[[], str]) -> str:
    """An expression derived from a grammar, kept for the next run: to import Lark takes longer than most logs."""
    known = _kept_expressions(name)
    if what not in known:
        known[what] = write()
        remember("grammars", _expressions_file(name), known)
    return known[what]


@cache
def _kept_expressions(name: str) -> dict[str, str]:
    found: dict[str, str] | None = remembered("grammars", _expressions_file(name))
    return {} if found is None else found


@cache
def _expressions_file(name: str) -> str:
    """Another one for another text of the grammar or of those that it imports, another Lark, another writer."""
    texts = [text(each) for each in (name, *re.findall(r"^%import \.(\w+)", text(name), re.M))]
    lark = find_spec("lark")
    assert lark is not None
    assert lark.origin is not None
    made = [str(os.stat(path).st_mtime_ns) for path in (lark.origin, __file__)]
    return f"{name}-{crc32(chr(10).join((*texts, *made)).encode()):08x}.json"


_ANY_LINE = r".+\n"


class _RegexWriter:
    """Writes one rule of a compiled grammar as a regular expression."""

    def __init__(self, lark: Lark, lines: dict[str, int], repeated: dict[str, str]) -> None:
        self._lines = lines
        self._repeated = repeated
        self._terminals = {terminal.name: terminal for terminal in lark.terminals}
        self._expansions: dict[str, list[list[Symbol]]] = {}
        for rule in lark.rules:
            self._expansions.setdefault(str(rule.origin.name), []).append(list(rule.expansion))
        self._captured: set[str] = set()

    def rule(self, name: str, capture: bool = True) -> str:
        repeated = [e for e in self._expansions[name] if e and e[0].name == name]
        once = [e for e in self._expansions[name] if not e or e[0].name != name]
        # The lexer tries terminals by priority; so does the alternation.
        once.sort(key=self._priority, reverse=True)
        body = self._choice(once, capture and not repeated)
        return f"(?:{body})+" if repeated else body

    def _choice(self, expansions: list[list[Symbol]], capture: bool) -> str:
        """Alternatives with their common beginnings factored out, so that an optional end stays one branch."""
        by_first: dict[Symbol, list[list[Symbol]]] = {}
        for expansion in expansions:
            if expansion:
                by_first.setdefault(expansion[0], []).append(expansion[1:])
        branches = [self._symbol(first, capture) + self._choice(rest, capture) for first, rest in by_first.items()]
        if not branches:
            return ""
        optional = any(not expansion for expansion in expansions)
        if len(branches) == 1 and not optional:
            return branches[0]
        return f"(?:{'|'.join(branches)}){'?' if optional else ''}"

    def _symbol(self, symbol: Symbol, capture: bool) -> str:
        name = str(symbol.name)
        if not symbol.is_term and name not in self._lines:
            return self.rule(name, capture)
        if name in self._repeated:
            return f"(?P={self._repeated[name]})"
        expression = self._terminals[name].pattern.to_regexp() if symbol.is_term else _ANY_LINE * self._lines[name]
        if capture and not name.startswith("_") and name not in self._captured:
            self._captured.add(name)
            return f"(?P<{name}>{expression})"
        return f"(?:{expression})"

    def _priority(self, expansion: list[Symbol]) -> int:
        return min((self._terminals[str(s.name)].priority for s in expansion if s.is_term), default=0)


_SASS = "sass"
"""The grammar whose lines most readers of machine code ask for."""


def terminal(terminal_name: str, name: str = _SASS) -> str:
    """The expression of one terminal of grammar ``name``."""
    return _derived(name, f"terminal {terminal_name}", lambda: _terminal(lexer(name), terminal_name))


def _terminal(lark: Lark, name: str) -> str:
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
        expression = _terminal(lark, name)
        group = name.lower()
        hidden = name.startswith("_") or only not in ("", group)
        expression = f"(?:{expression})" if hidden else f"(?P<{group}>{expression})"
        parts.append(expression + "?" * may)
    return "".join(parts)


def _without(names: tuple[str, ...], index: int) -> tuple[str, ...]:
    return names[:index] + names[index + 1 :]


def line_expression(rule: str, name: str = _SASS, only: str = "") -> str:
    """:func:`rule_expression` of a line rule of grammar ``name``."""
    return _derived(name, f"line {rule} {only}", lambda: rule_expression(lexer(name), rule, only))


@cache
def line(rule: str, name: str = _SASS) -> re.Pattern[bytes]:
    """The compiled expression of a line rule of grammar ``name``, over bytes."""
    return re.compile(line_expression(rule, name).encode())


@cache
def line_starts(rule: str, name: str = _SASS, only: str = "") -> re.Pattern[bytes]:
    """As :func:`line`, but only where a line begins, to go through many lines at once."""
    return re.compile(b"(?m:^)" + line_expression(rule, name, only).encode())


@cache
def parser(name: str = _SASS) -> Lark:
    """The grammar with every rule as a start."""
    return load(name, *_starts(name))


@cache
def lexer(name: str = _SASS) -> Lark:
    """The grammar's rules and terminals, without a parser: ready in a fraction of the time."""
    from lark import Lark

    return Lark(
        text(name),
        parser=None,
        lexer="basic",
        start=list(_starts(name)),
        source_path=str(shipped("grammars") / f"{name}.lark"),
        maybe_placeholders=False,
    )


def _starts(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"(?m)^[?!]?([a-z]\w*)\s*:", text(name))))
