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
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

from spillscan.output.folders import kept, remember, remembered, shipped
from spillscan.reading.expressions import RegexWriter, fragments, mandatory
from spillscan.reading.expressions import __file__ as expressions_file

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick
    from lark import Lark

_T = TypeVar("_T")

_ENDS_WHERE_THE_REST_FITS = re.compile(r"^([A-Z_]+): /(.*\+\?)/$", re.M)
"""A terminal whose repetition is lazy at its end: a name, in which anything may stand."""


def text(name: str) -> str:
    """The source of grammar ``name``."""
    with open(_path(name), encoding="utf-8") as file:
        return file.read()


def _path(name: str) -> str:
    return os.path.join(shipped("grammars"), f"{name}.lark")


def _with_ends(name: str) -> str:
    """The source in which each lazy terminal runs to where the rest of some line fits: what may follow a name is what
    the rules have behind it."""
    source = text(name)
    if not _ENDS_WHERE_THE_REST_FITS.search(source):
        return source
    writer = RegexWriter(_lexer(name, source), {}, {})

    def ended(match: re.Match[str]) -> str:
        rests = "|".join(sorted(set(writer.rests("line", match[1]))))
        for character, escaped in (("/", r"\/"), ("\r", r"\r"), ("\n", r"\n")):
            rests = rests.replace(character, escaped)
        return f"{match[1]}: /{match[2]}(?=(?:{rests}))/m"

    return _ENDS_WHERE_THE_REST_FITS.sub(ended, source)


@cache
def load(name: str) -> Lark:
    """Grammar ``name``, compiled for LALR, with every rule as a start.

    Compiling takes longer than reading most logs, so Lark keeps what it compiled for the next run, by a hash of the
    grammar's text, its options and Lark's version.
    """
    from lark import Lark

    return Lark(
        _with_ends(name),
        parser="lalr",
        start=_starts(name),
        cache=_compiled(name),
        source_path=_path(name),
        maybe_placeholders=False,
    )


def _compiled(name: str) -> str | bool:
    """The file that keeps a compiled grammar; ``False`` where none can be kept."""
    try:
        folder = kept("grammars")
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):  # a home that is read-only, or none
        return False
    return os.path.join(folder, f"{name}.lark")


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
    writer = partial(RegexWriter, lines=dict(lines), repeated=dict(repeated))
    return _derived(name, what, lambda: writer(lexer(name)).rule(rule))


@cache
def alternatives(name: str, rule: str) -> tuple[tuple[str, str], ...]:
    """What ``rule`` of grammar ``name`` chooses from, in the order in which a lexer tries it: (name of the alternative,
    expression of its whole text, a group for each visible terminal). A name is an alias, or that of the rule that
    stands alone there; what rules with a leading underscore choose from counts by itself. Rules that repeat something
    are left out: their pieces have to be read one by one.
    """
    written = _derived(name, f"alternatives {rule}", lambda: RegexWriter(lexer(name)).alternatives(rule))
    return tuple((alternative, expression) for alternative, expression in written)


def read(name: str, rule: str, text: str) -> tuple[str, dict[str, str]] | None:
    """Which of the :func:`alternatives` of ``rule`` describes all of ``text``, and its tokens by the names of visible
    terminals; ``None``: none does."""
    found_at = _word_search(name, rule)[0].find_matches_as_indexes(text.encode("utf-8", "surrogatepass"), True)
    for alternative, expression in _with_words(name, rule, frozenset([word for word, _, _ in found_at])):
        if found := _compiled_for_text(expression).fullmatch(text):
            return alternative, {token: each for token, each in found.groupdict().items() if each is not None}
    return None


_compiled_for_text = cache(re.compile)


@cache
def needed_words(name: str, rule: str) -> tuple[tuple[str, ...], ...]:
    """For each of the :func:`alternatives` of ``rule``, in their order: literal texts of which one stands in every text
    that it describes; empty where there are none."""
    written = _derived(name, f"needed words {rule}", lambda: [mandatory(each) for _, each in alternatives(name, rule)])
    return tuple(map(tuple, written))


@lru_cache(maxsize=1024)
def _with_words(name: str, rule: str, words: frozenset[int]) -> list[tuple[str, str]]:
    """Those of the :func:`alternatives` that may describe a text in which these words stand; most are never tried."""
    every, (_, needed_by, always) = alternatives(name, rule), _word_search(name, rule)
    return [every[number] for number in sorted({*always, *(number for word in words for number in needed_by[word])})]


@cache
def _word_search(name: str, rule: str) -> tuple[BytesAhoCorasick, list[list[int]], list[int]]:
    """A search for all :func:`needed_words`, of each the numbers of the alternatives that need it, and those of the
    alternatives that need none."""
    from ahocorasick_rs import BytesAhoCorasick, MatchKind

    needed_by: dict[str, list[int]] = {}
    for number, words in enumerate(needed_words(name, rule)):
        for word in words or ("",):
            needed_by.setdefault(word, []).append(number)
    always = needed_by.pop("", [])
    search = BytesAhoCorasick([word.encode() for word in needed_by], matchkind=MatchKind.Standard)
    return search, [*needed_by.values()], always


def scanned(name: str, rule: str) -> tuple[str, ...]:
    """A few literal texts: a scanner that looks for them misses no line that ``rule`` describes.

    Raises :class:`LookupError` for a rule that describes lines without any.
    """

    def words() -> list[str]:
        if not all(every := needed_words(name, rule)):
            raise LookupError(f"an alternative of {rule} in {name} has no literal text of its own")
        return fragments(word for each in every for word in each)

    return tuple(_derived(name, f"scanned {rule}", words))


def openings(name: str, rule: str) -> tuple[str, ...]:
    """The literal texts with which the :func:`alternatives` of ``rule`` begin."""
    return tuple(_derived(name, f"openings {rule}", lambda: RegexWriter(lexer(name)).openings(rule)))


def literals(name: str) -> tuple[str, ...]:
    """The literal texts of a grammar."""
    return tuple(
        _derived(
            name,
            "literals",
            lambda: [each.pattern.value for each in lexer(name).terminals if each.pattern.type == "str"],
        )
    )


def _derived(name: str, what: str, write: Callable[[], _T]) -> _T:
    """A value of JSON derived from a grammar, kept for the next run: to import Lark takes longer than most logs."""
    known = _kept_expressions(name)
    if what not in known:
        known[what] = write()
        remember("grammars", _expressions_file(name), known)
    value: _T = known[what]
    return value


@cache
def _kept_expressions(name: str) -> dict[str, Any]:
    found: dict[str, Any] | None = remembered("grammars", _expressions_file(name))
    return {} if found is None else found


@cache
def _expressions_file(name: str) -> str:
    """Another one for another text of the grammar or of those that it imports, another Lark, another writer."""
    texts = [text(each) for each in (name, *re.findall(r"^%import \.(\w+)", text(name), re.M))]
    lark = find_spec("lark")
    assert lark is not None
    assert lark.origin is not None
    made = [str(os.stat(path).st_mtime_ns) for path in (lark.origin, __file__, expressions_file)]
    return f"{name}-{crc32(chr(10).join((*texts, *made)).encode()):08x}.json"


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
    optional = [longest[:at] + longest[at + 1 :] in expansions for at in range(len(longest))]
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


def parser(name: str = _SASS) -> Lark:
    """:func:`load` of the grammar of machine code."""
    return load(name)


@cache
def lexer(name: str = _SASS) -> Lark:
    """The grammar's rules and terminals, without a parser: ready in a fraction of the time."""
    return _lexer(name, _with_ends(name))


def _lexer(name: str, source: str) -> Lark:
    from lark import Lark

    return Lark(
        source, parser=None, lexer="basic", start=_starts(name), source_path=_path(name), maybe_placeholders=False
    )


def _starts(name: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"(?m)^[?!]?([a-z]\w*)(?:\.-?\d+)?\s*:", text(name))))
