"""Families: the instances of one template, spelled by the arguments in which they differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count

from spillscan.model.symbols import Tuned
from spillscan.naming import columns
from spillscan.naming.identity.symbol import digest
from spillscan.naming.tree import Node, Parsed
from spillscan.naming.words import cut

_SHORT = 28
"""Characters of arguments that are shown whole, as they are written; of what a kernel was tuned for, twice as many."""
_MOST = 80
"""Of a hundred instances as many decide how a family is spelled."""
_LEAST_WORD = 8
"""Characters that a word of the arguments keeps, at least."""


Key = str | Tuned
"""What a kernel is named by: its symbol, one of a tuner's candidates by more."""


def symbol_of(key: Key) -> str:
    """The symbol in a key."""
    return key if isinstance(key, str) else key.symbol


class Spelling:
    """The arguments of all instances of a family, at one level."""

    def __init__(self, parts: Mapping[Node, columns.Parts], level: int) -> None:
        self.texts = {node: columns.joined(each, level) for node, each in parts.items()}
        """Each instance's arguments, one text."""
        lengths = sorted(map(len, self.texts.values()))
        self.longest, self.usual = lengths[-1], lengths[len(lengths) * _MOST // 100]
        """How long they are: the longest, and one than which most are no longer. If the longest decided, one instance
        that goes could change the names of all."""
        self.common: Counter[str] = Counter()
        """How many words of the family's arguments hold a word: what is rare says most."""
        self._parts = parts

    @property
    def distinct(self) -> bool:
        """Whether they set all instances apart."""
        return len(set(self.texts.values())) == len(self.texts)

    def own(self, node: Node, room: int) -> str:
        """Of its words as few as no other instance has together, and as many more as fit; ``…`` for what is left out.
        Empty where these do not fit."""
        words = list(_words(self._parts[node]))
        order = sorted(range(len(words)), key=lambda at: (len(self._holders[words[at]]), len(words[at]), at))
        kept: set[int] = set()
        sharing: set[Node] = set(self._parts)
        for at in order:
            if not sharing <= self._holders[words[at]]:
                sharing = sharing & self._holders[words[at]]
                kept.add(at)
            if len(sharing) == 1:
                break
        parts = self._parts[node]
        text = _elided(parts, kept)
        if len(sharing) > 1:
            return ""
        while len(text) > room:  # whole words of the longest
            longest = max(kept, key=lambda at: len(words[at]))
            least = len(words[longest]) - (len(text) - room)
            if least < _LEAST_WORD:
                return ""
            words[longest] = cut(words[longest], least, self.common, ())
            text = _elided(parts, kept, words)
        for at in range(len(words)):
            longer = _elided(parts, kept | {at}, words)
            if len(longer) <= room:
                kept.add(at)
                text = longer
        return text

    @cached_property
    def _holders(self) -> dict[str, set[Node]]:
        found: dict[str, set[Node]] = defaultdict(set)
        for node, parts in self._parts.items():
            for word in _words(parts):
                found[word].add(node)
        return found


def _below(node: Node, path: Iterable[int]) -> Node | None:
    """What stands at a place among the arguments of a tree."""
    for at in path:
        if at >= len(node.args):
            return None
        node = node.args[at]
    return node


def _listed(numbers: Sequence[int]) -> str:
    """``2, 4 to 7``"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _words(parts: Iterable[columns.Part]) -> Iterator[str]:
    for text, below in parts:
        yield text
        yield from _words(below)


def _elided(parts: Iterable[columns.Part], kept: Collection[int], words: Sequence[str] = ()) -> str:
    """The words whose numbers are ``kept``, as they are or as ``words`` has them, with the brackets around them."""
    numbers = count()

    def shown(several: Iterable[columns.Part]) -> list[str]:
        found: list[str] = []
        for text, below in several:
            number = next(numbers)
            inside = shown(below)
            if number in kept:
                word = words[number] if words else text
                found.append(f"{word}<{','.join(inside)}>" if any(each != "…" for each in inside) else word)
            else:
                found += [each for each in inside if each != "…"] or ["…"]
        return [text for at, text in enumerate(found) if text != "…" or not at or found[at - 1] != "…"]

    return ",".join(shown(parts))


class Family:
    """Instances of one template; or one function, alone."""

    def __init__(self, base: str, symbols: Sequence[Key], trees: Callable[[Key], Parsed]) -> None:
        self.base = base
        """What the family is called."""
        self.symbols = symbols
        """Its kernels."""
        self._trees = trees
        self._spellings: dict[int, Spelling | None] = {}

    @cached_property
    def _tuned(self) -> bool:
        return any(isinstance(symbol, Tuned) for symbol in self.symbols)

    @cached_property
    def members(self) -> list[Node]:
        """Its instances' names as trees, each once."""
        return list(dict.fromkeys(self._trees(symbol).node for symbol in self.symbols))

    def __len__(self) -> int:
        return len(self.members)

    def bracketed(self, arguments: str) -> str:
        """``<64, false>``; of a tuner's candidates ``[64×64×32, 4 warps]``; empty where there are none."""
        if not arguments:
            return ""
        return f"[{arguments}]" if self._tuned else f"<{arguments}>"

    @cached_property
    def columns(self) -> list[columns.Column]:
        """The arguments in which the instances differ."""
        return columns.differences(self.members)

    def spelling(self, level: int) -> Spelling | None:
        """The arguments of each instance at a level; ``None`` where they do not set all apart, or are not short."""
        if level not in self._spellings:
            self._spellings[level] = self._made(level)
        return self._spellings[level]

    def _made(self, level: int) -> Spelling | None:
        if level == columns.WHOLE:
            known: dict[Node, str] = {}
            parts: dict[Node, columns.Parts] = {}
            for member in self.members:
                parts[member] = tuple((columns.whole(each, known), ()) for each in member.args)
                if len(columns.joined(parts[member], level)) > (2 * _SHORT if self._tuned else _SHORT):
                    return None
            found = Spelling(parts, level)
            return found if found.distinct else None
        rows = columns.spelled(self.columns, len(self.members), level)
        found = Spelling(dict(zip(self.members, rows, strict=True)), level)
        return found if found.distinct else None

    @cached_property
    def shared(self) -> list[str]:
        """What all instances have in common, as far as it says something: types and tiles."""
        return columns.common(self.members) if len(self.members) > 1 else []

    def fitting(self, room: int) -> Spelling:
        """The first level at which most instances' arguments fit; else the last."""
        found = None
        for level in range(columns.CUT):
            if (spelling := self.spelling(level)) is not None:
                found = spelling
                if bracketed(found.usual) <= room:
                    break
        return found or Spelling(dict.fromkeys(self.members, ()), columns.CUT)

    def legend(self, room: int) -> str:
        """Which arguments are shown as letters, in their order; empty where none is."""
        level = next((level for level in range(columns.LEVELS) if self._spellings.get(level) is self.fitting(room)), 0)
        places: dict[str, list[int]] = {}
        for *above, last in columns.flags(self.columns, level) if len(self) > 1 else ():
            holders = (_below(member, above) for member in self.members)
            holder = next((node.word for node in holders if node is not None and last < len(node.args)), "")
            places.setdefault(holder if above else "", []).append(last + 1)
        if not places:
            return ""
        said = [f"{_listed(numbers)} of {word}" if word else _listed(numbers) for word, numbers in places.items()]
        letters = sum(map(len, places.values()))
        many = "arguments" if letters > 1 else "argument"
        return f"T, F of {self.base}: {many} {', '.join(said)}"

    def clipped(self, node: Node, spelling: Spelling, room: int) -> str:
        """An instance's arguments in ``room`` characters: all, or in fewer words, or those that no other has; else a
        digest."""
        text = spelling.texts[node]
        if len(text) <= room:
            return text
        shorter = self.spelling(columns.CUT)
        if shorter is not None and len(shorter.texts[node]) <= room:
            return shorter.texts[node]
        for each in (spelling, shorter):
            if each is not None and (own := each.own(node, room)):
                return own
        mark = f"…{mark_of(text, 2)}"
        start = text[: max(room - len(mark), 0)]
        comma = start.rfind(",")
        return (start[: comma + 1] if comma > room // 2 else start) + mark

    @property
    def spellings(self) -> list[Spelling]:
        """All levels that set the instances apart."""
        return [found for level in range(columns.LEVELS) if (found := self.spelling(level)) is not None]


def bracketed(length: int) -> int:
    """Characters of so many in brackets; none without any."""
    return length + 2 if length else 0


def mark_of(text: str, size: int) -> str:
    """So many bytes of a digest, in hexadecimal digits: the beginning of one of any size."""
    return digest(text, 32)[: 2 * size]
