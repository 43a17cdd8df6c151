"""Which literal texts a regular expression cannot match without: a scanner looks for them before it asks for a match.

Read off the expression's own syntax tree (``re._parser``, the one that ``re`` compiles from).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

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
        if literal is not None and len(literal) * len(run) <= _MOST_WORDS and _longest(run) < _LONGEST_WORD:
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
        return _letters(words), all(map(_has_letter, words)), sum(map(len, words)) / max(1, len(words))

    return max(one, other, key=worth)


def _letters(words: _Words) -> int:
    """How long the shortest is; 0 where that is too short to look for."""
    shortest = min(map(len, words), default=0)
    return shortest if shortest >= _LEAST_LETTERS else 0


def _has_letter(word: str) -> bool:
    return any(map(str.isalnum, word))


def _longest(words: _Words) -> int:
    return max(map(len, words))


def _minimal(words: _Words) -> _Words:
    """Without those that hold another; none where the shortest is too short."""
    if not _letters(words):
        return frozenset()
    return frozenset(word for word in words if not any(other in word for other in words if other != word))
