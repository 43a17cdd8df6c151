"""What can be wrong with an input, a configuration or a call; each error says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Collection


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
    """``did you mean 'max_registers'?``, or all that is known where nothing is near: the hint of an error."""
    import difflib

    near = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.5)
    near = near or difflib.get_close_matches(name.lower().replace("_", "-"), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
