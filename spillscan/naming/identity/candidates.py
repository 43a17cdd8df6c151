"""Pairs of names that one substitution explains: equal but for a word, two, a run of arguments, a scope.

Each name is looked at in views: what is left of it once something is taken out. Names of two builds that leave the same
are a pair, and what was taken out of each makes the rule. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cache, lru_cache, partial
from itertools import accumulate
from random import Random
from typing import NamedTuple

from spillscan.naming.identity.spelling import (
    ARGUMENTS,
    BUILTIN,
    IDENTIFIER,
    PARAMETERS,
    PATH,
    Name,
    base_word,
    masked,
    nested,
    taken_out,
)

Part = tuple[str, str, str]
"""What was replaced by what in a word, and where it is anchored there: ``^`` and ``$``."""


class Rule(NamedTuple):
    """One substitution."""

    kind: str
    """``word``, ``argument`` or ``nested``."""
    parts: tuple[Part, ...] = ()
    """Words that were replaced."""
    place: tuple[int, int] = (0, 0)
    """Of arguments: which list (1: template arguments, 2: parameters), and the index in it."""
    old: tuple[str, ...] = ()
    """Arguments before; of ``nested`` what is only in one build."""
    new: tuple[str, ...] = ()
    """Arguments after."""

    def __str__(self) -> str:
        """``flash → fa3``, ``vector_ added``, ``argument true added``."""
        said = [(old, new) for old, new, _ in self.parts]
        if self.kind == "argument":
            said.append((f"argument {','.join(self.old)}" if self.old else "", ",".join(self.new)))
            if not self.old:
                said[-1] = "", f"argument {said[-1][1]}"
        elif self.kind == "nested":
            said.append(("", "::".join(self.old)) if self.new == ("added",) else ("::".join(self.old), ""))
        changed = [each for each in said if each[0] != each[1]]
        return ", ".join(
            f"{old} → {new}" if old and new else f"{new} added" if new else f"{old} gone" for old, new in changed
        )


_PIECE = re.compile(r"[A-Za-z_$][\w$]*|[^A-Za-z_$]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_+|\$+|.")
_BLOCK = 900
"""More pairs than this of one block are not looked at, unless the words have something in common."""
_DEEP = 2000
"""Characters of a name up to which two changes at once are looked for."""
_SCOPES = 6
"""How many names of a path are looked at two by two, the innermost."""
_LONGEST_RUN = 8
"""Words of an identifier that are replaced at once."""

_View = tuple[str, ...] | Rule
"""What was taken out of a name: words, or arguments."""
_Frame = tuple[int, int, str, str]
"""What is left of a name whose arguments are looked at."""


def candidates(
    ours: Sequence[tuple[Name, Name]], theirs: Sequence[Name], *, deep: bool
) -> Iterator[tuple[Name, Name, Rule]]:
    """Names that are equal but for what was taken out of them, and the rules that this makes."""
    views: tuple[Callable[[Name, int], Iterator[tuple[int, _View]]], ...] = (_word_views,)
    if deep:
        views += _pair_views, partial(_argument_views, shared=_shared([name for name, _ in ours], theirs))
    for each in views:
        blocks: dict[int, list[tuple[Name, _View]]] = {}
        for name, known_as in ours:
            for key, what in each(name, 0):
                blocks.setdefault(key, []).append((known_as, what))
        met: dict[int, list[tuple[Name, _View]]] = {}
        for name in theirs:
            for key, what in each(name, 1):
                if key in blocks:
                    met.setdefault(key, []).append((name, what))
        for key, others in met.items():
            for (x, one), (y, two) in _met(blocks[key], others):
                for rule in _rules(one, two):
                    yield x, y, rule


def _met(
    mine: list[tuple[Name, _View]], others: list[tuple[Name, _View]]
) -> Iterator[tuple[tuple[Name, _View], tuple[Name, _View]]]:
    """All pairs of a small block; of a large one those whose words differ in one run of at most two words."""
    if len(mine) * len(others) <= _BLOCK:
        yield from ((one, two) for one in mine for two in others)
        return
    if isinstance(mine[0][1], Rule):
        return
    runs: dict[tuple[int, int], list[tuple[Name, _View]]] = defaultdict(list)
    for one in mine:
        for key in _runs(one[1]):
            runs[key].append(one)
    seen: set[tuple[Name, Name]] = set()
    hits: dict[tuple[int, int], list[tuple[Name, _View]]] = defaultdict(list)
    for two in others:
        for key in _runs(two[1]):
            if key in runs:
                hits[key].append(two)
    for key, several in hits.items():
        if len(several) * len(runs[key]) <= _BLOCK:
            for one in runs[key]:
                for two in several:
                    if (one[0], two[0]) not in seen:
                        seen.add((one[0], two[0]))
                        yield one, two


def _runs(view: _View) -> Iterator[tuple[int, int]]:
    """What is left of the last of these words without each run of at most two words, as digests: each costs as much as
    the others."""
    assert not isinstance(view, Rule)
    found = _WORD.findall(str(view[-1]))
    before = list(accumulate(found, lambda words, word: hash((words, word)), initial=0))
    behind = list(accumulate(reversed(found), lambda words, word: hash((words, word)), initial=0))[::-1]
    for size in (0, 1, 2):
        for at in range(len(found) - size + 1):
            if 0 < size < len(found) or found[1:]:
                yield before[at], behind[at + size]


def _rules(one: _View, two: _View) -> Iterator[Rule]:
    """How the one became the other: from the special to the general."""
    if isinstance(one, Rule) and isinstance(two, Rule):
        if one.kind == "argument" and one.old != two.old:
            renamed = one.parts and one.parts[0][0] != two.parts[0][0]
            parts = ((one.parts[0][0], two.parts[0][0], "^$"),) if renamed else ()
            yield Rule("argument", parts, one.place, one.old, two.old)
        elif one.kind == "nested" and one.old != two.old:
            yield Rule("nested", (), one.place, one.old or two.old, ("added",) if two.old else ("gone",))
    elif not isinstance(one, Rule) and not isinstance(two, Rule) and one != two:
        whole = tuple((a, b, "^$") for a, b in zip(one, two, strict=True))
        yield Rule("word", whole)
        core = tuple(map(_core, one, two))
        if core != whole:
            yield Rule("word", core)


def _word_views(name: Name, side: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Each identifier masked wherever it stands; the keys are sums, so that each costs what it holds only."""
    total, places = _sums(name)
    for word, weight in places.items():
        yield total - weight * hash(word), (word,)


def _pair_views(name: Name, side: int) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Two words of the path at once, one of them the base name or the first scope."""
    total, places = _sums(name)
    path = list(dict.fromkeys(word for word in IDENTIFIER.findall(name[0]) if word in places))[-_SCOPES:]
    for at, one in enumerate(path):
        for two in path[at + 1 :]:
            if two == path[-1] or one == path[0]:
                yield total - places[one] * (hash(one) - 1) - places[two] * (hash(two) - 2), (one, two)


@lru_cache(maxsize=1 << 12)
def _sums(name: Name) -> tuple[int, dict[str, int]]:
    """The sum of all pieces of a name, each times the weight of its place; and of each identifier its weights."""
    total = 0
    places: dict[str, int] = defaultdict(int)
    pieces = _PIECE.findall("\0".join(name))
    weights = _weights(1 << len(pieces).bit_length())
    for weight, piece in zip(weights, pieces, strict=False):
        total += weight * hash(piece)
        if piece[0] in _LETTERS and piece not in BUILTIN:
            places[piece] += weight
    return total, places


_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$")


@cache
def _weights(count: int) -> list[int]:
    random = Random(0)
    return [random.getrandbits(61) for _ in range(count)]


def _frames(name: Name) -> tuple[_Frame, ...]:
    """What is left of a name without its template arguments, or without its parameters; then with its base name taken
    out besides (4)."""
    if sum(map(len, name)) > _DEEP:
        return ()
    bare = tuple(masked(text, base_word(name)) for text in name)
    return tuple(
        (kind, which, left[PATH], left[PARAMETERS if which == ARGUMENTS else ARGUMENTS])
        for kind, left in ((3, name), (4, bare))
        for which in (ARGUMENTS, PARAMETERS)
    )


def _shared(ours: Iterable[Name], theirs: Iterable[Name]) -> set[_Frame]:
    """The frames that names of both builds have, without the base name those of several: no others can make a rule."""
    paths: tuple[dict[_Frame, set[str]], ...] = defaultdict(set), defaultdict(set)
    for held, names in zip(paths, (ours, theirs), strict=True):
        for name in names:
            for frame in _frames(name):
                held[frame].add(name[PATH])
    both = paths[0].keys() & paths[1].keys()
    return {frame for frame in both if frame[0] == 3 or len(paths[0][frame] | paths[1][frame]) > 1}


def _argument_views(name: Name, side: int, shared: Set[_Frame]) -> Iterator[tuple[int, Rule]]:
    """Runs of up to two arguments taken out at their place, with the base name or without; then a scope, or an
    argument of an argument, that only one of the builds has."""
    path, arguments, parameters = name
    base = base_word(name)
    frames = _frames(name)
    for frame in filter(shared.__contains__, frames):
        kind, which, *_ = frame
        parts = () if kind == 3 else ((base, "", ""),)
        for index, run, left in taken_out(name[which]):
            yield hash((frame, masked(left, base) if parts else left)), Rule("argument", parts, (which, index), run)
    for kind in (5, 6) if frames else ():  # in the newer build, or in the older one
        if (kind == 5) == (side == 1):
            for owner, index, item, without in nested(arguments) if frames[0] in shared else ():
                yield hash((kind, path, without, parameters)), Rule("nested", (), (1, index), (owner, item))
            for scope in dict.fromkeys(IDENTIFIER.findall(path)[:-1]):
                yield (
                    hash((kind, *(text.replace(f"{scope}::", "") for text in name))),
                    Rule("nested", (), (0, 0), (scope,)),
                )
        else:
            yield hash((kind, *name)), Rule("nested")


@lru_cache(maxsize=1 << 14)
def _core(one: str, other: str) -> Part:
    """What differs between two identifiers, by whole words, and where it is anchored."""
    first, second = _WORD.findall(one), _WORD.findall(other)
    head = _common(first, second)
    tail = _common(first[head:][::-1], second[head:][::-1])
    old, new = ("".join(each[head : len(each) - tail]) for each in (first, second))
    return old, new, ("" if head else "^") + ("" if tail else "$")


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def rewritten(
    aliases: Sequence[Name], names: Sequence[Name], rules: Sequence[Rule], known: set[str]
) -> dict[Name, Name]:
    """Names, known as ``aliases`` so far, as the newer build writes them where it has only that."""
    parts = {(old, where): new for rule in reversed(rules) for old, new, where in rule.parts}
    if not parts:
        return {}

    @cache
    def word(token: str) -> str:
        if token in known:
            return token
        found = _WORD.findall(token)
        for start in range(len(found) + 1):
            for end in range(start, min(len(found), start + _LONGEST_RUN) + 1):
                where = ("" if start else "^") + ("" if end < len(found) else "$")
                new = parts.get(("".join(found[start:end]), where))
                if new is not None:
                    changed = "".join((*found[:start], new, *found[end:]))
                    if changed in known:
                        return changed
        return token

    def written(text: str) -> str:
        return IDENTIFIER.sub(lambda match: word(match[0]), text)

    return {
        name: (written(path), written(arguments), written(parameters))
        for name, (path, arguments, parameters) in zip(names, aliases, strict=True)
    }
