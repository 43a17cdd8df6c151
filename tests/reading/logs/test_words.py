"""A search for several words finds what separate searches find."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spillscan.reading.logs.steps import Words

WORDS = (b"ab", b"ERROR", b": c ", b"\xff")
PIECES = st.sampled_from([*WORDS, b"\n", b"a", b"E", b":", b"x" * 700, b" " * 3000, b"ERRO"])


@given(st.lists(PIECES, max_size=40).map(b"".join), st.integers(0, 4000), st.integers(0, 6000))
def test_lines_are_those_of_a_search_for_each_word(text: bytes, start: int, size: int) -> None:
    words, part = Words(*WORDS), text[start : start + size]
    lines = part.split(b"\n")
    begins = [start + sum(len(line) + 1 for line in lines[:at]) for at in range(len(lines))]
    expected = [
        (begin, begin + len(line))
        for begin, line in zip(begins, lines, strict=True)
        if any(word in line for word in WORDS)
    ]
    assert list(words.lines(text, start, min(start + size, len(text)))) == expected
    first = min((at for word in WORDS if (at := part.find(word)) >= 0), default=None)
    assert next(words.positions(part), None) == first
    assert words.occur_in(part) == (first is not None)


@given(st.lists(PIECES, max_size=40).map(b"".join), st.integers(0, 4000), st.integers(0, 6000))
def test_each_word_is_found_once_in_its_place(text: bytes, start: int, size: int) -> None:
    end = min(start + size, len(text))
    expected = sorted(
        at for word in WORDS for at in range(start, end - len(word) + 1) if text[at : at + len(word)] == word
    )
    assert list(Words(*WORDS).positions(text, start, end)) == expected
