"""``docs/rules.md`` and ``docs/holes.md`` explain all; ``python -m tests.judging.rules.test_docs`` writes tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from spillscan.judging.rule_docs import explanations
from spillscan.judging.rules import all_rules
from spillscan.model.holes import KINDS
from tests.conftest import ROOT

TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.S)


def table(document: str) -> Iterator[str]:
    """What stands between the marks."""
    about = explanations(document)
    if document == "rules":
        yield "| rule | severity | judges | finds that |\n|---|---|---|---|\n"
        for rule in all_rules().values():
            judges = ", ".join(rule.judges)
            yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity} | {judges} | {about[rule.id].title} |\n"
        return
    yield "| kind | may hide | says that |\n|---|---|---|\n"
    for code, hides in KINDS.items():
        yield f"| [`{code}`](#{code}) | {', '.join(hides) or 'nothing'} | {about[code].title} |\n"


def text(document: str) -> str:
    """The document with its table."""
    old = (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8")
    return TABLE.sub(lambda _: "".join(table(document)), old)


@pytest.mark.parametrize("document", ["rules", "holes"])
def test_the_table_says_what_is_so(document: str) -> None:
    assert (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8") == text(document)


def test_everything_is_explained_and_nothing_else() -> None:
    assert list(explanations("rules")) == list(all_rules())
    assert set(explanations("holes")) == set(KINDS)


@pytest.mark.parametrize("document", ["rules", "holes"])
def test_sections_are_whole(document: str) -> None:
    headings = {
        "rules": ["What it means", "Why it matters", "What to do", "How to tune it"],
        "holes": ["What it means", "What to do"],
    }[document]
    for name, about in explanations(document).items():
        assert list(about.parts) == headings, name
        assert 10 < len(about.title) <= 100
        assert not about.title.endswith(".")
        for part in about.parts.values():
            assert len(part) > 3
            assert part.endswith((".", ")"))


if __name__ == "__main__":
    for each in ("rules", "holes"):
        (ROOT / "docs" / f"{each}.md").write_text(text(each), encoding="utf-8")
