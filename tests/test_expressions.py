"""Expressions mean the same to every Python that the package runs on."""

from __future__ import annotations

import re

from tests.conftest import ROOT

REPEATED_GROUP = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+")
SOURCES = [
    path
    for folder in ("spillscan", "grammars")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".lark", ".regex")
]


def test_no_group_is_repeated_possessively() -> None:
    """CPython before 3.11.5 (Debian 12 has 3.11.2) goes on behind what the repetition that fails has passed
    (https://github.com/python/cpython/issues/106052): ``(?:a|b(?!c))++`` may then match nothing. ``(?>(?:…)+)`` is the
    same, and right. Single characters may be repeated so."""
    assert len(SOURCES) > 200
    assert not [path.name for path in SOURCES if REPEATED_GROUP.search(path.read_text(encoding="utf-8"))]
