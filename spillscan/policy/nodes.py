"""A policy file as a tree in which each value knows its line; the same for YAML and TOML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from spillscan.errors import UsageError

Plain: TypeAlias = "str | int | float | bool | Mapping[str, Node] | Sequence[Node] | None"


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a file."""

    value: Plain
    """A word, a number, a truth value, nothing; or a mapping or list of nodes."""
    place: str
    """``spillscan.yaml:3``; of a mapping's value, where its key stands."""

    def error(self, what: str, hint: str = "") -> UsageError:
        """The error that this value is wrong."""
        return UsageError(f"{self.place}: {what}", hint)

    @property
    def plain(self) -> object:
        """The value without places, as a JSON parser would give it."""
        if isinstance(self.value, Mapping):
            return {key: node.plain for key, node in self.value.items()}
        if isinstance(self.value, Sequence) and not isinstance(self.value, str):
            return [node.plain for node in self.value]
        return self.value


def described(value: object) -> str:
    """What a value is, for an error: ``'abc'``, ``a list`` …"""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
