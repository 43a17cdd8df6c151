"""Errors in an input, a configuration or a call; each names the problem and the fix."""

from __future__ import annotations

from collections.abc import Collection
from os.path import commonprefix


class SpillscanError(Exception):
    """One-line message for the user: the problem, and how to fix it. The command exits with 2."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what


class InputError(SpillscanError):
    """An input cannot be read, or nothing in it was understood."""


class NoBuildError(InputError):
    """The input is a spillscan report that contains no build."""


class StoreError(InputError):
    """An object store failed, or does not answer; another attempt may fix it."""


class UsageError(SpillscanError):
    """The call or the configuration is wrong."""


class UndecidedError(SpillscanError):
    """The input was read, but lacks data that a gate needs; a gate never passes on a guess."""


def nearest(name: str, known: Collection[str]) -> str:
    """Hint for an unknown name: ``did you mean max_registers?``, else all known names if they are few."""
    if near := closest(name, known):
        return f"did you mean {near}?"
    return f"use one of {', '.join(known)}" if len(known) <= _FEW else ""


_FEW = 10
"""Maximum number of names in a hint."""
_LIKE = 0.7


def closest(name: str, known: Collection[str]) -> str:
    """The known name most similar to ``name`` or to its beginning; empty if none is similar."""
    from difflib import SequenceMatcher

    word = _plain(name)

    def likeness(other: str) -> float:
        other = _plain(other)
        return max(SequenceMatcher(None, word, text).ratio() for text in (other, other[: len(word)]))

    def rank(other: str) -> tuple[float, int, int]:
        return likeness(other), len(commonprefix([word, _plain(other)])), -len(other)  # noqa: RUF071 - not paths

    best = max(sorted(known), key=rank, default="")
    return best if best and likeness(best) >= _LIKE else ""


def _plain(name: str) -> str:
    """Name without the dashes of an option, which would make all options similar, and without template arguments."""
    return name.partition("<")[0].lower().lstrip("-").replace("-", "_")
