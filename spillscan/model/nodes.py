"""YAML as a tree in which each value knows its line.

Safe: only plain values, no tags, no anchors, and no objects are constructed. Scalars follow YAML 1.2: ``off``, ``no``
and ``on`` are words, not booleans, and ``010`` is ten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from spillscan.output.errors import UsageError

if TYPE_CHECKING:
    import yaml

Plain: TypeAlias = "str | int | float | bool | Mapping[str, Node] | Sequence[Node] | None"

DEPTH = 20
"""Most levels of nesting; deeper files are rejected."""


class Node(Struct, frozen=True):
    """A value in a file."""

    value: Plain
    """A word, a number, a boolean or nothing; or a mapping or list of nodes."""
    place: str
    """``spillscan.yaml:3``; for a mapping's value, the place of its key."""
    written: str = ""
    """A word or number of YAML as written in the file: ``010``."""

    def error(self, what: str, hint: str = "") -> UsageError:
        """Error about this value."""
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
    """Description of a value for an error: ``'abc'``, ``a list`` …"""
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


# ---- YAML ---------------------------------------------------------------------------------------------------------

_TAG = "tag:yaml.org,2002:"
_SCALARS = {
    "bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "null": re.compile(r"~|null|Null|NULL|"),
    "int": re.compile(r"[-+]?[0-9]{1,30}"),
    "float": re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"),
}
"""Patterns of plain scalars that are not words."""


def parse_yaml(text: str, name: str) -> Node:
    """Root of the only document in ``text``; an empty mapping if there is none.

    ``name`` is the name of the file. Text that the C parser rejects is parsed again by the Python one, whose messages
    are the same on every machine.
    """
    import yaml

    loaders = [loader for loader in (getattr(yaml, "CSafeLoader", None), yaml.SafeLoader) if loader]
    for loader in loaders:
        try:
            return _Composer(yaml.parse(text, Loader=loader), name).document()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = f"{name}:{mark.line + 1}" if mark else name
            broken = UsageError(f"{place}: invalid YAML: {error.problem or error.context}")
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, int(error.position)) + 1
            broken = UsageError(f"{name}:{line}: invalid YAML: {error.reason}")
    raise broken


class _Composer:
    """Builder of nodes from a parser's events."""

    def __init__(self, events: Iterator[Any], name: str) -> None:
        import yaml

        self._yaml = yaml
        self._events = events
        self._name = name

    def document(self) -> Node:
        """Root of the only document."""
        root = Node({}, f"{self._name}:1")
        next(self._events)
        documents = 0
        while not isinstance(event := next(self._events), self._yaml.StreamEndEvent):
            documents += 1
            if documents > 1:
                raise UsageError(f"{self._place(event)}: second YAML document", "keep one document per file")
            first = next(self._events)
            root = self._node(first, self._place(first), 0)
            next(self._events)
        return root

    def _place(self, event: yaml.Event) -> str:
        return f"{self._name}:{(event.start_mark.line if event.start_mark else 0) + 1}"

    def _node(self, event: Any, place: str, depth: int) -> Node:
        self._refuse_anchor(event)
        if isinstance(event, self._yaml.ScalarEvent):
            return Node(_scalar(event, place), place, event.value)
        if depth > DEPTH:
            raise UsageError(f"{place}: nested too deeply", f"use at most {DEPTH} levels")
        if isinstance(event, self._yaml.MappingStartEvent) and event.tag in (None, "!", _TAG + "map"):
            return Node(self._mapping(depth), place)
        if isinstance(event, self._yaml.SequenceStartEvent) and event.tag in (None, "!", _TAG + "seq"):
            return Node(self._sequence(depth), place)
        raise UsageError(f"{place}: unsupported YAML tag {event.tag}", "remove the tag")

    def _refuse_anchor(self, event: Any) -> None:
        if getattr(event, "anchor", None):
            raise UsageError(f"{self._place(event)}: YAML anchors and aliases are not supported", "write the value out")

    def _mapping(self, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while not isinstance(key := next(self._events), self._yaml.MappingEndEvent):
            place = self._place(key)
            self._refuse_anchor(key)
            if not isinstance(key, self._yaml.ScalarEvent):
                raise UsageError(f"{place}: a key must be text, not a list or a mapping")
            if key.value in found:
                raise UsageError(
                    f"{place}: key {described(key.value)} appears twice",
                    f"merge it with the one at {found[key.value].place}",
                )
            found[key.value] = self._node(next(self._events), place, depth + 1)
        return found

    def _sequence(self, depth: int) -> list[Node]:
        found = []
        while not isinstance(item := next(self._events), self._yaml.SequenceEndEvent):
            found.append(self._node(item, self._place(item), depth + 1))
        return found


def _scalar(event: Any, place: str) -> str | int | float | bool | None:
    text: str = event.value
    tag = event.tag
    if tag is None and event.implicit[0]:
        tag = _TAG + next((kind for kind, pattern in _SCALARS.items() if pattern.fullmatch(text)), "str")
    kind = (tag or "").removeprefix(_TAG)
    if kind in ("", "!", "str"):
        return text
    if kind not in _SCALARS or not _SCALARS[kind].fullmatch(text):
        raise UsageError(f"{place}: {text[:40]!r} is not a valid {ascii(kind)[1:-1]}", "write the value without a tag")
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    return int(text) if kind == "int" else float(text)
