"""What is large in a page, deflated: the script unpacks it (``unpack`` of ``core.js``)."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any

PLAIN_CHARACTERS = 60_000
"""Values of a payload, and names together, that have no more are written as they are."""
MOST_CHARACTERS = 96_000_000
"""What a browser should hold: beyond it each name keeps its head and tail."""
_LEAST_CHARACTERS = 300
_CHUNK_CHARACTERS = 2_000_000


def deflated(text: str) -> str:
    """What ``unpack`` of ``core.js`` reads: DEFLATE in base64. A higher level takes twice the time for a twentieth."""
    return b64encode(zlib.compress(text.encode(), 6)).decode()


def packed(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """``plain``: [symbols, demangled names]; or ``packed``: each of the two in chunks, a chunk being a JSON list,
    deflated, in base64. Symbols stand beside symbols: what names of one template share is then near enough to be found.

    A demangled name that is the symbol is empty. ``cut``: how many characters a name keeps; ``None``: none is cut.
    """
    total = sum(len(symbol) + len(name) for symbol, name in pairs)
    cut = None if total <= MOST_CHARACTERS else max(_LEAST_CHARACTERS, MOST_CHARACTERS // (2 * len(pairs)))
    symbols = [_clip(symbol, cut) for symbol, _ in pairs]
    names = ["" if name == symbol else _clip(name, cut) for symbol, name in pairs]
    if total <= PLAIN_CHARACTERS:
        return {"plain": [symbols, names], "cut": None}
    return {
        "packed": [[deflated(json.dumps(chunk)) for chunk in _chunks(texts)] for texts in (symbols, names)],
        "cut": cut,
    }


def _clip(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2) :]}"


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
