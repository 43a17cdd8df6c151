"""What was replaced by what in the names of a whole build: words, template arguments, parameters, scopes.

Two names that are equal once one word of each is masked make a rule, ``flash → fa3``, of the words and of what differs
in them. A rule weighs as many distinct names as it explains, less where its new word was there before or its old one
still is, since it may be another instance then. The heaviest rules pair first; what is explained stops counting for
others, and what was learnt rewrites the rest for the next turn. Two words at once, arguments and scopes are looked at
for what one word did not explain. A pair is sure only where its rule weighs half as much again as every rival's. Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from random import Random
from typing import NamedTuple

from spillscan.model.demangled import UNNAMED, Function
from spillscan.model.symbols import demangle
from spillscan.naming.identity.symbol import canonical

Name = tuple[str, str, str]
"""(scopes and base name, template arguments of the base name, parameters), as texts."""
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


class Explained(NamedTuple):
    """A renamed name."""

    after: Name
    """What it is called now."""
    rule: Rule
    """The substitution."""
    names: int
    """How many names it explains."""


_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_PIECE = re.compile(r"[A-Za-z_$][\w$]*|[^A-Za-z_$]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|_+|\$+|.")
_MANGLED = re.compile(r"S[0-9A-Z]*_|T\d*_|L[a-z]n?\d+E|(\d+)|[^STL\d]+|.", re.DOTALL)
_OWNER = re.compile(r"[\w$]*\Z")
_BUILTIN = frozenset(
    re.findall(
        r"\w+",
        "void bool char short int long signed unsigned float double const volatile true false anon auto",
    )
)
_BLOCK = 900
"""More pairs than this of one block are not looked at, unless the words have something in common."""
_MARGIN = 1.5
"""How much more a rule must weigh than every rival's."""
_TURNS = 4
_FEW, _AGREE = 4, 0.3
"""A rule of one template alone may be a sibling of another, and another value of an argument another instance: so many
names, and so large a share of equal figures."""
_DEEP = 2000
"""Characters of a name up to which two changes at once are looked for."""
_SCOPES = 6
"""How many names of a path are looked at two by two, the innermost."""
_LONGEST_RUN = 8
"""Words of an identifier that are replaced at once."""
_PATHS, _ARGUMENTS, _PARAMETERS = 0, 1, 2


@lru_cache(maxsize=1 << 16)
def spelled(symbol: str) -> Name:
    """The parts of ``symbol``, mangled or not; a name that has no parts is all base."""
    function = Function(demangle(canonical(symbol)).replace(UNNAMED, "anon").replace(", ", ",").replace("> >", ">>"))
    texts = [
        function.text[at + 1 : function.closing[at]] if at is not None else "" for at in (function.angle, function.end)
    ]
    return "::".join((*function.scopes, function.base)), texts[0], texts[1]


def words(symbol: str) -> list[str]:
    """The identifiers in ``symbol``, without demangling it."""
    if not symbol.startswith("_Z"):
        return _IDENTIFIER.findall(symbol)
    found, at, end = [], 2, len(symbol)
    while at < end:
        token = _MANGLED.match(symbol, at)
        assert token is not None
        at = token.end()
        if token[1] and len(token[1]) < 5:
            found.append(symbol[at : at + int(token[1])])
            at += int(token[1])
    return found


class Vocabulary:
    """What a build has: words, and of templates that are concerned their shapes and arguments at their places."""

    def __init__(self, own: Iterable[Name], kept: Iterable[str], concerned: Iterable[Name]) -> None:
        self.words: set[str] = set()
        self._shapes: set[tuple[str, int, str]] = set()
        self._slots: set[tuple[str, int, int, str]] = set()
        bases = {_base(name) for name in concerned}
        self.add(own)
        for symbol in kept:
            found = words(symbol)
            self.words.update(found)
            if not bases.isdisjoint(found):
                self.add([spelled(symbol)])

    def add(self, names: Iterable[Name]) -> None:
        """Counts names as the build's."""
        for name in names:
            self.words.update(*map(_identifiers, name))
            self._shapes.add(_shape(name))
            self._slots |= _slots(name)

    def lacks(self, rule: Rule, names: set[Name], side: int) -> bool:
        """Whether it has not what a rule leads to (``side`` 1), or comes from (0): else that is another instance."""
        if any(where == "^$" and part[side] and part[side] not in self.words for *part, where in rule.parts):
            return True
        if rule.kind == "argument" and (rule.old, rule.new)[side] and len(rule.old) == len(rule.new):
            return sum(not _slots(name) <= self._slots for name in names) > 0.5 * len(names)
        return sum(_shape(name) not in self._shapes for name in names) > 0.5 * len(names)


class _Worth(NamedTuple):
    weight: float
    sure: bool
    """Whether it can make a fact."""
    names: int


_Pairs = set[tuple[Name, Name]]


def learn(
    old: Iterable[Name],
    new: Iterable[Name],
    vocabularies: Sequence[Vocabulary],
    equal: Callable[[Name, Name], float],
) -> dict[Name, Explained]:
    """What became of names that only the older build has: those of which a rule makes one of ``new``, surely.

    ``equal`` says which share of two names' kernels have equal figures.
    """
    before, after = vocabularies
    left, right = sorted(set(old)), set(new)
    found: dict[Name, Explained] = {}
    alias = {name: name for name in left}
    """As the newer build would write it, as far as that is known."""
    for turn in range(_TURNS):
        explained: dict[Rule, _Pairs] = defaultdict(set)
        for x, y, rule in _candidates([(alias[name], name) for name in left], sorted(right), deep=turn > 0):
            explained[rule].add((x, y))
        worth = {rule: _worth(rule, pairs, before, after, equal) for rule, pairs in explained.items()}
        used = _assign(explained, worth, found)
        left = [name for name in left if name not in found]
        done = {found[x].after for pairs in used.values() for x in pairs}
        right -= done
        if not left or not right:
            break
        known = _single_words(explained, before.words, after.words)
        learnt = [rule for rule in used if rule.kind == "word" and worth[rule].names > 2]
        alias |= _rewritten([alias[name] for name in left], left, [*learnt, *known], after.words)
        after.add(name for names in used.values() for name in names)  # what is explained is no longer gone, nor new
        before.add(done)
        if not used and not known and turn:
            break
    return found


def _assign(
    explained: dict[Rule, _Pairs], worth: dict[Rule, _Worth], found: dict[Name, Explained]
) -> dict[Rule, list[Name]]:
    """Adds to ``found`` what no rival comes near; returns which names each rule explained."""
    ranked = sorted(explained, key=lambda rule: (-worth[rule].weight, rule))
    reach: dict[Name, dict[Name, float]] = defaultdict(dict)
    back: dict[Name, dict[Name, float]] = defaultdict(dict)
    best: dict[tuple[Name, Name], Rule] = {}
    for rule in reversed(ranked):
        for pair in explained[rule]:
            x, y = pair
            reach[x][y] = back[y][x] = worth[rule].weight
            best[pair] = rule
    done: set[Name] = set()
    taken: set[Name] = set()
    used: dict[Rule, list[Name]] = defaultdict(list)
    for rule in (rule for rule in ranked if worth[rule].sure):
        free = [(x, y) for x, y in explained[rule] if x not in done and y not in taken]
        if 2 * len(free) < len(explained[rule]):  # others explained most of it
            continue
        for x, y in sorted(free):
            if x in done or y in taken or best[x, y] != rule:
                continue
            rivals = [weight for other, weight in reach[x].items() if other != y and other not in taken]
            rivals += [weight for other, weight in back[y].items() if other != x and other not in done]
            if worth[rule].weight >= _MARGIN * max(rivals, default=0):
                done.add(x)
                taken.add(y)
                found[x] = Explained(y, rule, worth[rule].names)
                used[rule].append(x)
    return used


def _single_words(explained: dict[Rule, _Pairs], old: set[str], new: set[str]) -> list[Rule]:
    """Words that became others whatever else was replaced beside them: where two were replaced at once, the one may
    have gone with many others."""
    reach: dict[str, dict[str, set[Name]]] = defaultdict(lambda: defaultdict(set))
    back: dict[str, dict[str, set[Name]]] = defaultdict(lambda: defaultdict(set))
    for rule, pairs in explained.items():
        if rule.kind == "word" and len(rule.parts) > 1:
            for was, now, where in rule.parts:
                if where == "^$" and was not in new and now not in old:
                    names = {x for x, _ in pairs}
                    reach[was][now] |= names
                    back[now][was] |= names
    found = []
    for was, candidates in reach.items():
        (count, now), *others = sorted(((len(names), now) for now, names in candidates.items()), reverse=True)
        rivals = [number for number, _ in others[:1]] + [len(names) for one, names in back[now].items() if one != was]
        if count >= _FEW and count >= _MARGIN * max(rivals, default=0):
            found.append(Rule("word", ((was, now, "^$"),)))
    return found


def _worth(rule: Rule, pairs: _Pairs, old: Vocabulary, new: Vocabulary, equal: Callable[[Name, Name], float]) -> _Worth:
    fresh, gone = old.lacks(rule, {y for _, y in pairs}, 1), new.lacks(rule, {x for x, _ in pairs}, 0)
    size = min(len({pair[side] for pair in pairs}) for side in (0, 1))
    other_value = bool(rule.kind == "argument" and rule.old and rule.new)
    weak = size < 2
    if other_value or (any(was and now for was, now, _ in rule.parts) and len({x[0] for x, _ in pairs}) == 1):
        weak = size < _FEW or sum(equal(*pair) for pair in pairs) < _AGREE * len(pairs)
    share = 1 if fresh and gone else 0.7 if fresh else 0.4 if gone else 0.05
    return _Worth(size * share, fresh and not weak, size)


# ---- pairs of names that one rule explains ---------------------------------------------------------------------------

_View = tuple[str, ...] | Rule
"""What was taken out of a name: words, or arguments."""


def _candidates(
    ours: Sequence[tuple[Name, Name]], theirs: Sequence[Name], *, deep: bool
) -> Iterator[tuple[Name, Name, Rule]]:
    """Names that are equal but for what was taken out of them, and the rules that this makes."""
    views = (_word_views, *((_pair_views, _argument_views) if deep else ()))
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
    runs: dict[tuple[object, ...], list[tuple[Name, _View]]] = defaultdict(list)
    for one in mine:
        for key in _runs(one[1]):
            runs[key].append(one)
    seen: set[tuple[Name, Name]] = set()
    hits: dict[tuple[object, ...], list[tuple[Name, _View]]] = defaultdict(list)
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


def _runs(view: _View) -> Iterator[tuple[object, ...]]:
    """What is left of the last of these words without each run of at most two words."""
    assert not isinstance(view, Rule)
    found = _WORD.findall(str(view[-1]))
    for size in (0, 1, 2):
        for at in range(len(found) - size + 1):
            if 0 < size < len(found) or found[1:]:
                yield tuple(found[:at]), tuple(found[at + size :])


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
    path = list(dict.fromkeys(word for word in _IDENTIFIER.findall(name[0]) if word in places))[-_SCOPES:]
    for at, one in enumerate(path):
        for two in path[at + 1 :]:
            if two == path[-1] or one == path[0]:
                yield total - places[one] * (hash(one) - 1) - places[two] * (hash(two) - 2), (one, two)


def _sums(name: Name) -> tuple[int, dict[str, int]]:
    """The sum of all pieces of a name, each times the weight of its place; and of each identifier its weights."""
    total = 0
    places: dict[str, int] = defaultdict(int)
    pieces = _PIECE.findall("\0".join(name))
    weights = _weights(1 << len(pieces).bit_length())
    for weight, piece in zip(weights, pieces, strict=False):
        total += weight * hash(piece)
        if piece[0] in _LETTERS and piece not in _BUILTIN:
            places[piece] += weight
    return total, places


_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$")


@cache
def _weights(count: int) -> list[int]:
    random = Random(0)
    return [random.getrandbits(61) for _ in range(count)]


def _argument_views(name: Name, side: int) -> Iterator[tuple[int, Rule]]:
    """Runs of up to two arguments taken out at their place, with the base name or without; then a scope, or an
    argument of an argument, that only one of the builds has."""
    if sum(map(len, name)) > _DEEP:
        return
    path, arguments, parameters = name
    base = _base(name)
    bare = _masked(path, base), _masked(arguments, base), _masked(parameters, base)
    for which in (_ARGUMENTS, _PARAMETERS):
        for index, run, masked in _taken_out(name[which]):
            rest = (masked, parameters) if which == _ARGUMENTS else (arguments, masked)
            yield hash((3, which, path, *rest)), Rule("argument", (), (which, index), run)
            other = _masked(masked, base)
            rest = (other, bare[2]) if which == _ARGUMENTS else (bare[1], other)
            yield hash((4, which, bare[0], *rest)), Rule("argument", ((base, "", ""),), (which, index), run)
    for kind in (5, 6):  # in the newer build, or in the older one
        if (kind == 5) == (side == 1):
            for owner, index, item, without in _nested(arguments):
                yield hash((kind, path, without, parameters)), Rule("nested", (), (1, index), (owner, item))
            for scope in dict.fromkeys(_IDENTIFIER.findall(path)[:-1]):
                yield (
                    hash((kind, *(text.replace(f"{scope}::", "") for text in name))),
                    Rule("nested", (), (0, 0), (scope,)),
                )
        else:
            yield hash((kind, *name)), Rule("nested")


@lru_cache(maxsize=1 << 12)
def _taken_out(text: str) -> list[tuple[int, tuple[str, ...], str]]:
    """Each run of up to two arguments of a list: (index, the run, the list with the run masked)."""
    items = _items(text)
    return [
        (at, tuple(items[at : at + size]), ",".join((*items[:at], "\0", *items[at + size :])))
        for size in (0, 1, 2)
        for at in range(len(items) - size + 1)
    ]


@lru_cache(maxsize=1 << 12)
def _items(text: str) -> list[str]:
    """The arguments of a list, by its outer commas."""
    return [text[start:end] for level, _, _, start, end in _spans(text) if level == 1]


@lru_cache(maxsize=1 << 12)
def _nested(text: str) -> list[tuple[str, int, str, str]]:
    """Each argument of a list in the list: (owner, index, argument, text without it)."""
    found = []
    for level, owner, index, start, end in _spans(text):
        if level > 1:
            low, high = (start - 1, end) if index else (start, end + (text[end : end + 1] == ","))
            found.append((owner, index, text[start:end], text[:low] + text[high:]))
    return found


def _spans(text: str) -> Iterator[tuple[int, str, int, int, int]]:
    """(level, owner, index, start, end) of each argument of each list."""
    opened: list[tuple[str, int, int]] = []
    owner, start, index = "", 0, 0
    for at, mark in enumerate(f"{text},"):
        if mark in "<([{":
            opened.append((owner, start, index))
            before = _OWNER.search(text, max(0, at - 80), at)
            owner, start, index = "" if before is None else before[0], at + 1, 0
        elif mark in ",>)]}":
            if at > start:
                yield len(opened) + 1, owner, index, start, at
            if mark == ",":
                start, index = at + 1, index + 1
            elif opened:
                owner, start, index = opened.pop()


# ---- words -----------------------------------------------------------------------------------------------------------


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


def _rewritten(
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
        return _IDENTIFIER.sub(lambda match: word(match[0]), text)

    return {
        name: (written(path), written(arguments), written(parameters))
        for name, (path, arguments, parameters) in zip(names, aliases, strict=True)
    }


def _masked(text: str, word: str) -> str:
    return _whole(word).sub("\1", text) if word and word in text else text


@lru_cache(maxsize=1 << 10)
def _whole(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w$]){re.escape(word)}(?![\w$])")


def _identifiers(text: str) -> set[str]:
    return set(_IDENTIFIER.findall(text)) - _BUILTIN


def _base(name: Name) -> str:
    found = _IDENTIFIER.findall(name[_PATHS])
    return found[-1] if found else ""


def _shape(name: Name) -> tuple[str, int, str]:
    return name[0], len(_items(name[1])), name[2]


def _slots(name: Name) -> set[tuple[str, int, int, str]]:
    return {(name[0], which, *place) for which in (1, 2) for place in enumerate(_items(name[which]))}
