"""What can be wrong with an input, a configuration or a call; each error says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Collection
from os.path import commonprefix


class SpillscanError(Exception):
    """One line for the user: what is wrong, and what to do about it. The command exits with 2."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}; {self.hint}" if self.hint else self.what


class InputError(SpillscanError):
    """An input cannot be read, or nothing in it was understood."""


class NoBuildError(InputError):
    """An input is a report of spillscan's own that holds no build."""


class StoreError(InputError):
    """An object store failed, or does not answer; another attempt may fix it."""


class UsageError(SpillscanError):
    """The call or the configuration is wrong."""


class UndecidedError(SpillscanError):
    """The input was read, but leaves open what a gate must know; a gate never passes on a guess."""


def nearest(name: str, known: Collection[str]) -> str:
    """The hint of an error: ``did you mean max_registers?``, else all that is known if that is little."""
    if near := closest(name, known):
        return f"did you mean {near}?"
    return f"one of {', '.join(known)}" if len(known) <= _FEW else ""


_FEW = 10
"""Names that a hint may list."""
_LIKE = 0.6


def closest(name: str, known: Collection[str]) -> str:
    """The known name that is most like ``name``, or begins most like it; empty if none is like it."""
    from difflib import SequenceMatcher

    word = name.lower().replace("-", "_")

    def likeness(other: str) -> float:
        other = other.lower().replace("-", "_")
        return max(SequenceMatcher(None, word, text).ratio() for text in (other, other[: len(word)]))

    def rank(other: str) -> tuple[float, int]:
        return likeness(other), len(commonprefix([word, other.lower()]))  # noqa: RUF071 - not of paths

    best = max(known, key=rank, default="")
    return best if best and likeness(best) >= _LIKE else ""
