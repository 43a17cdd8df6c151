"""Base names in few characters: whole words of them, rather those that say most."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence

_WORD = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|_+|.")
_MOST_WORDS = 60
"""Words of a name that are looked at; a real one has fewer."""
_MOST_CHOICES = 12


def words_of(text: str) -> list[str]:
    """``DeviceScanKernel`` is three words."""
    return _WORD.findall(text)


def cut(base: str, width: int, common: Mapping[str, int], taken: Collection[str] = ()) -> str:
    """``base`` in ``width`` characters: whole words, rather those that few names have; ``…`` for what is left out."""
    return cuts(base, (width,), common, taken)[0]


def cuts(base: str, widths: Iterable[int], common: Mapping[str, int], taken: Collection[str] = ()) -> list[str]:
    """:func:`cut` to several widths."""
    words = words_of(base)[:_MOST_WORDS]
    order = sorted(
        range(len(words)), key=lambda at: (len(words[at]) < 3, common.get(words[at], 0), -len(words[at]), at)
    )
    order = [at for at in order if words[at].strip("_")]
    return [_cut(base, words, order, width, taken) for width in widths]


def _cut(base: str, words: Sequence[str], order: list[int], width: int, taken: Collection[str]) -> str:
    for skipped in range(min(len(order), _MOST_CHOICES)):  # another choice, where this one is taken
        kept: list[int] = []
        length = 1
        for at in order[skipped:] + order[:skipped]:
            if length + len(words[at]) - 1 > width:  # at best, it takes the place of the sign for what is left out
                continue
            place = bisect(kept, at)
            left, right = kept[place - 1] if place else -1, kept[place] if place < len(kept) else len(words)
            gaps = _gap(words, left, at) + _gap(words, at, right) - _gap(words, left, right)
            if length + len(words[at]) + gaps <= width:
                length += len(words[at]) + gaps
                kept.insert(place, at)
        text = _with_gaps(words, kept) if kept else ""
        if text and text not in taken:
            return text
    return f"{base[: max(1, width // 2)]}…{base[len(base) - max(1, width - width // 2 - 1) :]}"


def _gap(words: Sequence[str], left: int, right: int) -> int:
    """Characters between two words of which none in between is kept; the ends of the name are words, too."""
    if right == left + 1:
        return 0
    bridged = left >= 0 and right == left + 2 and right < len(words) and not words[left + 1].strip("_")
    return len(words[left + 1]) if bridged else 1


def _with_gaps(words: Sequence[str], kept: Iterable[int]) -> str:
    text, last = "", -1
    for at in kept:
        if at == last + 1:
            text += words[at]
        elif last >= 0 and at == last + 2 and not words[at - 1].strip("_"):
            text += words[at - 1] + words[at]
        else:
            text += f"…{words[at]}"
        last = at
    return text if last == len(words) - 1 else f"{text}…"
