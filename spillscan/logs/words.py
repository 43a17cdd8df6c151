"""Words that lines of interest hold, looked for all at once: most of a build's log holds none of them."""

from __future__ import annotations

from collections.abc import Iterator

from ahocorasick_rs import BytesAhoCorasick, MatchKind

_LEAST_BYTES, _MOST_BYTES = 1 << 11, 1 << 20


class Words:
    """Several words. What holds none of them is passed over at the speed of memory: the library compares vectors."""

    def __init__(self, *words: bytes) -> None:
        self._search = BytesAhoCorasick(words, matchkind=MatchKind.LeftmostFirst)
        self._overlap = max(map(len, words)) - 1

    def positions(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Where the words stand in ``text[start:end]``, from the first on; of words that overlap, one.

        Reads on only where the next is asked for, in larger and larger steps where there is none.
        """
        end, size = len(text) if end is None else end, _LEAST_BYTES
        view = memoryview(text)
        while start < end:
            following = min(start + size, end)
            found = self._search.find_matches_as_indexes(view[start : min(following + self._overlap, end)])
            behind = following
            for _, at, finish in found:
                if start + at < following:
                    yield start + at
                    behind = max(following, start + finish)
            start, size = behind, _LEAST_BYTES if found else min(2 * size, _MOST_BYTES)

    def stand_in(self, text: bytes) -> bool:
        """Whether ``text`` holds one of them."""
        return next(self.positions(text), None) is not None

    def lines(self, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(begin, end) of each line of ``text[start:end]`` that holds one of them."""
        finish = start
        for position in self.positions(text, start, end):
            if position >= finish:
                begin = text.rfind(b"\n", start, position) + 1 or start
                finish = text.find(b"\n", position, end)
                finish = end if finish < 0 else finish
                yield begin, finish
