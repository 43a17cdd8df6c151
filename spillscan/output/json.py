"""JSON text in pieces."""

from __future__ import annotations

from collections.abc import Iterator


def array(items: Iterator[str], indent: str = "  ") -> Iterator[str]:
    """JSON texts as an array, one a line."""
    yield "["
    separator = f"\n{indent}"
    for item in items:
        yield separator + harmless(item)
        separator = f",\n{indent}"
    yield f"\n{indent[:-2]}]" if separator[0] == "," else "]"


def harmless(text: str) -> str:
    """JSON that means the same and holds no ``##[command]``, which GitHub's runner obeys anywhere in a line that a step
    prints. Outside of strings JSON has no ``#``."""
    return text.replace("##", "#\\u0023") if "##" in text else text
