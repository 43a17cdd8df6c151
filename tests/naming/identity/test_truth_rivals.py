"""Parts of the search for renamed kernels, each against a plain count over all that there is."""

from __future__ import annotations

import itertools
import random
from typing import Any, cast

import pytest

from spillscan.model import Kernel, KernelKey, Usage
from spillscan.naming.identity.candidates import _WORD, _runs
from spillscan.naming.identity.likeness import name_parts
from spillscan.naming.identity.renames import _RIVAL, _best
from spillscan.naming.identity.substitutions import Rule, _single_words


class Scores:
    """As a likeness: scores that a table holds."""

    def __init__(self, scores: dict[tuple[str, str], float]) -> None:
        self.scores = scores

    def score(self, before: Kernel, one: object, after: Kernel, other: object) -> float:
        return self.scores[before.key.symbol, after.key.symbol]

    def unlike(self, one: object, other: object) -> bool:
        return False


def named(symbols: list[str]) -> list[Any]:
    kernels = [
        Kernel(key=KernelKey(symbol=each, arch="sm_90", unit="k.o"), role="entry", usage=Usage(registers=at))
        for at, each in enumerate(symbols)
    ]
    return [(kernel, name_parts(kernel.key.symbol)) for kernel in kernels]


def test_pairs_are_the_most_alike_first_and_say_how_many_others_come_near() -> None:
    chance = random.Random(7)
    for _ in range(200):
        ours = [f"old{at}" for at in range(chance.randrange(1, 5))]
        theirs = [f"new{at}" for at in range(chance.randrange(1, 5))]
        values = chance.sample(range(30, 90), len(ours) * len(theirs))
        scores = {pair: value / 100 for pair, value in zip(itertools.product(ours, theirs), values, strict=True)}
        least = 0.4
        pairs = itertools.product(range(len(ours)), range(len(theirs)))
        likeness = cast(Any, Scores(scores))
        if len(ours) == len(theirs) == 1:
            continue
        found = {
            (each.before.key.symbol, each.after.key.symbol): (each.score, each.evidence.one_of)
            for each in _best(pairs, named(ours), named(theirs), likeness, least)
        }
        expected: dict[tuple[str, str], tuple[float, int]] = {}
        free, waiting = (set(ours), set(theirs)), sorted(scores, key=scores.__getitem__, reverse=True)
        possible = {pair: score for pair, score in scores.items() if score >= least}
        for old, new in waiting:
            if (old, new) in possible and old in free[0] and new in free[1]:
                free[0].remove(old)
                free[1].remove(new)
                near = [pair for pair, score in possible.items() if score >= scores[old, new] - _RIVAL]
                rivals = max(sum(one == old for one, _ in near), sum(other == new for _, other in near))
                expected[old, new] = (round(scores[old, new], 3), rivals)
        assert found == expected


@pytest.mark.parametrize("text", ["", "a", "aB", "aBC", "a_b_c_d", "oneTwoThree4Five"])
def test_names_without_each_run_of_at_most_two_words(text: str) -> None:
    words = _WORD.findall(text)
    expected = {
        (tuple(words[:at]), tuple(words[at + size :]))
        for size in range(3)
        for at in range(len(words) + 1)
        if at + size <= len(words) and (0 < size < len(words) or len(words) > 1)
    }
    found = list(_runs(cast(Any, ("scope", text))))
    assert len(set(found)) == len(found) == len(expected)


PART, OTHER = ("flash", "fa3", "^$"), ("fwd", "forward", "^$")


@pytest.mark.parametrize(
    ("parts", "names", "old", "new", "expected"),
    [
        ((PART, OTHER), 9, set(), set(), {"flash", "fwd"}),
        ((PART, OTHER), 9, set(), {"flash"}, {"fwd"}),
        ((PART, OTHER), 9, {"fa3"}, set(), {"fwd"}),
        ((PART, OTHER), 9, {"fa3", "flash"}, {"flash", "fa3"}, {"fwd"}),
        ((PART, ("fwd", "forward", "^")), 9, set(), set(), {"flash"}),
        ((PART, OTHER), 1, set(), set(), set()),
        ((PART,), 9, set(), set(), set()),
    ],
)
def test_a_word_that_went_everywhere(
    parts: tuple[tuple[str, str, str], ...], names: int, old: set[str], new: set[str], expected: set[str]
) -> None:
    pairs = [((f"name{at}",), (f"other{at}",)) for at in range(names)]
    found = _single_words(cast(Any, {Rule("word", parts): pairs}), old, new)
    assert {rule.parts[0][0] for rule in found} == expected
    assert all(rule.kind == "word" and len(rule.parts) == 1 for rule in found)
