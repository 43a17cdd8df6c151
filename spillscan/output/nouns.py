"""Counted nouns, figures with their bounds, and bytes, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 kernel``, ``1,055 kernels``; ``plural``: what is no ``noun`` with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(named: Iterable[str], unnamed: int) -> str:
    """``a, b and 1,055 more``: some by their names, and how many there are besides; 0 or less: none."""
    return ", ".join(named) + (f" and {unnamed:,} more" if unnamed > 0 else "")


def between(least: float, most: float, unit: str = "") -> str:
    """``304 B``, ``4 to 8 B``: a figure, or the bounds of one that is not known."""
    return f"{least:,}{unit}" if least == most else f"{least:,} to {most:,}{unit}"


def size(count: int, sign: str = "") -> str:
    """Bytes for people: exact below 1 MiB, else three digits (``bytes`` in ``page/assets/core.js`` says the same)."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if abs(count) >= unit:
            amount = count / unit
            return f"{amount:{sign}.3g} {name}" if abs(amount) < 999.5 else f"{amount:{sign},.0f} {name}"
    return f"{count:{sign},} B"


def sizes(*counts: int) -> Sequence[str]:
    """:func:`size` of bytes that are held against each other: exact where different ones would look equal."""
    shown = [size(count) for count in counts]
    return shown if len(set(shown)) == len(set(counts)) else [f"{count:,} B" for count in counts]
