"""Truth table of what is tried again when a process dies: one situation a row."""

from __future__ import annotations

from collections import Counter

import pytest

from spillscan.history.audit.messages import Batch, Item
from spillscan.history.audit.pool import MOST_DEATHS, _again, _Death
from spillscan.output.errors import SpillscanError


def items(names: str, together: str = "") -> tuple[Item, ...]:
    return tuple(Item(uri=name, path=f"/{name}", size_bytes=1, together=together) for name in names)


def batch(names: str, together: str = "") -> Batch:
    return Batch(run="r", root="data", label="v1", items=items(names, together))


@pytest.mark.parametrize(
    ("names", "together", "rest", "suspect", "before", "pieces", "why"),
    [
        ("abcdef", "", "abcdef", "", 0, ["abc", "def"], "halves, where nothing was being read"),
        ("abcdef", "", "abcde", "", 0, ["ab", "cde"], "of an odd number"),
        ("abcdef", "", "f", "", 0, ["f"], "one is left of several"),
        ("abcdef", "", "cdef", "c", 0, ["def", "c"], "the suspect comes first, as the last piece"),
        ("abcdef", "", "c", "c", 0, ["c"], "the suspect is all that is left"),
        ("a", "", "a", "a", 0, ["a"], "one file: once more"),
        ("a", "", "a", "a", MOST_DEATHS - 1, ["!a"], "one file, again and again: refused"),
        ("abc", "x", "abc", "b", 0, ["abc"], "read together: once more"),
        ("abc", "x", "abc", "b", 1, ["ac", "b"], "and then in pieces"),
        ("a", "", "", "", 0, [], "nothing is left"),
    ],
)
def test_what_is_tried_again(
    names: str, together: str, rest: str, suspect: str, before: int, pieces: list[str], why: str
) -> None:
    piece = batch(names, together)
    left = tuple(each for each in piece.items if each.uri in rest)
    death = _Death("was killed", left, next((each for each in left if each.uri == suspect), None), "hash")
    found = list(_again(piece, death, Counter({together or names: before})))
    assert ["!" * bool(each.refused) + "".join(item.uri for item in each.items) for each in found] == pieces, why
    assert {each.refused for each in found if each.refused} <= {
        "a cannot be read: each process that read it was killed; is there memory enough?"
    }


def test_where_writing_kills_it_ends() -> None:
    piece = batch("a")
    with pytest.raises(SpillscanError, match="write into data die: the last was killed"):
        list(_again(piece, _Death("was killed", piece.items, None, ""), Counter(a=2 * MOST_DEATHS)))
    assert list(_again(piece, _Death("was killed", piece.items, None, ""), Counter(a=2 * MOST_DEATHS - 1)))
