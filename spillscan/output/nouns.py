"""Counted nouns."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 kernel``, ``1,055 kernels``; ``plural``: what is no ``noun`` with an s."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
