"""Links resolve, the index lists every page, and pages stay short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from spillscan.commands import COMMANDS
from spillscan.commands._options import _OF_FINDINGS, _REPORTS
from spillscan.judging.rule_docs import SITE, address, explanations
from spillscan.reports import formats
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)]*))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(_prose(page)):
        found = page.parent / target if target else page
        assert found.exists(), target
        assert not anchor or found.suffix != ".md" or anchor in anchors(found), (target, anchor)


def _prose(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)


def anchors(page: Path) -> set[str]:
    """Anchors of all headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.*)$", _prose(page), re.M)
    named = re.findall(r'<a id="([^"]+)">', _prose(page))
    return {*named} | {re.sub(r" +", "-", re.sub(r"[^\w\- ]", "", each.lower().strip())) for each in headings}


def test_the_index_leads_to_every_page() -> None:
    index = DOCS / "index.md"
    linked = {(DOCS / target).resolve() for target, _ in LINK.findall(index.read_text(encoding="utf-8"))}
    assert {page.resolve() for page in DOCS.rglob("*.md")} - {index.resolve()} <= linked


def test_every_format_and_command_is_on_a_page() -> None:
    table = re.findall(r"^\|(.*?)\|", (DOCS / "reports.md").read_text(encoding="utf-8"), re.M)
    for name in formats.names():
        assert any(f"`{name}`" in cell for cell in table), f"docs/reports.md has no line for {name}"
        assert name in re.findall(r"\w+", _REPORTS + _OF_FINDINGS), f"commands/_options.py does not name {name}"
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for command in COMMANDS:
        assert re.search(rf"(?:spillscan |`){command}\b", text), f"no page shows spillscan {command}"


def _words(pages: list[Path]) -> int:
    return sum(len(page.read_text(encoding="utf-8").split()) for page in pages)


def test_documents_stay_small() -> None:
    """New text replaces other text, or goes into ``internals``."""
    assert len(list(DOCS.glob("*.md"))) <= 17
    pages = (("docs", DOCS.glob("*.md"), 13_000), ("docs/internals", (DOCS / "internals").glob("*.md"), 8_000))
    for name, of, most in (*pages, ("CHANGELOG.md", [ROOT / "CHANGELOG.md"], 600)):
        words = _words([*of])
        assert words <= most, (
            f"{name} has {words:,} words, {most:,} allowed: take out {words - most} that say the least"
        )


def test_the_site_has_every_page_and_the_places_that_reports_name() -> None:
    site = yaml.safe_load((ROOT / ".ci" / "mkdocs.yml").read_text(encoding="utf-8"))
    assert site["site_url"] == SITE
    listed = [page for part in site["nav"] for page in ([part] if isinstance(part, str) else next(iter(part.values())))]
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    for document in ("rules", "gaps"):
        text = (DOCS / "explain" / f"{document}.md").read_text(encoding="utf-8")
        for name in explanations(document):
            assert address(document, name) == f"{SITE}{document}/#{name}"
            assert name in anchors(DOCS / f"{document}.md")
            assert f"\n## {name}\n" in text
