"""Texts of rules and gaps: ``docs/explain/rules.md`` and ``docs/explain/gaps.md``, which are in the package.

These documents are the only source of the texts: ``explain``, SARIF, the policy's schema and error messages quote them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from spillscan.output.files import shipped

SITE = "https://spillscan.readthedocs.io/en/latest/"
"""URL where the documents are published; also in ``.ci/mkdocs.yml``."""

_SECTION = re.compile(r"^## (?P<name>[a-z0-9-]+)\n\n\*\*(?P<title>.*?)\.\*\* (?P<rest>.*?)(?=^## |\Z)", re.M | re.S)
_PART = re.compile(r"\n\n\*(?P<heading>[A-Z][^*.]*)\.\* ")


class Explanation(Struct, frozen=True, kw_only=True):
    """One section of a document, as plain text with names in backquotes."""

    title: str
    """Statement of the problem: one sentence without its full stop."""
    parts: Mapping[str, str]
    """Text by heading, in order: ``What it means``, ``Example`` (rules only), ``What to do``."""

    @property
    def fix(self) -> str:
        """Text of ``What to do`` as a hint, without a capital letter and a full stop."""
        text = self.parts["What to do"]
        return text[0].lower() + text[1:].rstrip(".")


def address(document: str, name: str) -> str:
    """URL of ``name`` in the published list of rules or gaps."""
    return f"{SITE}{document}/#{name}"


@cache
def explanations(document: str) -> Mapping[str, Explanation]:
    """Sections of ``docs/explain/{document}.md`` by name."""
    with open(os.path.join(shipped("docs"), "explain", f"{document}.md"), encoding="utf-8") as file:
        text = file.read()
    return {match["name"]: _explanation(match) for match in _SECTION.finditer(text)}


def _explanation(match: re.Match[str]) -> Explanation:
    means, *others = _PART.split(match["rest"])
    texts = [means, *others[1::2]]
    headings = ["What it means", *others[::2]]
    parts = {heading: " ".join(text.split()) for heading, text in zip(headings, texts, strict=True)}
    return Explanation(title=" ".join(match["title"].split()), parts=parts)
