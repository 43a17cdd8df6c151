"""How much two kernels of different names are alike: the parts of their names, and their figures.

Each part is compared from 0 to 1 and weighed; a part that neither has says nothing. A word of a base name counts the
less, the more base names of the same build have it: ``kernel`` tells little, ``softmax`` much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import sqrt

from spillscan.identity.anatomy import Anatomy, Items
from spillscan.model import Kernel, Usage

THRESHOLD = 0.62
"""Below it two kernels are two kernels. Chosen on generated renames, see docs/identity.md."""

_BASE, _ARGUMENTS, _PARAMETERS, _SCOPES, _RECORD = 0.35, 0.15, 0.2, 0.1, 0.2
_NUMBER = 0.3
"""What a word of digits counts against one of letters."""
_SAYS_LITTLE = frozenset(("kernel", "kernels", "cuda", "gpu", "device", "impl", "func", "fn"))
"""Words that any base name may have; each counts as a number does."""
_OTHER_INSTANCE = 0.7
"""Factor where all template arguments differ, and other instances of the template are in both builds."""

_UNLIKE = 0.2
_MOVED = 0.95
"""Factor where two lists are equal but for the namespaces in them, or less."""

FIGURES = (
    "registers",
    "stack_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "shared_bytes",
    "local_bytes",
    "barriers",
)
"""What of a record is compared, besides constant bank 0, which holds the parameters."""


class Likeness:
    """Scores pairs; knows how common words are.

    ``names`` are the names of each build; ``alive`` tells of a symbol of the base whether other instances of its
    template are in both builds.
    """

    def __init__(self, names: Iterable[Iterable[Anatomy]], alive: Callable[[str], bool]) -> None:
        self._weights: Mapping[str, float] = _word_weights(names)
        self._alive = alive

    def score(self, before: Kernel, one: Anatomy, after: Kernel, other: Anatomy) -> float:
        """From 0 to 1; symmetric."""
        parts = [(_BASE, self.words(one, other)), (_RECORD, record(before.usage, after.usage))]
        for weight, mine, others in (
            (_ARGUMENTS, one.arguments, other.arguments),
            (_PARAMETERS, one.parameters, other.parameters),
            (_SCOPES, one.scopes, other.scopes),
        ):
            if mine.texts or others.texts:
                parts.append((weight, _items(mine, others)))
        total = sum(weight * value for weight, value in parts) / sum(weight for weight, _ in parts)
        if (
            one.template == other.template
            and len(one.arguments.texts) == len(other.arguments.texts) > 0
            and not set(one.arguments.texts) & set(other.arguments.texts)
            and self._alive(before.key.symbol)
        ):
            total *= _OTHER_INSTANCE
        return total

    def unlike(self, one: Anatomy, other: Anatomy) -> bool:
        """Whether the base names have hardly a word in common, so that only signature and record speak for a pair."""
        return self.words(one, other) < _UNLIKE

    def words(self, one: Anatomy, other: Anatomy) -> float:
        """How much of the words of two base names is the same."""
        if one.base == other.base:
            return 1.0
        shared, every = self._weight(one.words & other.words), self._weight(one.words | other.words)
        return 2 * shared / (shared + every) if every else 0.0

    def _weight(self, words: frozenset[str]) -> float:
        return sum([self._weights.get(word, 1.0) for word in sorted(words)])


def record(before: Usage, after: Usage) -> float:
    """How near two records are; figures that only one of them tells, or that both have as 0, say little."""
    value = weight = 0.0
    for name in FIGURES:
        one, other = getattr(before, name), getattr(after, name)
        if one is None or other is None:
            continue
        told = 1.0 if one or other else 0.2
        weight += told
        value += told * (1.0 if one == other else min(one, other) / max(one, other))
    if before.constant_bytes and after.constant_bytes:
        weight += 1.0
        value += before.constant_bytes[0] == after.constant_bytes[0]
    return value / weight if weight else 0.5


def _items(ours: Items, theirs: Items) -> float:
    """Equal items in the same order count most, then the words in them, wherever they stand."""
    if ours.texts == theirs.texts:
        return 1.0
    one, other = ours.plain, theirs.plain
    common = 1.0 if one == other else 2 * _longest_common(one, other) / (len(one) + len(other))
    every = len(ours.tokens) + len(theirs.tokens)
    return _MOVED * (0.5 * common + 0.5 * (2 * len(ours.tokens & theirs.tokens) / every if every else 1.0))


def _longest_common(ours: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    """Length of the longest common subsequence, of the first 64 items."""
    best = [0] * (min(len(theirs), 64) + 1)
    for mine in ours[:64]:
        corner = 0
        for index, other in enumerate(theirs[:64], 1):
            above = best[index]
            best[index] = corner + 1 if mine == other else max(above, best[index - 1])
            corner = above
    return best[-1]


def _word_weights(names: Iterable[Iterable[Anatomy]]) -> dict[str, float]:
    """One over the root of how many base names of a build have the word; of both builds the commoner."""
    most: Counter[str] = Counter()
    for side in names:
        most |= Counter(word for words in {name.base: name.words for name in side}.values() for word in words)
    return {
        word: (_NUMBER if word.isdigit() or word in _SAYS_LITTLE else 1.0) / sqrt(count) for word, count in most.items()
    }
