"""Counted nouns, values with bounds, and sizes, as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: ``1 kernel``, ``1,055 kernels``. ``plural``: if it is not ``noun`` with an s."""
    return f"{number:,} {of_number(number, noun, plural)}"


def of_number(number: int, noun: str, plural: str = "") -> str:
    """The noun for a number: ``kernel``, ``kernels``."""
    return noun if number == 1 else plural or noun + "s"


def listed(named: Iterable[str], unnamed: int) -> str:
    """A list of names and the number of the rest: ``a, b and 1,055 more``. The rest is left out if 0 or less."""
    return ", ".join(named) + (f" and {unnamed:,} more" if unnamed > 0 else "")


def between(least: float, most: float, unit: str = "") -> str:
    """A value, or the bounds of an unknown one: ``304 B``, ``4 to 8 B``."""
    return f"{least:,}{unit}" if least == most else f"{least:,} to {most:,}{unit}"


def size(count: int, sign: str = "") -> str:
    """Bytes for people: exact below 1 MiB, else three digits (same as ``bytes`` in ``page/assets/core.js``)."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if abs(count) >= unit:
            amount = count / unit
            return f"{amount:{sign}.3g} {name}" if abs(amount) < 999.5 else f"{amount:{sign},.0f} {name}"
    return f"{count:{sign},} B"


def sizes(*counts: int) -> Sequence[str]:
    """:func:`size` of several counts to compare; exact if different ones would look equal."""
    shown = [size(count) for count in counts]
    return shown if len(set(shown)) == len(set(counts)) else [f"{count:,} B" for count in counts]
