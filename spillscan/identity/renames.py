"""Pairs what no identity paired: kernels that bear another name now."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from functools import cache

from spillscan.identity import mangling
from spillscan.identity.anatomy import anatomy
from spillscan.identity.candidates import Blocks, Named, candidates, strong, weak
from spillscan.identity.likeness import THRESHOLD, Likeness
from spillscan.model import Kernel, Usage

Match = tuple[Kernel, Kernel, float]
"""Before, after, likeness."""

_SURE = 0.9
"""A pair that is this much alike in a strong block is not compared with weaker ones."""
_SUPPORT, _NO_SUPPORT = 0.2, 0.85
"""Two functions of unlike names and the same signature: what it adds if all their instances, over all archs, have equal
records; the factor if too few have."""
_ENOUGH = 2
"""How many equal records are no chance; one that tells of a stack or of spills counts as two."""
_MOST = 0.999
"""No likeness is an identity."""
_SAMPLE = 2000
"""How many paired kernels are asked for the words that are common in the build."""


def renames(left: Sequence[Kernel], right: Sequence[Kernel], paired: Sequence[tuple[Kernel, Kernel]]) -> list[Match]:
    """Kernels of the same role and arch, each at most once, the most alike first.

    ``paired`` are those of both builds that have kept their names: they tell which words are common there, and which
    templates live on.
    """
    if not left or not right:
        return []
    sample = paired[:: len(paired) // _SAMPLE + 1]
    ours, theirs = _named(left), _named(right)
    names = [[name for _, name in ours], [name for _, name in theirs]]
    for side, known in enumerate(names):
        known += [anatomy(pair[side].key.symbol) for pair in sample]
    likeness = Likeness(names, _living(paired))
    sure = _best(ours, theirs, likeness, _SURE, strong)
    gone = {id(kernel) for before, after, _ in sure for kernel in (before, after)}
    ours, theirs = ([named for named in side if id(named[0]) not in gone] for side in (ours, theirs))
    return sure + _best(ours, theirs, likeness, THRESHOLD, strong, weak)


def _best(ours: list[Named], theirs: list[Named], likeness: Likeness, least: float, *kinds: Blocks) -> list[Match]:
    """Each kernel once, the most alike pair first; among equals the order of names decides."""
    scored = []
    tallies: dict[Hashable, list[int]] = defaultdict(list)
    for index, other in candidates(ours, theirs, *kinds):
        (before, one), (after, two) = ours[index], theirs[other]
        unlike = likeness.unlike(one, two)
        scored.append((likeness.score(before, one, after, two), index, other, unlike))
        if unlike and one.arguments.texts == two.arguments.texts and one.parameters.texts == two.parameters.texts:
            equal = before.usage == after.usage
            tallies[one.template, two.template].append(_weight(before.usage) if equal else 0)
    ranked = []
    for score, index, other, unlike in scored:
        if unlike:
            tally = tallies.get((ours[index][1].template, theirs[other][1].template), [])
            supported = sum(tally) >= _ENOUGH
            total = score + _SUPPORT * sum(map(bool, tally)) / len(tally) if supported else score * _NO_SUPPORT
        else:
            total = score
        if total >= least:
            ranked.append((-total, index, other))
    left, right = _ranks(ours), _ranks(theirs)
    ranked.sort(key=lambda entry: (entry[0], left[entry[1]], right[entry[2]]))
    matches: list[Match] = []
    used_left, used_right = set[int](), set[int]()
    for negative, index, other in ranked:
        if index not in used_left and other not in used_right:
            used_left.add(index)
            used_right.add(other)
            matches.append((ours[index][0], theirs[other][0], min(round(-negative, 3), _MOST)))
    return matches


def _weight(usage: Usage) -> int:
    return _ENOUGH if usage.stack_bytes or usage.spill_bytes else 1


def _named(kernels: Sequence[Kernel]) -> list[Named]:
    return [(kernel, anatomy(kernel.key.symbol)) for kernel in kernels]


def _ranks(kernels: list[Named]) -> list[int]:
    ranks = [0] * len(kernels)
    for rank, index in enumerate(sorted(range(len(kernels)), key=lambda index: _order(kernels[index][0]))):
        ranks[index] = rank
    return ranks


def _order(kernel: Kernel) -> tuple[str, str, str]:
    return kernel.key.symbol, kernel.key.arch or "", kernel.key.unit


def _living(paired: Sequence[tuple[Kernel, Kernel]]) -> Callable[[str], bool]:
    """Whether instances of a symbol's template are among ``paired``; looked up only when first asked."""

    @cache
    def prefixes() -> frozenset[str]:
        return frozenset(_template(before.key.symbol) for before, _ in paired) - {""}

    return lambda symbol: _template(symbol) in prefixes()


def _template(symbol: str) -> str:
    """``_ZN2ns5scaleIfLi4EEvPT_`` -> ``_ZN2ns5scaleI``; empty for what is no template's instance."""
    found = _leading_names().match(symbol)
    return found[0] if found else ""


@cache
def _leading_names() -> re.Pattern[str]:
    return re.compile(rf"_ZN?{mangling.source_name()}+I", re.DOTALL)
