"""Truth table of what options and variables say; of a bad value a message quotes so much that one finds it, no more."""

from __future__ import annotations

import re

import pytest

from spillscan.judging.policy.keys import Key, Kind, level_of, value_of
from spillscan.output.errors import UsageError

KEYS = {
    "limit": Key("k", "limit", None, ""),
    "count": Key("k", "count", 1, "", largest=100),
    "flag": Key("k", "flag", False, ""),
    "choice": Key("k", "choice", "one", "", choices=("one", "two", "three")),
    "names": Key("k", "names", (), ""),
}


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("limit", "0", 0),
        ("limit", "12", 12),
        ("limit", "none", None),
        ("count", "100", 100),
        *(("flag", word, True) for word in ("1", "true", "YES", "on")),
        *(("flag", word, False) for word in ("0", "False", "no", "off")),
        ("choice", "two", "two"),
        ("names", "a, b,,c ,", ("a", "b", "c")),
        ("names", "", ()),
    ],
)
def test_said(kind: Kind, text: str, said: object) -> None:
    assert value_of(KEYS[kind], text) == said


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("limit", "-1", "must be a whole number of 0 or more or none, not '-1'"),
        ("limit", "1.5", "must be a whole number of 0 or more or none, not '1.5'"),
        ("limit", "²", "must be a whole number of 0 or more or none, not '²'"),
        ("count", "none", "must be a whole number of 0 or more, not 'none'"),
        ("count", "101", "must be a whole number of 0 or more, not '101'"),
        ("count", "0" * 17, f"must be a whole number of 0 or more, not '{'0' * 17}'"),
        ("flag", "maybe", "must be true or false, not 'maybe'"),
        ("choice", "four", "must be one, two or three, not 'four'"),
    ],
)
def test_not_said(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        value_of(KEYS[kind], text)
    assert error.value.what == message


def test_a_number_has_sixteen_digits_at_most() -> None:
    assert value_of(KEYS["count"], "0" * 16) == 0


@pytest.mark.parametrize("length", [59, 60, 61, 4000])
def test_sixty_characters_are_quoted(length: int) -> None:
    word = "y" * length
    for kind in ("limit", "flag", "choice"):
        with pytest.raises(UsageError) as error:
            value_of(KEYS[kind], word)
        assert max(map(len, re.findall("y+", error.value.what))) == min(length, 60)
    for text in (word, f"{word}=error"):
        with pytest.raises(UsageError) as error:
            level_of(text)
        assert max(map(len, re.findall("y+", error.value.what))) == min(length, 60)


def test_levels() -> None:
    assert level_of("spill=warning") == ("spill", "warning")
    assert level_of(" spill = off ") == ("spill", "off")
    for text in ("spill", "spill=", "spill=loud", "=error", "nothing=error"):
        with pytest.raises(UsageError):
            level_of(text)
