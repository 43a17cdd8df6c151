"""Text in blocks of whole lines. What no tool prints, a line above 1 MB, never reaches what reads lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

LONGEST_BYTES = 1 << 20
"""Longer lines are no tool's report: symbols of 70,000 characters are the longest seen."""
TOO_LONG = "a line of more than 1 MiB, which no tool prints, was not read"


def whole_lines(chunks: Iterable[bytes], too_long: Callable[[], None], lead: bytes = b"") -> Iterator[bytes]:
    """Blocks of whole lines, ``lead`` before each; only the last may lack its line end.

    A line above :data:`LONGEST_BYTES` is replaced by an empty one; ``too_long`` is called before the block that begins
    with it. No more than twice that is held.
    """
    rest, dropping = b"", False
    for piece in _cut(chunks):
        begin, cut = 0, piece.rfind(b"\n") + 1
        if dropping or len(rest) + len(piece) > LONGEST_BYTES:
            end = piece.index(b"\n") if cut else len(piece)
            if dropping or len(rest) + end > LONGEST_BYTES:
                begin, rest, dropping = end, b"", not cut
                if cut:
                    too_long()
        if cut:
            yield b"".join((lead, rest, memoryview(piece)[begin:cut]))  # copied once
            rest = piece[cut:]
        elif not dropping:
            rest += piece
    if dropping:
        too_long()
    if rest:
        yield lead + rest


def _cut(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces, none of which can hold a whole line that is too long."""
    for chunk in chunks:
        if len(chunk) <= LONGEST_BYTES:
            yield chunk
        else:
            yield from (chunk[at : at + LONGEST_BYTES] for at in range(0, len(chunk), LONGEST_BYTES))
