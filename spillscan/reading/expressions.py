"""Regular expressions of a grammar's rules, and which literal texts one cannot match without: a scanner looks for them
before it asks for a match. They are read off the expression's own syntax tree (``re._parser``, the one that ``re``
compiles from).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lark import Lark
    from lark.grammar import Symbol

_MOST_WORDS = 128
"""So many words may stand for one expression; a choice of more says nothing."""
_LONGEST_WORD = 24
_LEAST_LETTERS = 3
"""A shorter word stands nearly everywhere."""

_LEAST_FRAGMENT = 9
"""How long a fragment of longer words is at least."""

_Words = frozenset[str]
_EMPTY: _Words = frozenset(("",))


def mandatory(expression: str) -> list[str]:
    """Words of which at least one stands in every text that ``expression`` matches; empty where no such words of at
    least three letters are known. Of several choices, the one whose shortest word is longest."""
    tree = re._parser.parse(expression)
    best, run = _sequence(tree, _EMPTY)
    return sorted(_minimal(_better(best, run)))


def fragments(words: Iterable[str]) -> list[str]:
    """A few texts of which each of ``words`` holds one: a search for dozens of texts is many times as quick as one for
    hundreds. Each is at least nine letters long, or a whole word; the ones that most words share are taken first."""
    left, chosen = set(words), []
    while left:
        shared: Counter[str] = Counter()
        for word in left:
            least = min(_LEAST_FRAGMENT, len(word))
            ends = range(least, len(word) + 1)
            shared.update({word[begin:end] for end in ends for begin in range(end - least + 1)})
        chosen.append(max(shared, key=lambda each: (shared[each], len(each), each)))
        left = {word for word in left if chosen[-1] not in word}
    return chosen


def _sequence(items: Iterable[tuple[Any, Any]], run: _Words) -> tuple[_Words, _Words]:
    """(the best words, the literal texts at the end of what was read). ``run``: those before it."""
    best: _Words = frozenset()
    for kind, value in items:
        name = str(kind)
        if name in ("AT", "ASSERT_NOT"):
            continue  # it has no width, and asks for no text
        if name == "ASSERT":
            if value[0] > 0:
                best = _better(best, _better(*_sequence(value[1], run)))
            continue
        if name == "SUBPATTERN" and not value[1] & re.IGNORECASE:
            found, run = _sequence(value[3], run)
            best = _better(best, found)
            continue
        if name == "ATOMIC_GROUP":
            found, run = _sequence(value, run)
            best = _better(best, found)
            continue
        literal = _literals((kind, value))
        if literal is not None and len(literal) * len(run) <= _MOST_WORDS and max(map(len, run)) < _LONGEST_WORD:
            run = frozenset(one + other for one in run for other in literal)
            continue
        best, run = _better(best, run), _EMPTY if literal is None else literal
        if literal is None:
            best = _better(best, _inner(name, value))
    return best, run


def _inner(name: str, value: Any) -> _Words:
    """The best words of a choice or a repetition, which ends a run of literals."""
    if name == "BRANCH":
        found: set[str] = set()
        for branch in value[1]:
            words = _better(*_sequence(branch, _EMPTY))
            if not _letters(words):
                return frozenset()
            found |= words
        return frozenset(found)
    if name.endswith("_REPEAT") and value[0] > 0:
        return _better(*_sequence(value[2], _EMPTY))
    return frozenset()


def _literals(item: tuple[Any, Any]) -> _Words | None:
    """All texts that a piece of an expression matches, where those are a few literals; ``None``: they are not."""
    name, value = str(item[0]), item[1]
    if name == "LITERAL":
        return frozenset((chr(value),))
    if name == "IN" and all(str(kind) == "LITERAL" for kind, _ in value):
        return frozenset(chr(code) for _, code in value)
    if name == "BRANCH":
        parts = [_whole(branch) for branch in value[1]]
        if None in parts:
            return None
        found = frozenset().union(*filter(None, parts))
        return found if len(found) <= _MOST_WORDS else None
    if name == "MAX_REPEAT" and value[:2] == (0, 1):
        part = _whole(value[2])
        return None if part is None else part | _EMPTY
    return None


def _whole(items: Iterable[tuple[Any, Any]]) -> _Words | None:
    """The same of a sequence."""
    found = _EMPTY
    for kind, value in items:
        if str(kind) == "SUBPATTERN" and not value[1] & re.IGNORECASE:
            part = _whole(value[3])
        else:
            part = _whole(value) if str(kind) == "ATOMIC_GROUP" else _literals((kind, value))
        if part is None or len(part) * len(found) > _MOST_WORDS:
            return None
        found = frozenset(one + other for one in found for other in part)
    return found


def _better(one: _Words, other: _Words) -> _Words:
    """Whichever has the longer shortest word; of equal ones, those with letters, and the longer in all."""

    def worth(words: _Words) -> tuple[int, bool, float]:
        spelled = all(any(map(str.isalnum, word)) for word in words)
        return _letters(words), spelled, sum(map(len, words)) / max(1, len(words))

    return max(one, other, key=worth)


def _letters(words: _Words) -> int:
    """How long the shortest is; 0 where that is too short to look for."""
    shortest = min(map(len, words), default=0)
    return shortest if shortest >= _LEAST_LETTERS else 0


def _minimal(words: _Words) -> _Words:
    """Without those that hold another; none where the shortest is too short."""
    if not _letters(words):
        return frozenset()
    return frozenset(word for word in words if not any(other in word for other in words if other != word))


def local_name(qualified: str) -> str:
    """``usage__barriers`` -> ``barriers``: Lark prefixes what a grammar imports from another."""
    return qualified.lstrip("_").rpartition("__")[2]


_ANY_LINE = r".+\n"
_MOST_COMPARED = 4
"""So many terminals at their beginnings decide which alternative is tried first."""


class RegexWriter:
    """Writes rules of a grammar as regular expressions. As a lexer does, each terminal takes what it can and gives
    nothing back: none of the expressions reads a text twice over."""

    def __init__(
        self, lark: Lark, lines: Mapping[str, int] | None = None, repeated: Mapping[str, str] | None = None
    ) -> None:
        self._lines = lines or {}
        self._repeated = repeated or {}
        self._terminals = {terminal.name: terminal for terminal in lark.terminals}
        self._expansions: dict[str, list[list[Symbol]]] = {}
        self._aliases: dict[tuple[str, int], str] = {}
        for rule in lark.rules:
            expansions = self._expansions.setdefault(str(rule.origin.name), [])
            if rule.alias:
                self._aliases[str(rule.origin.name), len(expansions)] = local_name(str(rule.alias))
            expansions.append(list(rule.expansion))
        self._captured: set[str] = set()

    def rule(self, name: str, capture: bool = True) -> str:
        """The expression of one rule."""
        repeated = [e for e in self._expansions[name] if e and e[0].name == name]
        once = [e for e in self._expansions[name] if not e or e[0].name != name]
        # The lexer tries terminals by priority; so does the alternation.
        once.sort(key=self._priority, reverse=True)
        body = self._choice(once, capture and not repeated)
        return f"(?>{body})+" if repeated else body

    def rests(self, rule: str, terminal: str, behind: str = r"\r?$") -> Iterator[str]:
        """Expressions of what may stand behind ``terminal`` in a text of ``rule``, and then ``behind`` all that."""
        for expansion in self._expansions[rule]:
            for at, symbol in enumerate(expansion):
                if symbol.name == terminal:
                    yield self._choice([expansion[at + 1 :]], False) + behind
                elif not symbol.is_term and not symbol.name.startswith("__"):
                    yield from self.rests(symbol.name, terminal, self._choice([expansion[at + 1 :]], False) + behind)

    def alternatives(self, rule: str) -> list[list[str]]:
        """The name and the expression of each of :func:`alternatives`."""
        every = [(name, each) for name, symbols in self._alternatives(rule) for each in self._sequences(symbols)]
        every.sort(key=lambda pair: self._priorities(pair[1]), reverse=True)
        written = []
        for name, terminals in every:
            self._captured.clear()
            written.append([name, self._choice([terminals], True)])
        return written

    def openings(self, rule: str) -> list[str]:
        """See :func:`openings`."""
        patterns = (
            self._terminals[name].pattern for _, symbols in self._alternatives(rule) for name in self._first(symbols)
        )
        return list(dict.fromkeys(each.value for each in patterns if each.type == "str"))

    def _alternatives(self, rule: str) -> Iterator[tuple[str, list[Symbol]]]:
        for number, expansion in enumerate(self._expansions[rule]):
            alias = self._aliases.get((rule, number), "")
            if not alias and len(expansion) == 1 and not expansion[0].is_term:
                name = expansion[0].name
                yield from self._alternatives(name) if name.startswith("_") else [(name, expansion)]
            else:
                yield alias or rule, expansion

    def _first(self, symbols: Sequence[Symbol]) -> Iterator[str]:
        """The terminals with which a sequence may begin."""
        if symbols[0].is_term:
            yield symbols[0].name
        else:
            for expansion in filter(None, self._expansions[symbols[0].name]):
                yield from self._first(expansion)

    def _sequences(self, symbols: Sequence[Symbol]) -> Iterator[list[Symbol]]:
        """The sequences of terminals that a sequence of symbols stands for; none where it repeats something."""
        choices = ([[each]] if each.is_term else [*self._of_rule(each.name)] for each in symbols)
        for choice in product(*choices):
            yield [symbol for part in choice for symbol in part]

    def _of_rule(self, name: str) -> Iterator[list[Symbol]]:
        expansions = self._expansions[name]
        if not any(symbol.name.startswith("__") and not symbol.is_term for each in expansions for symbol in each):
            for expansion in expansions:
                yield from self._sequences(expansion)

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
        if symbol.is_term:
            expression = self._terminals[name].pattern.to_regexp()
            if self._terminals[name].pattern.type == "re":
                expression = f"(?>{expression})"
        else:
            expression = _ANY_LINE * self._lines[name]
        hidden = name.startswith("_") or getattr(symbol, "filter_out", False)  # a literal that no terminal names
        if capture and not hidden and name not in self._captured:
            self._captured.add(name)
            return f"(?P<{name}>{expression})"
        return f"(?:{expression})"

    def _priority(self, expansion: list[Symbol]) -> int:
        return min((self._terminals[str(s.name)].priority for s in expansion if s.is_term), default=0)

    def _priorities(self, terminals: Sequence[Symbol]) -> list[int]:
        priorities = [self._terminals[str(each.name)].priority for each in terminals[:_MOST_COMPARED]]
        return priorities + [0] * (_MOST_COMPARED - len(priorities))
