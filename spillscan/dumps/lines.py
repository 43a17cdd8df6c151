"""Lines of a byte stream, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.dumps.blocks import Stream

SIZE = 1 << 18
LONGEST = 1 << 22
"""Bytes; a line longer than this is cut."""


def lines(stream: Stream) -> Iterator[bytes]:
    """Each line with its end; the last may have none."""
    rest = b""
    while data := stream.read(SIZE):
        pieces = (rest + data).splitlines(keepends=True) if b"\r" not in data else _split(rest + data)
        rest = b""
        if not pieces[-1].endswith(b"\n"):
            rest = pieces.pop()
            if len(rest) > LONGEST:
                pieces.append(rest)
                rest = b""
        yield from pieces
    if rest:
        yield rest


def _split(data: bytes) -> list[bytes]:
    """``bytes.splitlines`` also ends a line at a lone carriage return; a dump's lines end at line feeds."""
    pieces = [piece + b"\n" for piece in data.split(b"\n")]
    last = pieces.pop()[:-1]
    return [*pieces, last] if last else pieces
