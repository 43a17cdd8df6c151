"""Several words that are looked for in a text at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import merge
from itertools import chain
from operator import itemgetter

from ahocorasick_rs import BytesAhoCorasick, MatchKind

_LEAST_BYTES, _MOST_BYTES = 1 << 11, 1 << 20
_MOST_AT_ONCE = 64
"""The library compares vectors as long as it looks for no more words than some dozens."""


class Words:
    """Several words, and what a pattern describes. What holds none of them is passed over at the speed of memory."""

    def __init__(self, *words: bytes, pattern: re.Pattern[bytes] | None = None) -> None:
        self._pattern = pattern
        groups = [words[first : first + _MOST_AT_ONCE] for first in range(0, len(words), _MOST_AT_ONCE)]
        self._searches = [BytesAhoCorasick(each, matchkind=MatchKind.LeftmostFirst) for each in groups]
        self._overlap = max(map(len, words)) - 1

    def positions(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Where the words stand in ``text[start:end]``, from the first on; of words that overlap, perhaps one.

        Reads on only where the next is asked for, in larger and larger steps where there is none.
        """
        end, size = len(text) if end is None else end, _LEAST_BYTES
        view = memoryview(text)
        while start < end:
            following = min(start + size, end)
            window = view[start : min(following + self._overlap, end)]
            first, *others = [search.find_matches_as_indexes(window) for search in self._searches]
            found = sorted(chain(first, *others), key=itemgetter(1)) if others else first
            behind = following
            for _, at, finish in found:
                yield start + at
                behind = max(following, start + finish)
            start, size = behind, _LEAST_BYTES if found else min(2 * size, _MOST_BYTES)

    def stand_in(self, text: bytes) -> bool:
        """Whether ``text`` holds one of them."""
        return next(self.positions(text), None) is not None

    def lines(self, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(begin, end) of each line of ``text[start:end]`` that holds one of them."""
        finish, positions = start, self.positions(text, start, end)
        if self._pattern is not None:
            positions = merge(positions, (match.start() for match in self._pattern.finditer(text, start, end)))
        for position in positions:
            if position >= finish:
                begin = text.rfind(b"\n", start, position) + 1 or start
                finish = text.find(b"\n", position, end)
                finish = end if finish < 0 else finish
                yield begin, finish
