"""How much two kernels of different names are alike: the parts of their names, and their figures.

Each part is compared from 0 to 1 and weighed; a part that neither has says nothing. A word of a base name counts the
less, the more base names of the same build have it: ``kernel`` says little, ``softmax`` much.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from math import fsum, sqrt

from msgspec import Struct

from spillscan.model import Kernel, Usage
from spillscan.model.demangled import Function
from spillscan.model.symbols import demangle
from spillscan.naming.identity.symbol import canonical

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TOKEN = re.compile(r"[A-Za-z_]\w*|-?\d+|[*&]+")
_QUALIFIER = re.compile(r"(?:[A-Za-z_]\w*|\(anonymous namespace\))::")


def _unqualified(text: str) -> str:
    return _QUALIFIER.sub("", text)


class Items:
    """A list of types or values, prepared for being compared many times."""

    __slots__ = ("plain", "texts", "tokens")

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = texts
        """As the demangler writes them."""
        self.plain = tuple(map(_unqualified, texts))
        """``ns::Op<a::b>*`` as ``Op<b>*``: what stays when code moves to another namespace."""
        self.tokens = frozenset(_TOKEN.findall(" ".join(self.plain)))
        """Identifiers, numbers and pointers in them."""


class NameParts(Struct, frozen=True, kw_only=True, eq=False):
    """A name, taken apart."""

    scopes: Items
    """Namespaces and classes, outermost first, with their template arguments."""
    base: str
    """The function's own name."""
    words: frozenset[str]
    """The words of the base name, in lower case: ``softmaxRows_v2`` has softmax, rows, v, 2."""
    arguments: Items
    """Template arguments."""
    parameters: Items
    """Parameter types."""

    @property
    def template(self) -> tuple[tuple[str, ...], str]:
        """What all instances of a template share."""
        return self.scopes.texts, self.base


@lru_cache(maxsize=16384)
def name_parts(symbol: str) -> NameParts:
    """The parts of ``symbol``, mangled or not; a name that has no parts is all base."""
    name = Function(demangle(canonical(symbol)))
    return NameParts(
        scopes=_prepared(tuple(name.scopes)),
        base=name.base,
        words=frozenset(word.lower() for word in _WORD.findall(name.base)),
        arguments=_prepared(name.arguments),
        parameters=_prepared(name.parameters),
    )


@lru_cache(maxsize=16384)
def _prepared(texts: tuple[str, ...]) -> Items:
    return Items(texts)


THRESHOLD = 0.62
"""Below it two kernels are two kernels. Chosen on generated renames, see docs/internals/identity.md."""

_BASE, _ARGUMENTS, _PARAMETERS, _SCOPES, _RECORD = 0.35, 0.15, 0.2, 0.1, 0.2
_NUMBER = 0.3
"""What a word of digits counts against one of letters."""
_SAYS_LITTLE = frozenset(("kernel", "kernels", "cuda", "gpu", "device", "impl", "func", "fn"))
"""Words that any base name may have; each counts as a number does."""
_OTHER_INSTANCE = 0.7
"""Factor where all template arguments differ, and other instances of the template are in both builds."""

SAME_CODE, SAME_BYTES = 0.96, 0.98
"""The least likeness of kernels with machine code of equal figures, and of code that is the same byte for byte; among
several the names decide."""
_SHORT = 48
"""Instructions; what is shorter is often the same in kernels that have nothing to do with each other."""

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

    ``names`` are the names of each build; ``alive`` says of a symbol of the base whether other instances of its
    template are in both builds.
    """

    def __init__(self, names: Iterable[Iterable[NameParts]], alive: Callable[[str], bool]) -> None:
        self._weights: Mapping[str, float] = _word_weights(names)
        self._alive = alive

    def score(self, before: Kernel, one: NameParts, after: Kernel, other: NameParts) -> float:
        """From 0 to 1; symmetric."""
        parts = [(_BASE, self.words(one, other)), (_RECORD, record(before.usage, after.usage))]
        for weight, mine, others in (
            (_ARGUMENTS, one.arguments, other.arguments),
            (_PARAMETERS, one.parameters, other.parameters),
            (_SCOPES, one.scopes, other.scopes),
        ):
            if mine.texts or others.texts:
                parts.append((weight, _items(mine, others)))
        total = fsum(weight * value for weight, value in parts) / fsum(weight for weight, _ in parts)
        if (
            one.template == other.template
            and len(one.arguments.texts) == len(other.arguments.texts) > 0
            and not set(one.arguments.texts) & set(other.arguments.texts)
            and self._alive(before.key.symbol)
        ):
            total *= _OTHER_INSTANCE
        return total

    def unlike(self, one: NameParts, other: NameParts) -> bool:
        """Whether the base names have hardly a word in common, so that only signature and record speak for a pair."""
        return self.words(one, other) < _UNLIKE

    def words(self, one: NameParts, other: NameParts) -> float:
        """How much of the words of two base names is the same."""
        if one.base == other.base:
            return 1.0
        shared, every = self._weight(one.words & other.words), self._weight(one.words | other.words)
        return 2 * shared / (shared + every) if every else 0.0

    def _weight(self, words: frozenset[str]) -> float:
        return fsum(self._weights.get(word, 1.0) for word in words)


def record(before: Usage, after: Usage) -> float:
    """How near two records are; figures that only one of them has, or that both have as 0, say little."""
    value = weight = 0.0
    for name in FIGURES:
        one, other = getattr(before, name), getattr(after, name)
        if one is None or other is None:
            continue
        weighs = 1.0 if one or other else 0.2
        weight += weighs
        value += weighs * (1.0 if one == other else min(one, other) / max(one, other))
    if before.constant_bytes and after.constant_bytes:
        weight += 1.0
        value += before.constant_bytes[0] == after.constant_bytes[0]
    return value / weight if weight else 0.5


def digest(kernel: Kernel) -> str | None:
    """What byte for byte the same code has in common; ``None`` where it is not known."""
    return None if kernel.sass is None else kernel.sass.digest


def configuration(kernel: Kernel) -> Hashable:
    """What a tuner chose for it: what its compiler wrote beside it, else the block size that its code requires, which
    compilers of tuned kernels state; ``None`` where nothing says. Kernels of one symbol that differ in it are several
    candidates, not one kernel that changed."""
    bounds = kernel.launch_bounds
    return kernel.configuration or (None if bounds is None else bounds.required_threads)


_LASTING = ("tensor", "global", "shared", "barrier", "sfu")
"""Classes of instructions whose number the source decides, more than the compiler."""


def work(kernel: Kernel) -> tuple[int, ...] | None:
    """How many instructions it has of each class that another compiler leaves much as it is; ``None`` without code."""
    if kernel.sass is None:
        return None
    classes = kernel.sass.opcode_classes
    return tuple(classes.get(name, 0) for name in _LASTING)


def as_much(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> float:
    """How near two counts of :func:`work` are, from 0 to 1."""
    both = [(min(pair), max(pair)) for pair in zip(one or (), other or (), strict=False) if any(pair)]
    return sum(least / most for least, most in both) / len(both) if both else 0.0


def code(kernel: Kernel) -> Hashable:
    """What equal machine code has in common, wherever it was read: instructions by opcode, and the accesses to local
    memory; ``None`` where no code was read, or where it is too short to say anything."""
    sass = kernel.sass
    if sass is None or sass.instructions < _SHORT:
        return None
    return sass.instructions, sass.code_bytes, tuple(sass.opcodes), frozenset(sass.local.groups.items())


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


def _word_weights(names: Iterable[Iterable[NameParts]]) -> dict[str, float]:
    """One over the root of how many base names of a build have the word; of both builds the commoner."""
    most: Counter[str] = Counter()
    for side in names:
        most |= Counter(word for words in {name.base: name.words for name in side}.values() for word in words)
    return {
        word: (_NUMBER if word.isdigit() or word in _SAYS_LITTLE else 1.0) / sqrt(count) for word, count in most.items()
    }
