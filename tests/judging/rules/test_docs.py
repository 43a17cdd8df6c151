"""Pages of rules and gaps, and their details in ``docs/explain``; as a module, writes their tables and examples."""

from __future__ import annotations

import re
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from spillscan.judging.rule_docs import explanations
from spillscan.judging.rules import all_rules
from spillscan.model.gaps import KINDS, may_hide
from tests.conftest import ROOT
from tests.judging.rules.test_rules import EXAMPLES, findings

EXAMPLE = re.compile(r"\*Example\.\* .*?(?=\n\n)", re.S)
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.S)
DOCS = ROOT / "docs"
SEVERITIES = ("error", "warning", "note")
GROUPS = {
    "Log": """truncated torn-line lost-lines line-too-long interleaved unnamed-kernel unread-spill-warning unknown-line
        unknown-clause unattached-advisory unattached-setmaxnreg""",
    "Build": """build-failed build-incomplete unfinished-unit unreported-unit stale-unit changed-input unknown-headers
        step-retried host-step-failed""",
    "File": """no-kernel unreadable nothing-recognised left-out left-out-report selected-kernels damaged
        damaged-lines unopened-member ptx-only unsupported-arch unknown-arch unknown-opcode damaged-listing mixed-input
        tool-message undecodable arch-required""",
    "Metric": """unknown-spills unknown-registers registers-not-final unknown-stack unknown-shared unknown-blocks
        unknown-code spill-mismatch registers-mismatch shared-mismatch setmaxnreg-mismatch launch-mismatch
        ambiguous-sass not-in-dump not-in-log profile-unmatched profile-contradicts profiler-error""",
    "Comparison and policy": """policy-names-nothing launch-overruled accept-expired accept-expires
        removed-kernels renamed-kernels stale-kernels unrecorded-kernels other-toolkit fewer-kernels not-comparable
        unit-missing arch-missing kernels-missing nothing-compared""",
}
"""Kinds of gaps and issues, grouped by origin."""


def table(document: str) -> Iterator[str]:
    """Lines between the marks; each name has an anchor and links to its details."""
    about = explanations(document)
    if document == "rules":
        yield "| rule | severity | finding |\n|---|---|---|\n"
        for rule in sorted(all_rules().values(), key=lambda each: (SEVERITIES.index(each.severity), each.id)):
            yield f"| {_linked(document, rule.id)} | {rule.severities} | {about[rule.id].title} |\n"
        return
    for name, members in GROUPS.items():
        for heading, hides in (("gaps", True), ("issues", False)):
            chosen = [each for each in members.split() if bool(may_hide(each)) == hides]
            line = f"* **{name} {heading}**: {', '.join(_linked(document, each) for each in chosen)}"
            filled = textwrap.fill(line.replace("<a ", "<a\0"), 124, subsequent_indent="  ", break_on_hyphens=False)
            yield filled.replace("\0", " ") + "\n"


def _linked(document: str, name: str) -> str:
    return f'<a id="{name}"></a>[`{name}`](explain/{document}.md#{name})'


def with_examples(old: str) -> str:
    """The rules with what a gate says of each one's first example."""
    for rule in all_rules():
        case = next((each for each in EXAMPLES if each["rule"] == rule), None)
        assert case, f"examples.yaml has none of {rule}"
        with tempfile.TemporaryDirectory() as folder:
            found = findings(case["fails"], Path(folder))
        message = next(each.message for each in found if each.rule == rule)
        example = textwrap.fill(f"*Example.* `{message}`.", 124, break_long_words=False, break_on_hyphens=False)
        before, heading, after = old.partition(f"\n## {rule}\n")
        place = EXAMPLE.search(after)
        assert place, f"docs/explain/rules.md has no section of {rule} with an `*Example.*`, which is written here"
        old = before + heading + after[: place.start()] + example + after[place.end() :]
    return old


def texts() -> Iterator[tuple[Path, str]]:
    """Each page with its present table or examples."""
    for document in ("rules", "gaps"):
        page = DOCS / f"{document}.md"
        yield page, TABLE.sub(lambda _, of=document: "".join(table(of)), page.read_text(encoding="utf-8"))
    details = DOCS / "explain" / "rules.md"
    yield details, with_examples(details.read_text(encoding="utf-8"))


def test_tables_and_examples_are_present() -> None:
    for page, text in texts():
        assert page.read_text(encoding="utf-8") == text


def test_each_kind_of_gap_is_in_one_group() -> None:
    assert sorted(" ".join(GROUPS.values()).split()) == sorted(KINDS)


def test_everything_is_explained_and_nothing_else() -> None:
    for document, names in (("rules", [*all_rules()]), ("gaps", [*KINDS])):
        explained = [*explanations(document)]
        assert not {*names} - {*explained}, (
            f"docs/explain/{document}.md has no section of these, as rule_docs.py reads it"
        )
        assert sorted(explained) == sorted(names)
    assert list(explanations("rules")) == list(all_rules()), "in this order"


@pytest.mark.parametrize("document", ["rules", "gaps"])
def test_sections_are_whole(document: str) -> None:
    headings = {
        "rules": ["What it means", "Example", "What to do"],
        "gaps": ["What it means", "What to do"],
    }[document]
    for name, about in explanations(document).items():
        assert list(about.parts) == headings, name
        assert 10 < len(about.title) <= 100
        assert not about.title.endswith(".")
        for part in about.parts.values():
            assert len(part) > 3
            assert part.endswith((".", ")"))


if __name__ == "__main__":
    for page, text in [*texts()]:
        page.write_text(text, encoding="utf-8")
