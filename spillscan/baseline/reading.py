"""Baseline text into a baseline; every mistake is one line that says where.

What :mod:`~spillscan.baseline.writing` writes is read line by line, some fifty times as fast as YAML. Where a single
line below ``kernels:`` is not as it was written (edited, reformatted), all of them are read as YAML; tests hold both
ways equal.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from spillscan.baseline.keys import parse_key
from spillscan.baseline.model import Baseline, Copies, Entry, Figures, Identity
from spillscan.baseline.nodes import Document, cut
from spillscan.baseline.preamble import read_preamble
from spillscan.errors import UsageError

if TYPE_CHECKING:
    from yaml import Node

_KERNELS = re.compile(r"^kernels:", re.MULTILINE)
_CONFLICT = re.compile(r"^(?:<{7}|\|{7}|={7}|>{7})(?: .*)?$", re.MULTILINE)

_STRING = r'"([ !#-\[\]-~\xa1-\u1fff\u2010-\u2027\u2030-\ud7ff]*)"'
_NUMBER = r"(?:0|[1-9][0-9]{0,17})"
_NAME = r"[a-z][a-z0-9_-]*"
_NAMED = re.compile(_NAME)
_FIGURES = rf"\{{{_NAME}: {_NUMBER}(?:, {_NAME}: {_NUMBER})*\}}"
_COPIES = rf"(?:{_FIGURES}|\[{_FIGURES}(?:, {_FIGURES})*\])"
_LINE = re.compile(
    rf"  (?:(_Z[A-Za-z0-9_.$]*(?:~[0-9a-f]{{16}})? [a-z][a-z0-9_]*(?:/function)?)|{_STRING}):"
    rf" \{{name: {_STRING}((?:, {_NAME}: {_COPIES})*)\}}\n"
)
_RULE = re.compile(rf", ({_NAME}): ({_COPIES})")
_BRACES = re.compile(r"\{([^}]*)\}")


def parse(text: str, label: str) -> Baseline:
    """The baseline that ``text`` holds; ``label`` is what the user calls the file. Raises :class:`UsageError`."""
    text = text.replace("\r\n", "\n")
    conflict = _CONFLICT.search(text)
    if conflict:
        Document(label).fail(
            text.count("\n", 0, conflict.start()) + 1,
            "a merge conflict is not resolved",
            "every line below `kernels:` stands for itself: keep the lines that you want of either side",
        )
    start = _KERNELS.search(text)
    if not start:
        raise UsageError(f"{label} is no baseline: it has no `kernels:`", "`spillscan baseline write` makes one")
    preamble, body = text[: start.start()], text[start.start() :]
    suppressions = read_preamble(preamble, Document(label))
    document = Document(label, preamble.count("\n") + 1)
    entries = entries_by_line(body)
    if entries is None:
        entries = entries_by_yaml(body, document)
    return Baseline(entries=entries, suppressions=suppressions, preamble=preamble)


def entries_by_line(body: str) -> dict[Identity, Entry] | None:
    """The entries where all of ``body`` is as it was written; else ``None``."""
    heading = "kernels:\n"
    if not body.startswith(heading) or body == heading:
        return None
    entries: dict[Identity, Entry] = {}
    position = len(heading)
    while position < len(body):
        line = _LINE.match(body, position)
        identity = parse_key(line[1] or line[2] or "") if line else None
        if not line or not identity or identity in entries:
            return None
        recorded = _recorded(line[4])
        if recorded is None:
            return None
        entries[identity] = Entry(name=line[3], recorded=recorded)
        position = line.end()
    return entries


def entries_by_yaml(body: str, document: Document) -> dict[Identity, Entry]:
    """The entries of ``body``, which begins with ``kernels:``, whatever its style."""
    root = document.compose(body)
    assert root is not None
    entries: dict[Identity, Entry] = {}
    for name, key, value in document.mapping(root, "the baseline"):
        if name != "kernels":
            document.fail(document.line(key), f"{cut(name)} stands behind `kernels:`", "move it above")
        for text, key_node, node in document.mapping(value, "`kernels`"):
            identity = parse_key(text)
            if identity is None:
                document.fail(document.line(key_node), f"{cut(text)} is no kernel", "a key is a symbol and an arch")
            entries[identity] = _entry(node, document)
    return entries


@lru_cache(maxsize=4096)
def _recorded(text: str) -> dict[str, Copies] | None:
    """What ``, spill: {loads: 216, stores: 304}`` says; ``None`` where something stands twice. Not to be changed."""
    recorded: dict[str, Copies] = {}
    for rule, copies in _RULE.findall(text):
        figures = tuple(_figures(braces) for braces in _BRACES.findall(copies))
        if rule in recorded or any(len(dict(each)) != len(each) for each in figures):
            return None
        recorded[rule] = figures
    return None if "name" in recorded else recorded


def _figures(text: str) -> Figures:
    pairs = (pair.split(": ") for pair in text.split(", "))
    return tuple(sorted((name, int(value)) for name, value in pairs))


def _entry(node: Node, document: Document) -> Entry:
    name = None
    recorded: dict[str, Copies] = {}
    for key, key_node, value in document.mapping(node, "an entry"):
        if key == "name":
            name = document.text(value, "`name`")
        elif _NAMED.fullmatch(key):
            recorded[key] = _copies(value, key, document)
        else:
            document.fail(document.line(key_node), f"{cut(key)} is no rule")
    if name is None:
        document.fail(document.line(node), "an entry has no `name`")
    return Entry(name=name, recorded=recorded)


def _copies(node: Node, rule: str, document: Document) -> Copies:
    import yaml

    nodes: list[Node] = node.value if isinstance(node, yaml.SequenceNode) else [node]
    copies = []
    for each in nodes:
        figures = []
        for name, key, value in document.mapping(each, f"what is recorded of {cut(rule)}"):
            if not _NAMED.fullmatch(name):
                document.fail(document.line(key), f"{cut(name)} is no figure")
            figures.append((name, document.whole_number(value, f"`{name}`")))
        copies.append(tuple(sorted(figures)))
    if not copies or not all(copies):
        document.fail(document.line(node), f"{cut(rule)} has no figures", "remove it, or the whole entry")
    return tuple(copies)
