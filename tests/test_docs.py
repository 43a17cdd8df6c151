"""Every page is led to, every link leads somewhere, and the glossary stays short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from spillscan.judging.rule_docs import SITE, address, explanations
from tests.conftest import ROOT

PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for target in LINK.findall(text):
        assert (page.parent / target).exists(), target


def test_the_index_leads_to_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text(encoding="utf-8"))}
    assert {page.resolve() for page in (ROOT / "docs").glob("*.md")} - {index.resolve()} <= linked


def test_the_glossary_is_short_and_in_order() -> None:
    terms = re.findall(r"^\| \*\*([^*]+)\*\* \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M)
    assert terms == sorted(terms, key=str.lower)
    assert 30 < len(terms) <= 40


def test_the_site_has_every_page_and_the_places_that_reports_name() -> None:
    site = yaml.safe_load((ROOT / ".ci" / "mkdocs.yml").read_text(encoding="utf-8"))
    assert site["site_url"] == SITE
    listed = [page for part in site["nav"] for page in ([part] if isinstance(part, str) else next(iter(part.values())))]
    assert sorted(listed) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))
    for document in ("rules", "holes"):
        text = (ROOT / "docs" / f"{document}.md").read_text(encoding="utf-8")
        for name in explanations(document):
            assert address(document, name) == f"{SITE}{document}/#{name}"
            assert f"\n## {name}\n" in text
