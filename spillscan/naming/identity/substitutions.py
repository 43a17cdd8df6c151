"""What was replaced by what in the names of a whole build: words, template arguments, parameters, scopes.

Two names that are equal once one word of each is masked make a rule, ``flash → fa3``, of the words and of what differs
in them. A rule weighs as many distinct names as it explains, less where its new word was there before or its old one
still is, since it may be another instance then. The heaviest rules pair first; what is explained stops counting for
others, and what was learnt rewrites the rest for the next turn. Two words at once, arguments and scopes are looked at
for what one word did not explain. A pair is sure only where its rule weighs half as much again as every rival's. Pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from spillscan.naming.identity.candidates import Rule, candidates, rewritten
from spillscan.naming.identity.spelling import (
    ARGUMENTS,
    IDENTIFIER,
    Name,
    base_word,
    identifiers,
    shape,
    slots,
    spelled,
    words,
)


class Explained(NamedTuple):
    """A renamed name."""

    after: Name
    """What it is called now."""
    rule: Rule
    """The substitution."""
    names: int
    """How many names it explains."""


_MARGIN = 1.5
"""How much more a rule must weigh than every rival's."""
_TURNS = 4
_FEW, _AGREE = 4, 0.3
"""A rule of one template alone may be a sibling of another, and another value of an argument another instance: so many
names, or kernels of equal figures, and so large a share of those."""

_CHANCE = 0.1
"""So large a share of equal figures says nothing."""


class Agreement(NamedTuple):
    """Of two names' kernels, those of equal figures."""

    share: float
    """Of all."""
    kernels: int
    """How many for which nothing else stands: of other archs, libraries or figures."""
    figures: int
    """How many sets of figures they have."""


class Vocabulary:
    """What a build has: words, and of templates that are concerned their shapes and arguments at their places."""

    def __init__(
        self, own: Iterable[Name], kept: Iterable[str], concerned: Iterable[Name], shared: Vocabulary | None = None
    ) -> None:
        """``shared``: what both builds have, which is looked at once."""
        self.words: set[str] = set(shared.words) if shared else set()
        self._shapes: set[tuple[str, int, str]] = set(shared._shapes) if shared else set()
        self._slots: set[tuple[str, int, int, str]] = set(shared._slots) if shared else set()
        bases = {base_word(name) for name in concerned}
        self.add(own)
        for symbol in kept:
            found = words(symbol)
            self.words.update(found)
            if not bases.isdisjoint(found):
                self.add([spelled(symbol)])

    def add(self, names: Iterable[Name]) -> None:
        """Counts names as the build's."""
        for name in names:
            self.words.update(*map(identifiers, name))
            self._shapes.add(shape(name))
            self._slots |= slots(name)

    def lacks(self, rule: Rule, names: set[Name], side: int) -> bool:
        """Whether it has not what a rule leads to (``side`` 1), or comes from (0): else that is another instance."""
        if any(where == "^$" and part[side] and part[side] not in self.words for *part, where in rule.parts):
            return True
        if rule.kind == "argument" and (rule.old, rule.new)[side] and len(rule.old) == len(rule.new):
            return sum(not slots(name) <= self._slots for name in names) > 0.5 * len(names)
        return sum(shape(name) not in self._shapes for name in names) > 0.5 * len(names)


class _Worth(NamedTuple):
    weight: float
    sure: bool
    """Whether it can make a fact."""
    names: int
    likely: bool
    """Whether it can make a guess: several names, new ones, and some kernel with the figures that it had."""


_Pairs = set[tuple[Name, Name]]
Reach = dict[Name, set[Name]]


def learn(
    old: Iterable[Name],
    new: Iterable[Name],
    vocabularies: Sequence[Vocabulary],
    equal: Callable[[Name, Name], Agreement],
    given: Sequence[tuple[str, str]] = (),
) -> tuple[dict[Name, Explained], Reach]:
    """What became of names that only the older build has: those of which a rule makes one of ``new``, surely; and of
    others what a rule makes of them that is not sure.

    ``equal`` says how many of two names' kernels have equal figures; ``given``: words that were replaced by others, as
    the user says.
    """
    before, after = vocabularies
    left, right = sorted(set(old)), set(new)
    found = _given(left, right, given)
    left = [name for name in left if name not in found]
    right -= {each.after for each in found.values()}
    alias = {name: name for name in left}
    """As the newer build would write it, as far as that is known."""
    perhaps: Reach = {}
    became: set[tuple[str, str]] = set()
    """Whole words, and those that have taken their places, as far as that is a fact."""
    for turn in range(_TURNS):
        explained: dict[Rule, _Pairs] = defaultdict(set)
        for name in left:
            if alias[name] in right and alias[name] != name:  # what was learnt is all of it
                explained[_replaced(name, alias[name])].add((name, alias[name]))
        open_ones = [(alias[name], name) for name in left if alias[name] not in right]
        for x, y, rule in candidates(open_ones, sorted(right), deep=turn > 0):
            if alias[x] is x or all(old in "\0".join(x) for old, *_ in rule.parts):
                explained[rule].add((x, y))  # what replaces a word that was learnt is no word of the older build
        worth = {rule: _worth(rule, pairs, before, after, equal) for rule, pairs in explained.items()}
        used = _assign(explained, worth, found, became)
        left = [name for name in left if name not in found]
        done = {found[x].after for pairs in used.values() for x in pairs}
        right -= done
        for x, y in (pair for rule, pairs in explained.items() if worth[rule].likely for pair in pairs):
            perhaps.setdefault(x, set()).add(y)
        if not left or not right:
            break
        known = _single_words(explained, before.words, after.words)
        learnt = [rule for rule in used if rule.kind == "word" and worth[rule].names > 2]
        alias |= rewritten([alias[name] for name in left], left, [*learnt, *known], after.words)
        after.add(name for names in used.values() for name in names)  # what is explained is no longer gone, nor new
        before.add(done)
        if not used and not known and turn:
            break
    return found, perhaps


def _against(rule: Rule, became: set[tuple[str, str]]) -> bool:
    """Whether it says of a word that it has taken the place of one, and it is known to have taken another's."""
    taken = {new for _, new in became}
    return any(where == "^$" and new in taken and (old, new) not in became for old, new, where in rule.parts)


def _replaced(name: Name, other: Name) -> Rule:
    """The words of a name that are others in another one."""
    both = zip(*(IDENTIFIER.findall(" ".join(each)) for each in (name, other)), strict=True)
    return Rule("word", tuple(dict.fromkeys((old, new, "^$") for old, new in both if old != new)))


def _given(left: Sequence[Name], right: set[Name], given: Sequence[tuple[str, str]]) -> dict[Name, Explained]:
    """What the user's own rules make of names: each where it makes one name of one."""
    found: dict[Name, Explained] = {}
    for old, new in given:
        made = {name: _written(name, old, new) for name in left if name not in found}
        times = Counter(made.values())
        pairs = {x: y for x, y in made.items() if x != y and y in right and times[y] == 1}
        found |= {x: Explained(y, Rule("word", ((old, new, ""),)), len(pairs)) for x, y in pairs.items()}
        right = right - set(pairs.values())
    return found


def _written(name: Name, old: str, new: str) -> Name:
    path, arguments, parameters = (part.replace(old, new) for part in name)
    return path, arguments, parameters


def _assign(
    explained: dict[Rule, _Pairs], worth: dict[Rule, _Worth], found: dict[Name, Explained], became: set[tuple[str, str]]
) -> dict[Rule, list[Name]]:
    """Adds to ``found`` what no rival comes near, and to ``became`` the words that this replaces; returns which names
    each rule explained."""
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
        if 2 * len(free) < len(explained[rule]) or _against(rule, became):  # others explained most of it
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
        if rule in used:
            became |= {(old, new) for old, new, where in rule.parts if where == "^$"}
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
    for was, became in reach.items():
        (count, now), *others = sorted(((len(names), now) for now, names in became.items()), reverse=True)
        rivals = [number for number, _ in others[:1]] + [len(names) for one, names in back[now].items() if one != was]
        if count >= _FEW and count >= _MARGIN * max(rivals, default=0):
            found.append(Rule("word", ((was, now, "^$"),)))
    return found


def _worth(
    rule: Rule, pairs: _Pairs, old: Vocabulary, new: Vocabulary, equal: Callable[[Name, Name], Agreement]
) -> _Worth:
    fresh, gone = old.lacks(rule, {y for _, y in pairs}, 1), new.lacks(rule, {x for x, _ in pairs}, 0)
    size = min(len({pair[side] for pair in pairs}) for side in (0, 1))
    other_value = bool(rule.kind == "argument" and rule.old and rule.new)
    weak, likely, agree = size < 2, size > 1, 1.0
    if weak or other_value or (any(was and now for was, now, _ in rule.parts) and len({x[0] for x, _ in pairs}) == 1):
        found = [equal(*pair) for pair in pairs]
        many = sum(each.kernels for each in found) >= _FEW and max(each.figures for each in found) > 1
        agree = sum(each.share for each in found) / len(pairs)  # where names say as much of others, figures decide
        likely &= any(each.kernels for each in found)
        instance = other_value and rule.place[0] == ARGUMENTS  # figures of other instances are often the same
        weak = not (size >= (2 * _FEW if instance else _FEW) or (many and not instance)) or agree < _AGREE
    share = 1 if fresh and gone else 0.7 if fresh else 0.4 if gone else 0.05
    return _Worth(size * share * max(agree, _CHANCE), fresh and not weak, size, fresh and likely)
