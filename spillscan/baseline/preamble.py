"""The part of a baseline that people write: version and suppressions."""

from __future__ import annotations

from datetime import date
from difflib import get_close_matches
from typing import TYPE_CHECKING

from spillscan.baseline.model import Suppression
from spillscan.baseline.nodes import Document, cut, shown
from spillscan.errors import UsageError
from spillscan.patterns import compiled

if TYPE_CHECKING:
    from yaml import Node

VERSION = 1
"""Of the file's format, and of what :func:`spillscan.identity.canonical` makes of symbols."""

_FIELDS = ("kernel", "rule", "arch", "reason", "until")


def read_preamble(text: str, document: Document) -> tuple[Suppression, ...]:
    """The suppressions of the text above ``kernels:``, which must name a version that is known."""
    root = document.compose(text)
    if root is None:
        document.fail(1, "no `version`", f"write `version: {VERSION}`")
    version = None
    suppressions: tuple[Suppression, ...] = ()
    for name, key, value in document.mapping(root, "the baseline"):
        if name == "version":
            version = document.whole_number(value, "`version`")
            if version != VERSION:
                document.fail(document.line(value), f"version {version}; this spillscan reads version {VERSION}")
        elif name == "suppressions":
            items = [] if value.tag.endswith(":null") else document.sequence(value, "`suppressions`")
            suppressions = tuple(_suppression(item, document) for item in items)
        else:
            _unknown(name, key, ("version", "suppressions"), document)
    if version is None:
        document.fail(document.line(root), "no `version`", f"write `version: {VERSION}`")
    return suppressions


def _suppression(node: Node, document: Document) -> Suppression:
    fields: dict[str, str] = {}
    until = date.max
    for name, key, value in document.mapping(node, "a suppression"):
        if name not in _FIELDS:
            _unknown(name, key, _FIELDS, document)
        fields[name] = document.text(value, f"`{name}`")
        if name == "until":
            until = _date(value, document)
        elif name == "kernel":
            _check_pattern(fields[name], document.line(value), document)
    missing = [name for name in _FIELDS if name not in fields and name != "arch"]
    if missing:
        document.fail(document.line(node), f"a suppression without `{missing[0]}`", "it must say " + _say())
    return Suppression(
        kernel=fields["kernel"],
        rule=fields["rule"],
        arch=fields.get("arch"),
        reason=" ".join(fields["reason"].split()),
        until=until,
        line=document.line(node),
    )


def _date(node: Node, document: Document) -> date:
    try:
        return date.fromisoformat(str(node.value))
    except ValueError:
        document.fail(document.line(node), f"`until` must be a day such as 2030-01-31, not {shown(node)}")


def _check_pattern(pattern: str, line: int, document: Document) -> None:
    try:
        compiled(pattern)
    except UsageError as error:
        document.fail(line, error.what)


def _say() -> str:
    *most, last = (f"`{name}`" for name in _FIELDS if name != "arch")
    return f"{', '.join(most)} and {last}"


def _unknown(name: str, key: Node, known: tuple[str, ...], document: Document) -> None:
    near = get_close_matches(name, known, 1)
    hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
    document.fail(document.line(key), f"unknown key {cut(name)}", hint)
