"""Words without which an expression matches nothing: one fact a row; and, of random expressions, that they are."""

from __future__ import annotations

import re
from random import Random

import pytest

from spillscan.reading.expressions import fragments, mandatory


@pytest.mark.parametrize(
    ("expression", "words", "why"),
    [
        ("abcd", ["abcd"], "all of a text"),
        ("ab", [], "which stands nearly everywhere"),
        ("abc", ["abc"], "three letters are enough"),
        ("abcd.*efghij", ["efghij"], "the longer of two"),
        ("abcdef.*ghi", ["abcdef"], "wherever it stands"),
        ("ab[cd]ef", ["abcef", "abdef"], "a choice of letters"),
        ("abc[^d]ef", ["abc"], "and not of all but one"),
        ("abc[a-z]ef", ["abc"], "nor of a range"),
        ("(?:one|three)", ["one", "three"], "a choice of texts"),
        ("x(?:one|three)y", ["xoney", "xthreey"], "with what stands around it"),
        ("(?:one|x)", [], "of which one is too short"),
        ("(?:one|x)four", ["onefour", "xfour"], "unless more follows"),
        ("(?:one|o.e)four", ["four"], "a choice that is not text"),
        ("(?:ab.cde|fg.hij)", ["cde", "hij"], "has texts inside"),
        ("(?:ab.cde|fg.hi)", [], "or not in each"),
        ("abcd?ef", ["abcdef", "abcef"], "what may be missing is a choice"),
        ("abc(?:de)?f", ["abcdef", "abcf"], "of several letters, too"),
        ("abcd+e", ["abc"], "what is repeated ends a text"),
        ("(?:abcd)+", ["abcd"], "and all of it is there"),
        ("(?:abcd){2,3}", ["abcd"], "so often"),
        ("(?:abcd)*efg", ["efg"], "or not at all"),
        ("(abc)def", ["abcdef"], "groups are what they hold"),
        ("(?>abc)def", ["abcdef"], "atomic ones, too"),
        ("(?i:abc)defg", ["defg"], "but not in either case"),
        ("(?i:abcdefgh)ijk", ["ijk"], "however long"),
        ("(?=abcde)abc", ["abcde"], "what must follow"),
        ("(?<=abcde)fgh", ["fgh"], "and not what must stand before"),
        ("(?!abcde)fgh", ["fgh"], "nor what must not follow"),
        ("^abc$", ["abc"], "places have no width"),
        (r"abc\bdef", ["abcdef"], "wherever they are"),
        ("---.abc", ["abc"], "words before signs"),
        ("abc|abcd", ["abc"], "what holds another says no more"),
        ("[ab][cd][ef]ghi", [a + c + e + "ghi" for a in "ab" for c in "cd" for e in "ef"], "few are all"),
        ("[abcdefghijkl][abcdefghijkl]xyz", [f"{each}xyz" for each in "abcdefghijkl"], "many are begun anew"),
        ("a" * 40, ["a" * 24], "no longer than is worth it"),
        ("", [], "nothing"),
    ],
)
def test_words(expression: str, words: list[str], why: str) -> None:
    assert mandatory(expression) == words, why


def _drawn(chance: Random, depth: int) -> tuple[str, str]:
    """An expression, and a text that it matches."""
    kind = chance.randrange(7) if depth else 0
    if kind == 0:
        text = "".join(chance.choices("abcXY9 ", k=chance.randint(1, 5)))
        return text, text
    one, text = _drawn(chance, depth - 1)
    other, more = _drawn(chance, depth - 1)
    if kind == 1:
        return one + other, text + more
    if kind == 2:
        return f"(?:{one}|{other})", chance.choice((text, more))
    if kind == 3:
        return f"(?:{one})?{other}", chance.choice(("", text)) + more
    if kind == 4:
        times = chance.randint(1, 3)
        return f"(?:{one}){{{times},4}}", text * times
    if kind == 5:
        return f"(?i:{one}){other}", chance.choice((text.swapcase(), text)) + more
    return f"{one}[abc].*({other})", text + chance.choice("abc") + "-" + more


def test_what_matches_holds_one_of_the_words() -> None:
    chance = Random(11)
    reported = 0
    for _ in range(3000):
        expression, text = _drawn(chance, 4)
        assert re.fullmatch(expression, text)
        words = mandatory(expression)
        reported += bool(words)
        assert not words or any(word in text for word in words), (expression, text)
    assert reported > 2000


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["abcdefghi"], ["abcdefghi"]),
        (["abc"], ["abc"]),
        (["xabcdefghi", "yabcdefghi"], ["abcdefghi"]),
        (["xabcdefgh", "yabcdefgh"], ["yabcdefgh", "xabcdefgh"]),
        (["abc", "xabcd"], ["xabcd", "abc"]),
        ([], []),
    ],
)
def test_fragments(words: list[str], found: list[str]) -> None:
    chosen = fragments(words)
    assert chosen == found
    assert all(any(each in word for each in chosen) for word in words)
